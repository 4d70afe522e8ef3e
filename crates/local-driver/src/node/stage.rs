//! Staging: a mount volume is mounted at the staging path, a block volume attached to a loop device.

use std::ffi::OsStr;
use std::path::Path;

use rustix::mount::MountFlags;

use crate::loop_device::{self, LoopDevice};
use crate::node::error::NodeError;
use crate::node::file_system;
use crate::node::mount_point;
use crate::node::request::Usage;
use crate::state::{Access, VolumeId};

pub(super) fn stage(id: &VolumeId, content: &Path, staging: &Path, usage: &Usage) -> Result<(), NodeError> {
    match usage.access {
        Access::Mount | Access::Image => {
            let staging = mount_point::real_target("staging_target_path", staging)?;
            let flags = if usage.reader { MountFlags::RDONLY } else { MountFlags::empty() };
            mount_point::bind_directory(id, content, &staging, flags)
        }
        Access::Block => device(id, content, usage.reader).map(drop),
    }
}

/// The staging path itself is the caller's and stays.
pub(super) fn unstage(id: &VolumeId, staging: &Path) -> Result<(), NodeError> {
    if let Some(staging) = mount_point::real(staging)? {
        mount_point::unmount_all(id, &staging)?;
    }
    release(id, staging)
}

/// Gives back what the volume has on this node once it is mounted nowhere: its file system, its devices.
pub(super) fn release(id: &VolumeId, about: &Path) -> Result<(), NodeError> {
    file_system::unmount(id, about)?;
    release_devices(id, about)
}

/// The volume's device, attached if it is not, with all devices of the volume.
pub(super) fn device(id: &VolumeId, disk: &Path, readonly: bool) -> Result<(LoopDevice, Vec<LoopDevice>), NodeError> {
    let fits = |one: &&LoopDevice| one.readonly == readonly && one.stays();
    let mut devices = devices(id, disk)?;
    if !devices.iter().any(|one| fits(&one)) {
        loop_device::attach(disk, readonly).map_err(NodeError::program("attach a loop device to", disk))?;
        devices = self::devices(id, disk)?;
    }
    let device = devices.iter().find(fits).cloned().ok_or_else(|| NodeError::Failed {
        action: "find the loop device of",
        path: disk.to_owned(),
        source: "losetup attached none that /sys/block shows".into(),
    })?;
    Ok((device, devices))
}

pub(super) fn devices(id: &VolumeId, about: &Path) -> Result<Vec<LoopDevice>, NodeError> {
    loop_device::attached(id).map_err(NodeError::io("look for loop devices of", about))
}

/// Detaches the volume's devices. One that is still published could become that of another volume under its
/// user's hands, and is refused.
fn release_devices(id: &VolumeId, about: &Path) -> Result<(), NodeError> {
    let devices = devices(id, about)?;
    if devices.is_empty() {
        return Ok(());
    }
    let mounts = mount_point::table(about)?;
    let mounted = |name: &OsStr| mounts.of_device(name).next().map(|mount| mount.point.clone());
    if let Some(target) = devices.iter().find_map(|device| mounted(&device.name)) {
        return Err(NodeError::StillPublished { id: id.clone(), target });
    }
    for device in devices.iter().filter(|device| device.stays()) {
        loop_device::detach(device).map_err(NodeError::program("detach", &device.path()))?;
    }
    Ok(())
}
