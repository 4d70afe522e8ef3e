//! Bind mounts made and taken away, each step repeatable.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};

use crate::loop_device::LoopDevice;
use crate::mount_table::{Mount, MountTable};
use crate::node::error::NodeError;
use crate::state::VolumeId;

/// Mounts of one volume on top of each other that are taken away in one call.
const STACKED: usize = 32;

/// The path as the kernel's table has it. None if its directory is not there.
pub(super) fn real(path: &Path) -> Result<Option<PathBuf>, NodeError> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return Ok(None) };
    match fs::canonicalize(dir) {
        Ok(dir) => Ok(Some(dir.join(name))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(NodeError::io("look for the directory of", path)(error)),
    }
}

/// As [`real`], where something is to be mounted: the caller has made the directory.
pub(super) fn real_target(field: &'static str, path: &Path) -> Result<PathBuf, NodeError> {
    let wrong = |reason| NodeError::Path { field, path: path.to_owned(), reason };
    let path = real(path)?.ok_or_else(|| wrong("has no directory: the caller makes it"))?;
    match fs::symlink_metadata(&path) {
        Ok(found) if found.is_symlink() => Err(wrong("is a symbolic link")),
        _ => Ok(path),
    }
}

pub(super) fn table(about: &Path) -> Result<MountTable, NodeError> {
    MountTable::read().map_err(NodeError::io("read /proc/self/mountinfo for", about))
}

/// Mounts the directory of a mount volume at the target, with at least these flags. A mount that lacks some is what
/// a driver that died in between has left, and gets them.
pub(super) fn bind_directory(id: &VolumeId, source: &Path, target: &Path, flags: MountFlags) -> Result<(), NodeError> {
    if let Some(existing) = table(target)?.at(target) {
        if !existing.shows_volume(id) {
            return Err(foreign(id, existing));
        }
        let readonly = existing.flags.contains(MountFlags::RDONLY);
        if readonly && !flags.contains(MountFlags::RDONLY) && !is_readonly(source)? {
            return Err(NodeError::Otherwise { id: id.clone(), path: target.to_owned(), how: "read-only" });
        }
        return if existing.flags.contains(flags) { Ok(()) } else { restrict(target, existing.flags | flags) };
    }
    match fs::create_dir(target) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(NodeError::io("create the directory", target)(error));
        }
        _ => {}
    }
    mount_bind(source, target).map_err(|error| NodeError::io("mount at", target)(error.into()))?;
    if flags.is_empty() {
        return Ok(());
    }
    // A remount sets all flags: those of the file system below are kept.
    let inherited = table(target)?.at(target).map_or(MountFlags::empty(), |mount| mount.flags);
    let restricted = restrict(target, inherited | flags);
    if restricted.is_err() {
        // Best effort: the next call finds it and tries again.
        let _ = unmount(target, UnmountFlags::NOFOLLOW);
    }
    restricted
}

fn restrict(target: &Path, flags: MountFlags) -> Result<(), NodeError> {
    mount_remount(target, MountFlags::BIND | flags, "")
        .map_err(|error| NodeError::io("set the flags of the mount", target)(error.into()))
}

fn is_readonly(path: &Path) -> Result<bool, NodeError> {
    let found = statvfs(path).map_err(|error| NodeError::io("ask for the flags of", path)(error.into()))?;
    Ok(found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Mounts one of the volume's devices at the target, a file.
pub(super) fn bind_device(
    id: &VolumeId,
    device: &LoopDevice,
    attached: &[LoopDevice],
    target: &Path,
) -> Result<(), NodeError> {
    if let Some(existing) = table(target)?.at(target) {
        let there = attached.iter().find(|one| existing.root() == Path::new("/").join(&one.name));
        return match there {
            None => Err(foreign(id, existing)),
            Some(one) if one == device => Ok(()),
            Some(one) => {
                let how = if one.readonly { "read-only" } else { "writable" };
                Err(NodeError::Otherwise { id: id.clone(), path: target.to_owned(), how })
            }
        };
    }
    match File::create_new(target) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(NodeError::io("create the file", target)(error));
        }
        _ => {}
    }
    mount_bind(device.path(), target).map_err(|error| NodeError::io("mount at", target)(error.into()))
}

/// Unmounts until nothing of the volume is mounted there. What is not there is done.
pub(super) fn unmount_all(id: &VolumeId, target: &Path) -> Result<(), NodeError> {
    for _ in 0..STACKED {
        let mounts = table(target)?;
        let Some(mount) = mounts.at(target) else { return Ok(()) };
        if !mount.shows_volume(id) && !mount.shows_loop_device() {
            return Err(foreign(id, mount));
        }
        unmount(target, UnmountFlags::NOFOLLOW).map_err(|error| NodeError::io("unmount", target)(error.into()))?;
    }
    let how = "more often than can be unmounted in one call";
    Err(NodeError::Otherwise { id: id.clone(), path: target.to_owned(), how })
}

/// Removes the target, an empty directory or file. What holds anything was not made by this driver.
pub(super) fn remove(target: &Path) -> Result<(), NodeError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        io::ErrorKind::DirectoryNotEmpty => Err(NodeError::NotEmpty(target.to_owned())),
        _ => Err(NodeError::io("remove", target)(error)),
    };
    match fs::symlink_metadata(target) {
        Err(error) => failed(error),
        Ok(found) if found.is_dir() => fs::remove_dir(target).or_else(failed),
        Ok(found) if found.is_file() && found.len() == 0 => fs::remove_file(target).or_else(failed),
        Ok(_) => Err(NodeError::NotEmpty(target.to_owned())),
    }
}

fn foreign(id: &VolumeId, mount: &Mount) -> NodeError {
    NodeError::Foreign { id: id.clone(), path: mount.point.clone(), root: mount.root().to_owned() }
}
