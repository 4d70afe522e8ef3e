//! What is mounted where, read from the kernel: the only record of what this driver has mounted.
//!
//! A mount belongs to a volume when its root, the place in the file system that it shows, ends with the volume's
//! directory. Volume ids are unique in the world, so this holds wherever the state directory is seen from.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::mount::MountFlags;

use crate::state::VolumeId;

/// proc_pid_mountinfo(5).
const MOUNTINFO: &str = "/proc/self/mountinfo";

/// Name of the directory, beside the image of a volume, where its file system is mounted.
pub(crate) const FILE_SYSTEM: &str = "fs";

/// One mount of this process' mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    id: u64,
    parent: u64,
    /// What of the file system is mounted.
    root: PathBuf,
    pub(crate) point: PathBuf,
    /// The flags of this mount, not those of its file system.
    pub(crate) flags: MountFlags,
}

/// All mounts.
#[derive(Debug)]
pub(crate) struct MountTable(Vec<Mount>);

impl MountTable {
    /// Where there is no `/proc`, nothing was mounted by this driver either.
    pub(crate) fn read() -> io::Result<Self> {
        match fs::read(MOUNTINFO) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self(Vec::new())),
            Err(error) => Err(error),
        }
    }

    /// Lines it does not understand are left out.
    fn parse(text: &[u8]) -> Self {
        Self(text.split(|byte| *byte == b'\n').filter_map(line).collect())
    }

    /// The uppermost mount at the path, which must be free of symbolic links.
    pub(crate) fn at(&self, path: &Path) -> Option<&Mount> {
        let here = || self.0.iter().filter(|mount| mount.point == path);
        here().find(|mount| !here().any(|other| other.parent == mount.id && other.id != mount.id))
    }

    /// The mounts of a mount volume.
    pub(crate) fn of_volume<'a>(&'a self, id: &'a VolumeId) -> impl Iterator<Item = &'a Mount> {
        self.0.iter().filter(|mount| mount.shows_volume(id))
    }

    /// The mounts of one file of `/dev`.
    pub(crate) fn of_device<'a>(&'a self, name: &'a OsStr) -> impl Iterator<Item = &'a Mount> {
        self.0.iter().filter(move |mount| mount.root == Path::new("/").join(name))
    }

    /// Where the file system of an image volume is mounted for the driver itself.
    pub(crate) fn file_system_of(&self, id: &VolumeId) -> Option<&Mount> {
        let place = Path::new(&id.to_string()).join(FILE_SYSTEM);
        self.0.iter().find(|mount| mount.root == Path::new("/") && mount.point.ends_with(&place))
    }

    /// A mount below the directory.
    pub(crate) fn below(&self, dir: &Path) -> Option<&Mount> {
        self.0.iter().find(|mount| mount.point.starts_with(dir))
    }
}

impl Mount {
    pub(crate) fn shows_volume(&self, id: &VolumeId) -> bool {
        // The kernel marks what was removed while it was mounted.
        let root = self.root.as_os_str().as_bytes();
        let root = root.strip_suffix(b"//deleted").unwrap_or(root);
        let mut names = Path::new(OsStr::from_bytes(root)).components().rev().map(std::path::Component::as_os_str);
        names.next() == Some(OsStr::new("mount")) && names.next() == Some(OsStr::new(&id.to_string()))
    }

    /// Whether it is a device of any block volume, put at a path.
    pub(crate) fn shows_loop_device(&self) -> bool {
        self.root.as_os_str().as_bytes().strip_prefix(b"/loop").is_some_and(|n| n.iter().all(u8::is_ascii_digit))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }
}

fn line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    let id = number(fields.next()?)?;
    let parent = number(fields.next()?)?;
    let _device = fields.next()?;
    let root = unescaped(fields.next()?);
    let point = unescaped(fields.next()?);
    let options = fields.next()?.split(|byte| *byte == b',');
    let flags = options.fold(MountFlags::empty(), |flags, option| flags | flag(option));
    Some(Mount { id, parent, root, point, flags })
}

