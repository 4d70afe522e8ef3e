//! Volumes with a source built into Kubernetes that this driver takes over (KEP-625): the one place where translating
//! them belongs.
//!
//! Translating is not built yet. Knowing which volumes need it keeps them from being taken for broken ones, and their
//! finalizers from being left behind.

use storage_kube::in_tree::InTreePlugin;
use storage_kube::names::VolumeHandle;

use crate::error::SourceError;
use crate::records::{VolumeRecord, VolumeSource};
use crate::settings::Settings;

/// Whether the driver takes over this volume's source.
pub(crate) fn is_migratable(settings: &Settings, volume: &VolumeRecord) -> bool {
    matches!(&volume.source, VolumeSource::InTree(plugin) if settings.in_tree == Some(*plugin))
}

/// Whether such a volume has been handed back to its plugin, which then attaches it: our finalizer must go.
pub(crate) fn is_rolled_back(settings: &Settings, volume: &VolumeRecord) -> bool {
    is_migratable(settings, volume) && !volume.migrated_here
}

/// The handle under which the driver knows the volume.
pub(crate) fn handle(plugin: InTreePlugin) -> Result<VolumeHandle, SourceError> {
    Err(SourceError::InTree { plugin: plugin.as_str() })
}
