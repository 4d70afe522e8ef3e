//! Drivers that replace an in-tree volume plugin (KEP-625): claims, classes and volumes may still carry the plugin's name.
//!
//! A class of the plugin is translated before anything is planned by it, and the plan keeps the translated one
//! ([`csi_class`]). The volume that the driver makes is written as a volume of the plugin ([`in_tree_volume`]), and deleted
//! under the handle that is told by what was written ([`volume_source`]).

use std::sync::Arc;

use controller_runtime::Mention;
use csi_translation::{Class, class_provisioner, class_to_csi, volume_to_csi, volume_to_in_tree};
use serde::Deserialize as _;
use serde_json::Value;
use storage_kube::in_tree::InTreePlugin;
use storage_kube::names::{Interner, VolumeHandle};
use storage_kube::wire::PersistentVolume;
use thiserror::Error;

use crate::records::ClassRecord;
use crate::records::class::ClassOwner;
use crate::records::volume::VolumeSource;

/// The names under which objects belong to this provisioner: the driver's, and the in-tree plugin's that it replaces.
#[derive(Debug, Clone)]
pub(crate) struct ProvisionerNames {
    /// Name the driver gave in `GetPluginInfo`.
    pub(crate) driver: String,
    /// The plugin it replaces, if any.
    pub(crate) plugin: Option<InTreePlugin>,
    mention: Mention,
}

impl ProvisionerNames {
    pub(crate) fn of(driver: &str) -> Self {
        let plugin = InTreePlugin::replaced_by(driver);
        let names = [driver].into_iter().chain(plugin.map(InTreePlugin::as_str));
        Self { driver: driver.to_owned(), plugin, mention: Mention::of(names) }
    }

    pub(crate) fn is_driver(&self, name: &str) -> bool {
        self.driver == name
    }

    pub(crate) fn is_in_tree(&self, name: &str) -> bool {
        self.plugin.is_some_and(|plugin| plugin.as_str() == name)
    }

    /// Whether an object with this JSON may hold one of the names. One that does not belongs to somebody else.
    pub(crate) fn may_be_in(&self, json: &[u8]) -> bool {
        self.mention.may_be_in(json)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.is_driver(name) || self.is_in_tree(name)
    }

    /// The plugin, if the class names it: its volumes are the plugin's.
    fn plugin_of(&self, class: &ClassRecord) -> Option<InTreePlugin> {
        self.plugin.filter(|_| class.owner == ClassOwner::InTree)
    }

    /// What a volume of the class says of who made it (annotation `pv.kubernetes.io/provisioned-by`): the class's
    /// provisioner.
    pub(crate) fn provisioned_by(&self, class: &ClassRecord) -> &str {
        self.plugin_of(class).map_or(self.driver.as_str(), |plugin| plugin.as_str())
    }

    /// The driver that a snapshot or volume must belong to, to fill a volume of the class: the provisioner that the class
    /// names once it is translated. A class of a plugin cannot restore or clone, but for Portworx's, as with the Go
    /// provisioner.
    pub(crate) fn driver_of_source(&self, class: &ClassRecord) -> &str {
        self.plugin_of(class).map_or(self.driver.as_str(), |plugin| class_provisioner(plugin))
    }
}

/// The class as the driver understands it: as it is, unless it names the plugin.
pub(crate) fn csi_class(
    names: &ProvisionerNames,
    class: &Arc<ClassRecord>,
) -> Result<Arc<ClassRecord>, csi_translation::Error> {
    let Some(plugin) = names.plugin_of(class) else { return Ok(Arc::clone(class)) };
    let allowed_topologies = class.allowed_topologies.clone();
    let translated = class_to_csi(plugin, Class { parameters: class.parameters.clone(), allowed_topologies })?;
    let Class { parameters, allowed_topologies } = translated;
    Ok(Arc::new(ClassRecord { parameters, allowed_topologies, ..(**class).clone() }))
}

/// Why a volume that the driver has made cannot be one of the plugin.
#[derive(Debug, Error)]
pub(crate) enum NotInTree {
    #[error(transparent)]
    Translation(#[from] csi_translation::Error),
    #[error("the object of the volume cannot be read back: {0}")]
    Object(#[from] serde_json::Error),
    #[error("what the driver said of the volume has no name for it that the plugin knows")]
    NoName,
}

/// The object of a new volume as one of the plugin, and the handle under which it will be deleted.
///
/// What could not be found again from the object must not be written: nobody could attach or delete it.
pub(crate) fn in_tree_volume(object: Value) -> Result<(Value, String), NotInTree> {
    let object = volume_to_in_tree(object)?;
    let read = PersistentVolume::deserialize(&object)?;
    let handle = volume_to_csi(&read)?.handle;
    let named = read.spec.in_tree_source().is_some_and(|(plugin, source)| match plugin {
        InTreePlugin::AzureFile => !source.share_name.is_empty(),
        _ => !source.id.is_empty(),
    });
    if named { Ok((object, handle)) } else { Err(NotInTree::NoName) }
}

/// What backs a volume, by the handle under which this driver knows it.
pub(crate) fn volume_source(names: &ProvisionerNames, volume: &PersistentVolume, interner: &Interner) -> VolumeSource {
    match (&volume.spec.csi, volume.spec.in_tree_plugin()) {
        (Some(csi), _) if names.is_driver(&csi.driver) => {
            VolumeSource::Driver(VolumeHandle::from(csi.volume_handle.as_str()))
        }
        (Some(csi), _) => VolumeSource::OtherDriver(interner.intern(&csi.driver)),
        (None, Some(plugin)) if names.plugin == Some(plugin) => match volume_to_csi(volume) {
            Ok(translated) => VolumeSource::Migrated(VolumeHandle::from(translated.handle.as_str())),
            Err(error) => VolumeSource::Untranslatable(Box::new(error)),
        },
        (None, Some(plugin)) => VolumeSource::OtherDriver(interner.intern(plugin.driver())),
        (None, None) => VolumeSource::NotCsi,
    }
}
