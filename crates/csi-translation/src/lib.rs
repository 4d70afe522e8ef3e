//! Volumes and classes of the plugins that were built into Kubernetes, as the CSI drivers that replace them know them, and
//! back (KEP-625). Everything here is a pure function.
//!
//! What happens to a claim whose class names a plugin, and to its volume:
//!
//! 1. The provisioner makes of the class what the driver understands ([`class_to_csi`], [`class`]).
//! 2. The volume that the driver has made becomes one of the plugin again ([`volume_to_in_tree`]), so that it stays one for
//!    everybody who reads it, and for a cluster that goes back to the plugin.
//! 3. To attach, resize or delete it, the sidecars ask what the driver calls it ([`volume_to_csi`], [`CsiVolume`]).
//! 4. What cannot be known from the volume alone is filled in when handles are compared ([`repaired_handle`]).
//!
//! A file per plugin has its rules: what it calls a volume, which parameters change. The rules about zones and regions are
//! in [`topology`] and, for classes, in [`class`].
//!
//! Volumes described in an attachment (`inlineVolumeSpec`) are CSI volumes already: kube-controller-manager has translated
//! them.
//!
//! Not guaranteed: translating there and back gives the same handle. Drivers accept what they are given here as the same
//! volume. Case is ignored in ASCII letters alone. Of two parameters that become one (`zone` and `zones`, `fsType` and
//! `fstype`) the last in the order of keys counts, where the Go library takes either.

mod aws_ebs;
mod azure_disk;
mod azure_file;
mod cinder;
pub mod class;
mod csi_volume;
mod error;
mod gce_pd;
mod new_volume;
mod portworx;
pub mod topology;
mod vsphere;

use serde_json::Value;
use storage_kube::in_tree::InTreePlugin;
use storage_kube::wire::PersistentVolume;

pub use class::Class;
pub use csi_volume::{CsiVolume, Secrets};
pub use error::Error;

/// The class as the driver understands it: parameters and allowed topologies.
///
/// # Errors
/// [`Error::ZonesTwice`].
pub fn class_to_csi(plugin: InTreePlugin, class: Class) -> Result<Class, Error> {
    match plugin {
        InTreePlugin::AwsEbs => aws_ebs::class(class),
        InTreePlugin::GcePd => gce_pd::class(class),
        InTreePlugin::Cinder => Ok(cinder::class(class)),
        InTreePlugin::AzureDisk => azure_disk::class(class),
        InTreePlugin::AzureFile => Ok(class),
        InTreePlugin::Vsphere => Ok(vsphere::class(class)),
        InTreePlugin::Portworx => Ok(portworx::class(class)),
    }
}

/// The provisioner that a translated class names. Only Portworx's becomes the driver.
pub fn class_provisioner(plugin: InTreePlugin) -> &'static str {
    if plugin == InTreePlugin::Portworx { plugin.driver() } else { plugin.as_str() }
}

/// A volume with the source of a plugin, as the driver knows it.
///
/// # Errors
/// [`Error::NotInTree`] for any other volume, or what in its source makes no sense.
pub fn volume_to_csi(volume: &PersistentVolume) -> Result<CsiVolume, Error> {
    let (plugin, source) = volume.spec.in_tree_source().ok_or(Error::NotInTree)?;
    let access_modes = &volume.spec.access_modes;
    let translated = match plugin {
        InTreePlugin::AwsEbs => aws_ebs::to_csi(source)?,
        InTreePlugin::GcePd => gce_pd::to_csi(source, volume.metadata.labels.as_ref())?,
        InTreePlugin::Cinder => cinder::to_csi(source),
        InTreePlugin::AzureDisk => azure_disk::to_csi(source)?,
        InTreePlugin::AzureFile => azure_file::to_csi(source, volume)?,
        InTreePlugin::Vsphere => vsphere::to_csi(source),
        InTreePlugin::Portworx => portworx::to_csi(source, volume.metadata.annotations.as_ref()),
    };
    let access_modes =
        if plugin == InTreePlugin::GcePd { gce_pd::access_modes(access_modes) } else { access_modes.clone() };
    Ok(CsiVolume { driver: plugin.driver(), access_modes, ..translated })
}

/// The object of a volume that a driver has made, with `spec.csi`, as a volume of the plugin: its source, and where it is.
///
/// # Errors
/// [`Error::NotCsi`] without the source of a driver that replaces a plugin, or what the driver said that has no place in the
/// plugin's source.
pub fn volume_to_in_tree(volume: Value) -> Result<Value, Error> {
    new_volume::to_in_tree(volume)
}

/// The handle with what could not be known without the node filled in, as the driver lists it. Only those of GCE change.
///
/// # Errors
/// [`Error::Handle`], [`Error::NodeId`] and [`Error::Region`] for what is not of the driver's form.
pub fn repaired_handle(plugin: InTreePlugin, handle: &str, node_id: &str) -> Result<String, Error> {
    if plugin == InTreePlugin::GcePd { gce_pd::repaired(handle, node_id) } else { Ok(handle.to_owned()) }
}

#[cfg(test)]
mod tests;
