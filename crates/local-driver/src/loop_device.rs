//! Loop devices: block volumes as the kernel shows them. What is attached is read from sysfs; losetup(8) of
//! util-linux attaches and detaches, since the ioctls cannot be made without `unsafe`.
//!
//! A device is attached without `LO_FLAGS_AUTOCLEAR`: between stage and the pod's first open nobody has it open, and
//! the kernel would clear it. Detaching one that is still open sets the flag, so that it goes with its last user.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{ProgramError, run};
use crate::state::VolumeId;

const SYS_BLOCK: &str = "/sys/block";
/// The package that has losetup.
const PACKAGE: &str = "util-linux";

/// A loop device with a block volume behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoopDevice {
    /// `loop7` and the like.
    pub(crate) name: OsString,
    pub(crate) readonly: bool,
    /// It is detached already, and goes when nobody has it open any more.
    going: bool,
}

impl LoopDevice {
    /// Its file below `/dev`.
    pub(crate) fn path(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    /// Whether it can be given to somebody.
    pub(crate) fn stays(&self) -> bool {
        !self.going
    }
}

/// The devices of the volume. Without sysfs or the loop module there are none.
pub(crate) fn attached(id: &VolumeId) -> io::Result<Vec<LoopDevice>> {
    attached_below(Path::new(SYS_BLOCK), id)
}

fn attached_below(sys_block: &Path, id: &VolumeId) -> io::Result<Vec<LoopDevice>> {
    let entries = match fs::read_dir(sys_block) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut devices = Vec::new();
    for entry in entries {
        let entry = entry?;
        if !entry.file_name().as_bytes().starts_with(b"loop") {
            continue;
        }
        let setting = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
        if is_disk_of(&setting("loop/backing_file"), id) {
            let is_on = |file: &str| setting(file).trim_ascii() == b"1";
            devices.push(LoopDevice { name: entry.file_name(), readonly: is_on("ro"), going: is_on("loop/autoclear") });
        }
    }
    Ok(devices)
}

/// As with mounts, the id is enough: the path depends on where it is seen from.
fn is_disk_of(backing_file: &[u8], id: &VolumeId) -> bool {
    let path = backing_file.trim_ascii_end();
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    path.strip_suffix(b"/disk").is_some_and(|dir| dir.ends_with(format!("/{id}").as_bytes()))
}

/// Attaches the file to a free device.
pub(crate) fn attach(disk: &Path, readonly: bool) -> Result<(), ProgramError> {
    let mut losetup = Command::new("losetup");
    losetup.arg("--find");
    if readonly {
        losetup.arg("--read-only");
    }
    losetup.arg("--").arg(disk);
    run(losetup, PACKAGE)
}

/// Detaches the device; while somebody has it open it stays, and goes with the last one.
pub(crate) fn detach(device: &LoopDevice) -> Result<(), ProgramError> {
    let mut losetup = Command::new("losetup");
    losetup.arg("--detach").arg(device.path());
    run(losetup, PACKAGE)
}

/// Gives the device the size that its file has meanwhile.
pub(crate) fn refresh(device: &LoopDevice) -> Result<(), ProgramError> {
    let mut losetup = Command::new("losetup");
    losetup.arg("--set-capacity").arg(device.path());
    run(losetup, PACKAGE)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_devices_of_a_volume_are_those_of_its_file() {
        let sys = tempfile::tempdir().unwrap();
        let device = |name: &str, file: Option<&str>, ro: &str, autoclear: &str| {
            let dir = sys.path().join(name);
            fs::create_dir_all(dir.join("loop")).unwrap();
            fs::write(dir.join("ro"), ro).unwrap();
            if let Some(file) = file {
                fs::write(dir.join("loop/backing_file"), format!("{file}\n")).unwrap();
                fs::write(dir.join("loop/autoclear"), autoclear).unwrap();
            }
        };
        device("loop0", None, "0\n", "");
        device("loop1", Some("/var/state/data/4f9b/disk"), "0\n", "0\n");
        device("loop2", Some("/state/data/4f9b/disk (deleted)"), "1\n", "1\n");
        device("loop3", Some("/state/data/04f9b/disk"), "0\n", "0\n");
        device("loop4", Some("/state/data/4f9b/disk2"), "0\n", "0\n");
        device("vda", Some("/state/data/4f9b/disk"), "0\n", "0\n");
        let mut devices = attached_below(sys.path(), &VolumeId::from("4f9b")).unwrap();
        devices.sort_by(|a, b| a.name.cmp(&b.name));
        let seen: Vec<_> =
            devices.iter().map(|one| (one.path().display().to_string(), one.readonly, one.stays())).collect();
        assert_eq!(seen, [("/dev/loop1".to_owned(), false, true), ("/dev/loop2".to_owned(), true, false)]);
        assert!(attached_below(&sys.path().join("none"), &VolumeId::from("4f9b")).unwrap().is_empty());
    }
}
