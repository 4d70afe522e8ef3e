//! `mount_flags` of a capability as flags of a bind mount. No I/O.

use rustix::mount::MountFlags;

use crate::mount_table::NOSYMFOLLOW;

/// The flags that restrict a mount, or its access times; options of a file system have no meaning for a directory
/// and are returned by name. `rw`, `exec`, `suid`, `dev` and the like are what a mount has without flags: they lift
/// no restriction of the file system below.
pub(super) fn parse(names: &[String]) -> (MountFlags, Vec<&str>) {
    let mut flags = MountFlags::empty();
    let mut meaningless = Vec::new();
    for name in names.iter().flat_map(|list| list.split(',')) {
        flags |= match name {
            "ro" => MountFlags::RDONLY,
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noexec" => MountFlags::NOEXEC,
            "nosymfollow" => NOSYMFOLLOW,
            "noatime" => MountFlags::NOATIME,
            "nodiratime" => MountFlags::NODIRATIME,
            "relatime" => MountFlags::RELATIME,
            "" | "defaults" | "bind" | "rw" | "suid" | "dev" | "exec" | "symfollow" | "atime" | "diratime" => {
                MountFlags::empty()
            }
            other => {
                meaningless.push(other);
                MountFlags::empty()
            }
        };
    }
    (flags, meaningless)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn flags_of_a_mount_are_taken_and_options_of_a_file_system_named() {
        let names = ["ro", "noexec,nosuid", "rw", "discard", "nodev,data=ordered"].map(str::to_owned);
        let (flags, meaningless) = parse(&names);
        let expected = MountFlags::RDONLY | MountFlags::NOEXEC | MountFlags::NOSUID | MountFlags::NODEV;
        assert_eq!((flags, meaningless), (expected, vec!["discard", "data=ordered"]));
        assert_eq!(parse(&[]), (MountFlags::empty(), Vec::new()));
    }
}
