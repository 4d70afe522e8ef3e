//! `NodeGetVolumeStats`.

use std::fs;
use std::path::Path;

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::volume_usage::Unit;
use rustix::fs::{StatVfs, statvfs};

use crate::node::error::NodeError;
use crate::node::mount_point;
use crate::node::stage;
use crate::state::{Access, VolumeId};

/// A mount volume is measured as the file system it lies on: that of its image, or the one of the state directory, since
/// the size of a directory is not enforced; of a block volume only
/// the size is known.
pub(super) fn stats(
    id: &VolumeId,
    access: Access,
    capacity_bytes: i64,
    path: &Path,
) -> Result<Vec<csi::VolumeUsage>, NodeError> {
    let not_at = || NodeError::NotAt(id.clone(), path.to_owned());
    let real = fs::canonicalize(path).map_err(|_| not_at())?;
    let mounts = mount_point::table(&real)?;
    let mount = mounts.at(&real).ok_or_else(not_at)?;
    match access {
        Access::Mount | Access::Image if mount.shows_volume(id) => {
            let found = statvfs(&real).map_err(|error| NodeError::io("measure", &real)(error.into()))?;
            Ok(usage(&found))
        }
        Access::Block => {
            let devices = stage::devices(id, &real)?;
            let here = devices.iter().any(|device| mount.root() == Path::new("/").join(&device.name));
            let size =
                csi::VolumeUsage { total: capacity_bytes, unit: Unit::Bytes.into(), ..csi::VolumeUsage::default() };
            if here { Ok(vec![size]) } else { Err(not_at()) }
        }
        Access::Mount | Access::Image => Err(not_at()),
    }
}

fn usage(found: &StatVfs) -> Vec<csi::VolumeUsage> {
    let blocks = |count: u64| i64::try_from(count.saturating_mul(found.f_frsize)).unwrap_or(i64::MAX);
    let files = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    vec![
        csi::VolumeUsage {
            available: blocks(found.f_bavail),
            total: blocks(found.f_blocks),
            used: blocks(found.f_blocks.saturating_sub(found.f_bfree)),
            unit: Unit::Bytes.into(),
        },
        csi::VolumeUsage {
            available: files(found.f_favail),
            total: files(found.f_files),
            used: files(found.f_files.saturating_sub(found.f_ffree)),
            unit: Unit::Inodes.into(),
        },
    ]
}