fn flag(option: &[u8]) -> MountFlags {
    match option {
        b"ro" => MountFlags::RDONLY,
        b"nosuid" => MountFlags::NOSUID,
        b"nodev" => MountFlags::NODEV,
        b"noexec" => MountFlags::NOEXEC,
        b"noatime" => MountFlags::NOATIME,
        b"nodiratime" => MountFlags::NODIRATIME,
        b"relatime" => MountFlags::RELATIME,
        b"nosymfollow" => NOSYMFOLLOW,
        _ => MountFlags::empty(),
    }
}

/// `MS_NOSYMFOLLOW` of mount(2).
pub(crate) const NOSYMFOLLOW: MountFlags = MountFlags::from_bits_retain(256);

/// Blanks, line breaks and backslashes are written as three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut text = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'\\').then(|| after.split_at_checked(3)).flatten();
        let value = escaped.and_then(|(digits, tail)| {
            let digits = std::str::from_utf8(digits).ok()?;
            Some((u8::from_str_radix(digits, 8).ok()?, tail))
        });
        let (byte, tail) = value.unwrap_or((*first, after));
        text.push(byte);
        rest = tail;
    }
    PathBuf::from(OsString::from_vec(text))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const TABLE: &str = "\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
60 27 254:0 /var/state/data/4f9b/mount /stage/a\\040b rw,nosuid,nodev,relatime shared:1 - ext4 /dev/vda rw
61 27 254:0 /data/4f9b/mount /pod ro,noexec - ext4 /dev/vdb rw
63 61 0:6 /loop3 /pod rw - devtmpfs devtmpfs rw
64 27 254:0 /data/4f9b/mount/sub /other rw - ext4 /dev/vdb rw
65 27 254:0 /data/4f9b/mount//deleted /gone rw - ext4 /dev/vdb rw
66 27 7:1 / /var/state/data/77aa/fs rw - xfs /dev/loop1 rw
67 27 7:1 /77aa/mount /pod-2 rw - xfs /dev/loop1 rw
garbage
";

    #[test]
    fn mounts_are_read_with_their_names_and_flags() {
        let table = MountTable::parse(TABLE.as_bytes());
        let stage = table.at(Path::new("/stage/a b")).unwrap();
        assert_eq!(stage.flags, MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RELATIME);
        assert!(table.at(Path::new("/stage")).is_none());
        assert_eq!(table.0.len(), 8);
    }

    #[test]
    fn of_two_mounts_at_one_place_the_upper_one_is_found_in_any_order() {
        let mut table = MountTable::parse(TABLE.as_bytes());
        for _ in 0..2 {
            assert_eq!(table.at(Path::new("/pod")).unwrap().root(), Path::new("/loop3"));
            table.0.reverse();
        }
    }

    #[test]
    fn a_volume_is_recognised_wherever_its_directory_is() {
        let table = MountTable::parse(TABLE.as_bytes());
        let points: Vec<_> = table.of_volume(&VolumeId::from("4f9b")).map(|mount| mount.point.clone()).collect();
        assert_eq!(points, ["/stage/a b", "/pod", "/gone"].map(PathBuf::from));
        for other in ["9b", "", "data", "data/4f9b", "..", "/"] {
            assert_eq!(table.of_volume(&VolumeId::from(other)).count(), 0, "{other}");
        }
        assert_eq!(table.of_device(OsStr::new("loop3")).count(), 1);
        assert_eq!(table.of_device(OsStr::new("loop")).count(), 0);
        assert_eq!(table.below(Path::new("/stage")).unwrap().id, 60);
        assert!(table.below(Path::new("/sta")).is_none());
        let id = VolumeId::from("77aa");
        assert_eq!(table.file_system_of(&id).unwrap().point, Path::new("/var/state/data/77aa/fs"));
        assert_eq!(table.of_volume(&id).map(|mount| mount.id).collect::<Vec<_>>(), [67]);
        assert_eq!(table.file_system_of(&VolumeId::from("4f9b")), None);
    }
}
