//! Copies of content: one sparse file, or a directory with all that is in it.
//!
//! Pods may write meanwhile, and may want to be followed out of the volume: every step goes from an open directory to
//! a name in it, and no symbolic link is followed. What vanishes meanwhile is left out. Kept are owners, modes, times,
//! links, pipes, devices and holes; not kept are hard links, extended attributes and access times.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid};
use rustix::fs::{SeekFrom as Seeking, symlinkat, utimensat};
use rustix::fs::{chownat, fchmod, fchown, fstat, futimens, mkdirat, mknodat, openat, readlinkat, seek, statat};
use rustix::io::Errno;

const HERE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);
const DIRECTORY: OFlags = HERE.union(OFlags::RDONLY).union(OFlags::DIRECTORY);
/// A pipe in the place of the file that was there a moment ago is not waited for.
const READ: OFlags = HERE.union(OFlags::RDONLY).union(OFlags::NONBLOCK);
const CREATE: OFlags = HERE.union(OFlags::RDWR).union(OFlags::CREATE).union(OFlags::EXCL);
const PRIVATE: Mode = Mode::RWXU;

/// Copies the directory `from` to `to`, which must not exist. It is on disk when this returns.
pub(super) fn directory(from: &Path, to: &Path) -> io::Result<()> {
    let from = openat(CWD, from, DIRECTORY, Mode::empty())?;
    mkdirat(CWD, to, PRIVATE)?;
    let to = openat(CWD, to, DIRECTORY, Mode::empty())?;
    fill(&from, &to)
}

/// Copies the file `from` to `to`, which must not exist. It is on disk when this returns.
pub(super) fn file(from: &Path, to: &Path) -> io::Result<File> {
    let from = File::from(openat(CWD, from, READ, Mode::empty())?);
    let to = File::from(openat(CWD, to, CREATE, Mode::RUSR | Mode::WUSR)?);
    copy_data(&from, &to)?;
    to.sync_all()?;
    Ok(to)
}

/// Copies what is in the open directory `from`, then its attributes.
fn fill(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    for entry in Dir::read_from(from)? {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        match copy_entry(from, to, entry.file_name()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            copied => copied?,
        }
    }
    give(to, &fstat(from)?)?;
    File::from(to.try_clone()?).sync_all()
}

fn copy_entry(from: &OwnedFd, to: &OwnedFd, name: &CStr) -> io::Result<()> {
    let stat = statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            let from = openat(from, name, DIRECTORY, Mode::empty())?;
            mkdirat(to, name, PRIVATE)?;
            fill(&from, &openat(to, name, DIRECTORY, Mode::empty())?)
        }
        FileType::RegularFile => {
            let from = File::from(openat(from, name, READ, Mode::empty())?);
            let stat = fstat(&from)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                return Ok(());
            }
            let to = File::from(openat(to, name, CREATE, Mode::RUSR | Mode::WUSR)?);
            copy_data(&from, &to)?;
            give(&to, &stat)?;
            to.sync_all()
        }
        FileType::Symlink => {
            symlinkat(readlinkat(from, name, Vec::new())?, to, name)?;
            give_name(to, name, &stat)?;
            Ok(utimensat(to, name, &times(&stat), AtFlags::SYMLINK_NOFOLLOW)?)
        }
        special => {
            mknodat(to, name, special, Mode::from_raw_mode(stat.st_mode), stat.st_rdev)?;
            give_name(to, name, &stat)
        }
    }
}

/// Copies the data and leaves the holes out, as far as the file system tells where they are.
fn copy_data(mut from: &File, mut to: &File) -> io::Result<()> {
    let size = from.metadata()?.len();
    let mut position = 0;
    while position < size {
        let data = match seek(from, Seeking::Data(position)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let hole = seek(from, Seeking::Hole(data))?.min(size);
        if hole <= data {
            break;
        }
        from.seek(SeekFrom::Start(data))?;
        to.seek(SeekFrom::Start(data))?;
        io::copy(&mut from.take(hole - data), &mut to)?;
        position = hole;
    }
    to.set_len(size)
}

/// Owner before mode: changing the owner takes the set-user-id bit away.
fn give(to: impl AsFd, stat: &Stat) -> io::Result<()> {
    let (user, group) = owner(stat);
    fchown(&to, user, group)?;
    fchmod(&to, Mode::from_raw_mode(stat.st_mode))?;
    Ok(futimens(&to, &times(stat))?)
}

/// The owner, of what cannot be opened.
fn give_name(to: &OwnedFd, name: &CStr, stat: &Stat) -> io::Result<()> {
    let (user, group) = owner(stat);
    Ok(chownat(to, name, user, group, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn owner(stat: &Stat) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))
}

fn times(stat: &Stat) -> Timestamps {
    let nanos = stat.st_mtime_nsec.try_into().unwrap_or_default();
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: stat.st_mtime, tv_nsec: nanos },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::fs;
    use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_directory_is_copied_with_links_modes_times_and_pipes() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/b/file"), "content").unwrap();
        fs::write(from.join("empty"), "").unwrap();
        symlink("/etc/passwd", from.join("link")).unwrap();
        symlink("nowhere", from.join("a/broken")).unwrap();
        mknodat(CWD, from.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        fs::set_permissions(from.join("a/b/file"), fs::Permissions::from_mode(0o4711)).unwrap();
        fs::set_permissions(from.join("a"), fs::Permissions::from_mode(0o1755)).unwrap();
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        File::open(from.join("a/b/file")).unwrap().set_modified(long_ago).unwrap();
        File::open(from.join("a")).unwrap().set_modified(long_ago).unwrap();

        directory(&from, &to).unwrap();
        assert_eq!(fs::read(to.join("a/b/file")).unwrap(), b"content");
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/etc/passwd"));
        assert!(fs::symlink_metadata(to.join("pipe")).unwrap().file_type().is_fifo());
        let all = ["", "a", "a/b", "a/b/file", "a/broken", "empty", "link", "pipe"];
        for name in all {
            let stat = |top: &Path| fs::symlink_metadata(top.join(name)).unwrap();
            let same = |stat: fs::Metadata| (stat.mode(), stat.uid(), stat.gid());
            assert_eq!(same(stat(&from)), same(stat(&to)), "{name}");
        }
        for name in ["a", "a/b/file"] {
            assert_eq!(fs::metadata(to.join(name)).unwrap().modified().unwrap(), long_ago, "{name}");
        }
        fs::write(from.join("a/b/file"), "changed").unwrap();
        assert_eq!(fs::read(to.join("a/b/file")).unwrap(), b"content");
    }

    #[test]
    fn a_file_keeps_its_holes_and_its_size() {
        const MIB: u64 = 1 << 20;
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let disk = File::create_new(&from).unwrap();
        disk.set_len(64 * MIB).unwrap();
        disk.write_all_at(b"begin", 0).unwrap();
        disk.write_all_at(b"middle", 32 * MIB - 3).unwrap();
        let copy = file(&from, &to).unwrap();
        assert_eq!(copy.metadata().unwrap().len(), 64 * MIB);
        assert!(copy.metadata().unwrap().blocks() * 512 < MIB, "the holes are filled");
        assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap());
    }

    #[test]
    fn no_link_leads_out_of_what_is_copied() {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        fs::create_dir(&secret).unwrap();
        let link = dir.path().join("link");
        symlink(&secret, &link).unwrap();
        directory(&link, &dir.path().join("to")).unwrap_err();
        symlink(dir.path().join("lock"), dir.path().join("disk")).unwrap();
        file(&dir.path().join("disk"), &dir.path().join("copy")).unwrap_err();
    }
}
