//! Volumes (PersistentVolumes) that this driver attaches.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_runtime::{Mention, Projection};
use storage_kube::access_mode::AccessMode;
use storage_kube::annotations;
use storage_kube::in_tree::InTreePlugin;
use storage_kube::names::{VolumeHandle, VolumeName};
use storage_kube::secret_ref::SecretRef;
use storage_kube::volume_mode::VolumeMode;
use storage_kube::wire::{PersistentVolume, PersistentVolumeSpec};

use super::{Interners, version};
use crate::migration;
use crate::settings::Settings;

/// What backs the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VolumeSource {
    /// A volume of this driver.
    Driver(VolumeHandle),
    /// A volume of the plugin that this driver takes over, by the driver's name for it.
    Migrated(VolumeHandle),
    /// A volume of that plugin whose source makes no sense to the driver.
    Untranslatable(Box<csi_translation::Error>),
    /// A volume of another driver.
    OtherDriver(Arc<str>),
    /// Any other kind of source.
    NotCsi,
}

/// What the metadata says of a volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Standing {
    /// `metadata.deletionTimestamp` is set.
    pub(crate) deleting: bool,
    /// The annotation says that this driver takes the volume over.
    pub(crate) migrated_here: bool,
}

/// All of a volume that many volumes have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct VolumeShape {
    pub(crate) read_only: bool,
    /// Empty when the volume names none.
    pub(crate) fs_type: String,
    pub(crate) mount_options: Vec<String>,
    pub(crate) access_modes: Vec<AccessMode>,
    /// A raw device.
    pub(crate) block: bool,
    /// The Secret for publishing.
    pub(crate) secret: Option<SecretRef>,
    pub(crate) standing: Standing,
}

/// One volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeRecord {
    pub(crate) source: VolumeSource,
    pub(crate) shape: Arc<VolumeShape>,
    /// `volumeAttributes`, CSI `volume_context`.
    pub(crate) attributes: Arc<BTreeMap<String, String>>,
    /// All finalizers, in order; absent and empty are told apart, because patches test for them.
    pub(crate) finalizers: Option<Arc<Vec<String>>>,
    /// 0 when it is not known.
    pub(crate) resource_version: u64,
}

impl VolumeRecord {
    /// The volume described in an attachment.
    pub(crate) fn inline(spec: PersistentVolumeSpec, driver: &str, interners: &Interners) -> Self {
        Self::with(spec, Standing::default(), driver, interners)
    }

    fn with(spec: PersistentVolumeSpec, standing: Standing, driver: &str, interners: &Interners) -> Self {
        let source = source(&spec, driver, interners);
        let csi = spec.csi.unwrap_or_default();
        let secret = csi.controller_publish_secret_ref;
        let shape = VolumeShape {
            read_only: csi.read_only,
            fs_type: csi.fs_type.unwrap_or_default(),
            mount_options: spec.mount_options,
            access_modes: spec.access_modes,
            block: spec.volume_mode == Some(VolumeMode::Block),
            secret: secret.map(|secret| SecretRef { namespace: secret.namespace, name: secret.name }),
            standing,
        };
        Self {
            source,
            shape: interners.volume_shapes.intern(shape),
            attributes: interners.attributes.intern(csi.volume_attributes),
            finalizers: None,
            resource_version: 0,
        }
    }

    fn of(mut volume: PersistentVolume, driver: &str, interners: &Interners) -> Self {
        let plugin =
            volume.spec.in_tree_plugin().filter(|plugin| volume.spec.csi.is_none() && plugin.driver() == driver);
        let migrated = plugin.map(|_| migration::translate(&mut volume));
        let metadata = volume.metadata;
        let resource_version = version(&metadata);
        let migrated_to = metadata.annotations.as_ref().and_then(|all| all.get(annotations::MIGRATED_TO));
        let standing = Standing {
            deleting: metadata.deletion_timestamp.is_some(),
            migrated_here: migrated_to.is_some_and(|to| to == driver),
        };
        Self {
            resource_version,
            finalizers: metadata.finalizers.map(|list| interners.finalizers.intern(list)),
            ..Self::translated(Self::with(volume.spec, standing, driver, interners), migrated)
        }
    }

    /// `migrated`: how translating the source of a plugin went, if it had one.
    fn translated(record: Self, migrated: Option<Result<(), csi_translation::Error>>) -> Self {
        let source = match (migrated, record.source) {
            (Some(Ok(())), VolumeSource::Driver(handle)) => VolumeSource::Migrated(handle),
            (Some(Err(error)), _) => VolumeSource::Untranslatable(Box::new(error)),
            (_, source) => source,
        };
        Self { source, ..record }
    }

    /// Where our finalizer is in the list.
    pub(crate) fn finalizer_index(&self, settings: &Settings) -> Option<usize> {
        self.finalizers.as_ref()?.iter().position(|entry| *entry == settings.finalizer)
    }
}

fn source(spec: &PersistentVolumeSpec, driver: &str, interners: &Interners) -> VolumeSource {
    match (&spec.csi, spec.in_tree_plugin()) {
        (Some(csi), _) if csi.driver == driver => VolumeSource::Driver(VolumeHandle::from(csi.volume_handle.as_str())),
        (Some(csi), _) => VolumeSource::OtherDriver(interners.names.intern(&csi.driver)),
        (None, Some(plugin)) if plugin.driver() != driver => {
            VolumeSource::OtherDriver(interners.names.intern(plugin.driver()))
        }
        (None, _) => VolumeSource::NotCsi,
    }
}

/// Keeps the volumes that this driver attaches, and those that carry our finalizer.
pub(crate) struct VolumeProjection {
    pub(crate) driver: String,
    pub(crate) finalizer: String,
    pub(crate) in_tree: Option<InTreePlugin>,
    pub(crate) interners: Arc<Interners>,
    /// Not for a driver that takes over a plugin: a volume of the plugin names neither.
    mention: Option<Mention>,
}

impl VolumeProjection {
    pub(crate) fn new(settings: &Settings, interners: &Arc<Interners>) -> Self {
        Self {
            driver: settings.driver.clone(),
            finalizer: settings.finalizer.clone(),
            in_tree: settings.in_tree,
            interners: Arc::clone(interners),
            mention: settings.in_tree.is_none().then(|| Mention::of([&*settings.driver, &*settings.finalizer])),
        }
    }

    /// The record of any volume, whoever's.
    pub(crate) fn record(&self, volume: PersistentVolume) -> VolumeRecord {
        VolumeRecord::of(volume, &self.driver, &self.interners)
    }

    fn concerns_us(&self, volume: &PersistentVolume) -> bool {
        let spec = &volume.spec;
        spec.csi.as_ref().is_some_and(|csi| csi.driver == self.driver)
            || spec.in_tree_plugin().is_some_and(|plugin| self.in_tree == Some(plugin))
            || volume.metadata.finalizers.as_ref().is_some_and(|list| list.contains(&self.finalizer))
    }
}

impl Projection for VolumeProjection {
    type Wire = PersistentVolume;
    type Key = VolumeName;
    type Record = VolumeRecord;
    type Group = ();

    fn may_concern(&self, json: &[u8]) -> bool {
        self.mention.as_ref().is_none_or(|mention| mention.may_be_in(json))
    }

    fn key(&self, volume: &PersistentVolume) -> Option<VolumeName> {
        volume.metadata.name.as_deref().map(|name| VolumeName::shared(name, &self.interners.names))
    }

    fn project(&self, volume: PersistentVolume) -> Option<VolumeRecord> {
        self.concerns_us(&volume).then(|| self.record(volume))
    }
}
