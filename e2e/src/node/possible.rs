//! Whether this machine can have a node.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::traces;

/// Programs of the system that a node needs, and the package of Debian that has them.
const NEEDED: &[(&str, &str)] = &[
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("mount", "mount"),
    ("ip", "iproute2"),
    ("mkfs.xfs", "xfsprogs"),
    ("xfs_growfs", "xfsprogs"),
];

/// Tries what a node needs that not every machine has.
pub(super) fn check() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "a node needs root: containers, mounts, control groups");
    for (program, package) in NEEDED {
        let found = quiet(Command::new(program).arg("--help")).is_ok();
        ensure!(found, "a node needs the program {program}: install {package}");
    }
    let namespaces = quiet(Command::new("unshare").args(["--mount", "--pid", "--fork", "--mount-proc", "true"]));
    ensure!(namespaces?, "a node needs mount and process namespaces, which this system does not allow");
    let name = format!("outrigger-try-{}", std::process::id());
    let made = traces::make_control_groups(&name);
    traces::remove_control_groups(&name)?;
    made.context("a node needs control groups of its own")?;
    let temporary = std::env::temp_dir();
    let hidden = ["/run", "/var/lib", "/var/log", "/proc", "/sys"].iter().any(|path| temporary.starts_with(path));
    ensure!(!hidden, "a node has its own {}: set TMPDIR to another place", temporary.display());
    Ok(())
}

fn quiet(command: &mut Command) -> Result<bool> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command.status().with_context(|| format!("cannot run {}", command.get_program().display()))?.success())
}
