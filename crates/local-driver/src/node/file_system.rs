//! The file system in the image of a volume, as it is used on this node.
//!
//! It is mounted once for the driver itself, beside the image. A pod gets the directory `<volume id>/mount` in it, so that
//! its mounts are recognised as those of any mount volume (`mount_table`), and `lost+found` and the like are not seen.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount as unmount_at};

use crate::image;
use crate::mount_table::FILE_SYSTEM;
use crate::node::error::NodeError;
use crate::node::mount_point;
use crate::node::stage;
use crate::state::VolumeId;

/// Owner only: pods see the volume through its mount.
const PRIVATE: u32 = 0o700;
/// The top of the volume, for pods of any user.
const OPEN: u32 = 0o777;
/// A top that is not finished.
const UNFINISHED: &str = "unfinished";

/// Mounts the file system in the image, if it is not, and gives the directory in it that is the volume.
pub(super) fn mounted(id: &VolumeId, image: &Path) -> Result<PathBuf, NodeError> {
    let point = image.with_file_name(FILE_SYSTEM);
    absent(DirBuilder::new().mode(PRIVATE).create(&point)).map_err(NodeError::io("create the directory", &point))?;
    let point = fs::canonicalize(&point).map_err(NodeError::io("look for", &point))?;
    if mount_point::table(&point)?.at(&point).is_none() {
        let (device, _) = stage::device(id, image, false)?;
        // A copy has the UUID of its original, which may be mounted.
        mount(device.path(), &point, image::FILE_SYSTEM, MountFlags::empty(), Some(c"nouuid"))
            .map_err(|error| NodeError::io("mount the file system at", &point)(error.into()))?;
    }
    // The image of a copy may be larger than the file system that was copied.
    image::grow(&point).map_err(NodeError::program("enlarge the file system at", &point))?;
    let top = point.join(id.to_string());
    make_top(&point, &top).map_err(NodeError::io("make the top of", &point))?;
    Ok(top.join("mount"))
}

/// A copy has the top of its original, under the other's name.
fn make_top(point: &Path, top: &Path) -> io::Result<()> {
    if top.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(point)? {
        let other = entry?.path();
        if !other.ends_with(UNFINISHED) && other.join("mount").is_dir() {
            return fs::rename(other, top);
        }
    }
    let unfinished = point.join(UNFINISHED);
    let mount = unfinished.join("mount");
    absent(DirBuilder::new().mode(PRIVATE).create(&unfinished))?;
    absent(fs::create_dir(&mount))?;
    fs::set_permissions(&mount, Permissions::from_mode(OPEN))?;
    fs::rename(unfinished, top)
}

fn absent(made: io::Result<()>) -> io::Result<()> {
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Unmounts it, if it is mounted; refused while the volume is somewhere in use.
pub(super) fn unmount(id: &VolumeId, about: &Path) -> Result<(), NodeError> {
    let mounts = mount_point::table(about)?;
    let Some(file_system) = mounts.file_system_of(id) else { return Ok(()) };
    if let Some(used) = mounts.of_volume(id).next() {
        return Err(NodeError::StillPublished { id: id.clone(), target: used.point.clone() });
    }
    let point = &file_system.point;
    unmount_at(point, UnmountFlags::NOFOLLOW).map_err(|error| NodeError::io("unmount", point)(error.into()))
}

/// Lets it take all of its device, if it is mounted.
pub(super) fn grow(id: &VolumeId, about: &Path) -> Result<(), NodeError> {
    match mount_point::table(about)?.file_system_of(id) {
        None => Ok(()),
        Some(mount) => {
            image::grow(&mount.point).map_err(NodeError::program("enlarge the file system at", &mount.point))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn a_copy_gets_the_content_of_its_original_under_its_own_name() {
        let dir = tempfile::tempdir().unwrap();
        let (first, copy) = (dir.path().join("first"), dir.path().join("copy"));
        fs::create_dir_all(dir.path().join(UNFINISHED)).unwrap();
        for _ in 0..2 {
            make_top(dir.path(), &first).unwrap();
        }
        assert_eq!(fs::metadata(first.join("mount")).unwrap().permissions().mode() & 0o777, OPEN);
        fs::write(first.join("mount/file"), "text").unwrap();
        make_top(dir.path(), &copy).unwrap();
        assert_eq!(fs::read_to_string(copy.join("mount/file")).unwrap(), "text");
        assert!(!first.exists());
    }
}
