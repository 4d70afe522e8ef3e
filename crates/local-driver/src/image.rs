//! The file system in the image of a volume: XFS, since it grows while it is mounted with no right but the one that
//! mounting needs (ext4 asks for `CAP_SYS_RESOURCE` as well, which a container rarely has). xfsprogs makes and grows it.

use std::path::Path;
use std::process::Command;

use crate::program::{ProgramError, run};

/// Its name for mount(2), and as `fs_type` of a capability.
pub(crate) const FILE_SYSTEM: &str = "xfs";
/// The package that has the programs.
const PACKAGE: &str = "xfsprogs";

/// Makes an empty file system in the file, of its size.
pub(crate) fn format(disk: &Path) -> Result<(), ProgramError> {
    let mut mkfs = Command::new("mkfs.xfs");
    mkfs.args(["-q", "-f"]).arg(disk);
    run(mkfs, PACKAGE)
}

/// Lets the file system that is mounted there take all of its device. Nothing to do when it has.
pub(crate) fn grow(mount_point: &Path) -> Result<(), ProgramError> {
    let mut growfs = Command::new("xfs_growfs");
    growfs.arg("-d").arg(mount_point);
    run(growfs, PACKAGE)
}
