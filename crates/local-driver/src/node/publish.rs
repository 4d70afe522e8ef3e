//! Publishing: the volume appears at a pod's path, and goes from there.

use std::path::{Path, PathBuf};

use rustix::mount::MountFlags;

use crate::loop_device::LoopDevice;
use crate::mount_table::MountTable;
use crate::node::error::NodeError;
use crate::node::mount_point;
use crate::node::request::Publish;
use crate::node::stage;
use crate::state::{Access, VolumeId};

/// From where a volume is published.
#[derive(Debug)]
pub(super) enum Source {
    /// Straight from its directory or file.
    Content(PathBuf),
    /// From where it was staged.
    Staged { content: PathBuf, staging: PathBuf },
}

pub(super) fn publish(wanted: &Publish, source: &Source) -> Result<(), NodeError> {
    let target = mount_point::real_target("target_path", &wanted.target)?;
    match wanted.usage.access {
        Access::Mount | Access::Image => publish_directory(wanted, source, &target),
        Access::Block => publish_device(wanted, source, &target),
    }
}

fn publish_directory(wanted: &Publish, source: &Source, target: &Path) -> Result<(), NodeError> {
    let mounts = mount_point::table(target)?;
    let (from, staging) = match source {
        Source::Content(content) => (content.clone(), None),
        Source::Staged { staging, .. } => {
            let staging = staged_at(&wanted.id, &mounts, staging)?;
            (staging.clone(), Some(staging))
        }
    };
    let targets = mounts.of_volume(&wanted.id).map(|mount| mount.point.as_path());
    alone(wanted, target, targets.filter(|point| Some(*point) != staging.as_deref()))?;
    let readonly = if wanted.readonly { MountFlags::RDONLY } else { MountFlags::empty() };
    mount_point::bind_directory(&wanted.id, &from, target, wanted.usage.flags | readonly)
}

fn publish_device(wanted: &Publish, source: &Source, target: &Path) -> Result<(), NodeError> {
    let id = &wanted.id;
    let devices = stage::devices(id, target)?;
    let content = match source {
        Source::Staged { .. } if !devices.iter().any(LoopDevice::stays) => {
            return Err(NodeError::NotStaged { id: id.clone(), at: String::new() });
        }
        Source::Content(content) | Source::Staged { content, .. } => content,
    };
    let mounts = mount_point::table(target)?;
    let targets = devices.iter().flat_map(|device| mounts.of_device(&device.name));
    alone(wanted, target, targets.map(|mount| mount.point.as_path()))?;
    // A bind mount that is read-only does not keep anyone from writing to a device: it takes a device of its own.
    let (device, devices) = stage::device(id, content, wanted.readonly)?;
    mount_point::bind_device(id, &device, &devices, target)
}

/// CSI "NodePublishVolume Errors": with `SINGLE_NODE_SINGLE_WRITER` there is one target path.
fn alone<'a>(wanted: &Publish, target: &Path, mut targets: impl Iterator<Item = &'a Path>) -> Result<(), NodeError> {
    match targets.find(|other| *other != target) {
        Some(other) if wanted.usage.single_writer => {
            Err(NodeError::SecondTarget { id: wanted.id.clone(), other: other.to_owned() })
        }
        _ => Ok(()),
    }
}

fn staged_at(id: &VolumeId, mounts: &MountTable, staging: &Path) -> Result<PathBuf, NodeError> {
    let found = mount_point::real(staging)?;
    let found = found.filter(|path| mounts.at(path).is_some_and(|mount| mount.shows_volume(id)));
    found.ok_or_else(|| NodeError::NotStaged { id: id.clone(), at: format!(" at {}", staging.display()) })
}

/// `staged` tells whether the device stays until the volume is unstaged.
pub(super) fn unpublish(id: &VolumeId, target: &Path, staged: bool) -> Result<(), NodeError> {
    if let Some(target) = mount_point::real(target)? {
        mount_point::unmount_all(id, &target)?;
        mount_point::remove(&target)?;
    }
    if staged {
        return Ok(());
    }
    match stage::release(id, target) {
        // Another pod has it still; the last one takes the device along.
        Err(NodeError::StillPublished { .. }) => Ok(()),
        result => result,
    }
}
