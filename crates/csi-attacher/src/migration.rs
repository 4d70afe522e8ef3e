//! Volumes with a source built into Kubernetes that this driver takes over (KEP-625).
//!
//! They are translated when they come from the API server: from there on a volume has what the driver calls it. What only the
//! node tells is filled in when handles are compared ([`listed_handle`]). Inline volumes are the driver's already:
//! kube-controller-manager has translated them.

use csi_translation::{CsiVolume, Error, repaired_handle, volume_to_csi};
use storage_kube::names::{NodeId, VolumeHandle};
use storage_kube::wire::{CsiSource, PersistentVolume};

use crate::records::{VolumeRecord, VolumeSource};
use crate::settings::Settings;

/// Whether the driver takes over this volume's source.
pub(crate) fn is_migratable(volume: &VolumeRecord) -> bool {
    match volume.source {
        VolumeSource::Migrated(_) | VolumeSource::Untranslatable(_) => true,
        VolumeSource::Driver(_) | VolumeSource::OtherDriver(_) | VolumeSource::NotCsi => false,
    }
}

/// Whether such a volume has been handed back to its plugin, which then attaches it: our finalizer must go.
pub(crate) fn is_rolled_back(volume: &VolumeRecord) -> bool {
    is_migratable(volume) && !volume.shape.standing.migrated_here
}

/// Gives a volume of the plugin the source and the access modes that the driver knows.
pub(crate) fn translate(volume: &mut PersistentVolume) -> Result<(), Error> {
    let CsiVolume { driver, handle, fs_type, read_only, attributes, secrets, access_modes } = volume_to_csi(volume)?;
    volume.spec.csi = Some(CsiSource {
        driver: driver.to_owned(),
        volume_handle: handle,
        fs_type: Some(fs_type),
        read_only,
        volume_attributes: attributes,
        controller_publish_secret_ref: secrets.controller_publish,
        controller_expand_secret_ref: secrets.controller_expand,
    });
    volume.spec.access_modes = access_modes;
    Ok(())
}

/// Under which handle the driver lists the volume, if it is published at the node. `None`: the volume is not the driver's.
///
/// `inline`: of a driver that takes over a plugin, such a volume may be one of the plugin.
pub(crate) fn listed_handle(
    settings: &Settings,
    volume: &VolumeRecord,
    inline: bool,
    node: &NodeId,
) -> Result<Option<VolumeHandle>, Error> {
    let (handle, plugin) = match &volume.source {
        VolumeSource::Driver(handle) => (handle, settings.in_tree.filter(|_| inline)),
        VolumeSource::Migrated(handle) => (handle, settings.in_tree),
        VolumeSource::Untranslatable(_) | VolumeSource::OtherDriver(_) | VolumeSource::NotCsi => return Ok(None),
    };
    let Some(plugin) = plugin else { return Ok(Some(handle.clone())) };
    let repaired = repaired_handle(plugin, handle.as_str(), node.as_str())?;
    Ok(Some(VolumeHandle::from(repaired.as_str())))
}
