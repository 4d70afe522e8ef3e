//! `NodeExpandVolume`: devices take the size of their file, file systems that of their device.

use std::fs;
use std::path::Path;

use crate::loop_device;
use crate::node::error::NodeError;
use crate::node::{file_system, mount_point, stage};
use crate::state::{Access, VolumeId};

/// Checks that the volume is at the path and lets it grow there. The path of a block volume is not looked at: a kubelet
/// gives a directory of its own.
pub(super) fn expand(id: &VolumeId, access: Access, path: &Path) -> Result<(), NodeError> {
    match access {
        Access::Mount | Access::Image => {
            let not_at = || NodeError::NotAt(id.clone(), path.to_owned());
            let real = fs::canonicalize(path).map_err(|_| not_at())?;
            if !mount_point::table(&real)?.at(&real).is_some_and(|mount| mount.shows_volume(id)) {
                return Err(not_at());
            }
        }
        Access::Block if stage::devices(id, path)?.is_empty() => {
            return Err(NodeError::NotStaged { id: id.clone(), at: String::new() });
        }
        Access::Block => {}
    }
    grow(id, path)
}

/// Lets it grow wherever it is used. Nothing to do when it is not used, or has its size.
pub(super) fn grow(id: &VolumeId, about: &Path) -> Result<(), NodeError> {
    for device in stage::devices(id, about)? {
        loop_device::refresh(&device).map_err(NodeError::program("refresh the size of", &device.path()))?;
    }
    file_system::grow(id, about)
}
