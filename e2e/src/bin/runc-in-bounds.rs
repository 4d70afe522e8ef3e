//! `runc` for machines that do not have all capabilities themselves: what it would refuse is taken out of the container's
//! `config.json`. That is each capability beyond the bounding set, the place in the order of the out-of-memory killer
//! where it takes a capability to set, and filters of system calls, since `runc` is built without the library for those.
//! The real `runc` is named by `OUTRIGGER_RUNC`.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result};
use serde_json::Value;

/// In the order of their bits, without `CAP_`.
const CAPABILITIES: &str = "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP \
    LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT \
    SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE \
    AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF \
    CHECKPOINT_RESTORE";
const SYS_RESOURCE: &str = "CAP_SYS_RESOURCE";

fn main() -> ExitCode {
    let Err(error) = run();
    #[expect(clippy::print_stderr, reason = "the runtime reports it as the reason of the failure")]
    {
        eprintln!("runc-in-bounds: {error:#}");
    }
    ExitCode::FAILURE
}

fn run() -> Result<std::convert::Infallible> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.iter().any(|argument| argument == "create" || argument == "run") {
        let status = fs::read_to_string("/proc/self/status")?;
        keep_in_bounds(&bundle(&arguments).join("config.json"), &bounding_set(&status)?)?;
    }
    let runc = std::env::var_os("OUTRIGGER_RUNC").context("OUTRIGGER_RUNC is not set")?;
    Err(Command::new(runc).args(arguments).exec()).context("cannot run runc")
}

/// The directory of the container's `config.json`.
fn bundle(arguments: &[OsString]) -> PathBuf {
    let mut rest = arguments.iter().skip_while(|argument| *argument != "--bundle" && *argument != "-b");
    rest.nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from)
}

fn bounding_set(status: &str) -> Result<BTreeSet<String>> {
    let set = status.lines().find_map(|line| line.strip_prefix("CapBnd:")).context("no bounding set")?;
    let set = u64::from_str_radix(set.trim(), 16)?;
    let named = CAPABILITIES.split_whitespace().enumerate().filter(|(bit, _)| set >> bit & 1 == 1);
    Ok(named.map(|(_, name)| format!("CAP_{name}")).collect())
}

fn keep_in_bounds(path: &Path, allowed: &BTreeSet<String>) -> Result<()> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut spec: Value = serde_json::from_slice(&text)?;
    let sets = spec.pointer_mut("/process/capabilities").and_then(Value::as_object_mut);
    for set in sets.into_iter().flat_map(|sets| sets.values_mut()).filter_map(Value::as_array_mut) {
        set.retain(|name| name.as_str().is_some_and(|name| allowed.contains(name)));
    }
    if let Some(process) = spec.pointer_mut("/process").and_then(Value::as_object_mut)
        && !allowed.contains(SYS_RESOURCE)
    {
        process.remove("oomScoreAdj");
    }
    if let Some(linux) = spec.pointer_mut("/linux").and_then(Value::as_object_mut) {
        linux.remove("seccomp");
    }
    fs::write(path, spec.to_string()).with_context(|| format!("cannot write {}", path.display()))
}
