//! Holds the namespaces of one node, and takes away everything of it when its owner is gone.
//!
//! ```text
//! hold-node DIR NAME            makes address, control groups and namespaces; obeys standard input
//! └ hold-node mounts DIR        in the mount namespace of the node
//!   └ hold-node init DIR        process 1 of the process namespace of the node
//! ```
//!
//! On standard output: `ADDRESS`, then for each time the node comes up a line `MOUNTS INIT`, the process ids that hold the
//! two namespaces. On standard input: `d` takes the node down as a power failure does (all its processes and mounts,
//! /run and control groups; its files stay), answered by a line `down`; `u` brings it up again; `q` ends it. The end of
//! input means that the owner is gone, and DIR is removed too. Killing any of the three processes ends all processes of the
//! node, the kernel sees to it.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _, stdin, stdout},
    net::Ipv4Addr,
    path::Path,
    process::{Child, ChildStdout, Command, ExitCode, Stdio},
    thread::sleep,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::node::{places::Places, traces};
use rustix::{
    io::Errno,
    mount::{MountFlags, MountPropagationFlags, mount, mount_bind, mount_change, mount_remount},
    process::{Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, wait},
};

/// How often process 1 looks for orphans while it has no children.
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// What the kubelet wants, from its `setupKernelTunables`.
const KERNEL_PARAMETERS: &[(&str, &str)] = &[
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let arguments: Vec<&OsStr> = arguments.iter().map(AsRef::as_ref).collect();
    let done = match arguments[..] {
        [mode, directory] if mode == "mounts" => hold_mounts(Path::new(directory)),
        [mode, directory] if mode == "init" => init(Path::new(directory)),
        [directory, name] => hold(Path::new(directory), &name.to_string_lossy()),
        _ => Err(anyhow::anyhow!("usage: hold-node DIR NAME")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the owner shows it")]
            {
                eprintln!("hold-node: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

/// A line of the protocol. An owner that does not read any more is gone, which is noticed elsewhere.
fn tell(line: &str) {
    let mut output = stdout().lock();
    drop(writeln!(output, "{line}").and_then(|()| output.flush()));
}

/// The outermost process, on the host.
fn hold(directory: &Path, name: &str) -> Result<()> {
    let address = traces::claim_address(name)?;
    let held = obey(directory, name, address);
    let cleaned =
        [traces::remove_bridge(name), traces::remove_control_groups(name), traces::give_back_address(address)];
    if held? == End::Orphaned {
        // Others of the same owner may still write there; whoever is last succeeds.
        drop(fs::remove_dir_all(directory));
    }
    cleaned.into_iter().collect()
}

/// Whether anybody still wants the directory.
#[derive(PartialEq)]
enum End {
    Ordered,
    Orphaned,
}

fn obey(directory: &Path, name: &str, address: Ipv4Addr) -> Result<End> {
    tell(&address.to_string());
    let mut up = Some(Up::start(directory, name)?);
    let mut orders = stdin().lock();
    let mut order = [0_u8; 1];
    let mut end = End::Orphaned;
    while orders.read(&mut order)? == 1 {
        match order {
            [b'q'] => {
                end = End::Ordered;
                break;
            }
            [b'd'] => {
                up.take().map_or(Ok(()), Up::end)?;
                traces::remove_control_groups(name)?;
                traces::remove_bridge(name)?;
                tell("down");
            }
            [b'u'] if up.is_none() => up = Some(Up::start(directory, name)?),
            _ => bail!("no such order: {order:?}"),
        }
    }
    up.take().map_or(Ok(()), Up::end)?;
    Ok(end)
}

/// The namespaces of a node that is up.
struct Up {
    mounts: Child,
    init: Pid,
}

impl Up {
    fn start(directory: &Path, name: &str) -> Result<Self> {
        traces::make_control_groups(name)?;
        let mut mounts = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "--"])
            .arg(std::env::current_exe()?)
            .arg("mounts")
            .arg(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run unshare")?;
        let init = first_line(mounts.stdout.take())?;
        let pid = init.parse().ok().and_then(Pid::from_raw);
        let Some(init) = pid else { bail!("the namespaces of the node were not made") };
        tell(&format!("{} {}", mounts.id(), init.as_raw_nonzero()));
        Ok(Self { mounts, init })
    }

    /// The kernel kills everything in a process namespace with its process 1, and lets that end last.
    fn end(mut self) -> Result<()> {
        let _ = kill_process(self.init, Signal::KILL);
        self.mounts.wait().map(drop).context("the namespaces of the node do not end")
    }
}

/// In the mount namespace: everything is private to the node but the kubelet's directory, which is shared by the mount
/// namespaces inside the node, as in a pod with bidirectional mount propagation.
fn hold_mounts(directory: &Path) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let places = Places::below(directory);
    mount("tmpfs", "/run", "tmpfs", MountFlags::empty(), c"mode=755").context("cannot mount /run")?;
    for (here, there) in [(places.var_lib(), "/var/lib"), (places.var_log(), "/var/log")] {
        fs::create_dir_all(&here)?;
        mount_bind(&here, there).with_context(|| format!("cannot mount {there}"))?;
    }
    let kubelet = places.kubelet();
    fs::create_dir_all(&kubelet)?;
    mount_bind(&kubelet, &kubelet).context("cannot mount the kubelet's directory")?;
    mount_change(&kubelet, MountPropagationFlags::SHARED | MountPropagationFlags::REC)?;

    // `unshare` forks to get a process 1; killed with us, it takes that along.
    let mut namespace = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "unshare", "--pid", "--fork", "--kill-child=KILL", "--mount"])
        .args(["--mount-proc", "--propagation", "unchanged", "--"])
        .arg(std::env::current_exe()?)
        .arg("init")
        .arg(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run setpriv and unshare")?;
    let line = first_line(namespace.stdout.take())?;
    ensure!(line == "ready", "process 1 of the node did not start");
    let id = namespace.id();
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
    tell(children.trim());
    namespace.wait()?;
    Ok(())
}

/// Process 1 of the node.
fn init(directory: &Path) -> Result<()> {
    protect_kernel_parameters(directory)?;
    tell("ready");
    loop {
        if wait(WaitOptions::empty()).err() == Some(Errno::CHILD) {
            sleep(BETWEEN_LOOKS);
        }
    }
}

/// The kubelet sets kernel parameters of the whole machine, unless it finds them as it wants them.
fn protect_kernel_parameters(directory: &Path) -> Result<()> {
    mount_bind("/proc/sys", "/proc/sys").context("cannot mount /proc/sys")?;
    mount_remount("/proc/sys", MountFlags::BIND | MountFlags::RDONLY, c"").context("cannot protect /proc/sys")?;
    for (parameter, wanted) in KERNEL_PARAMETERS {
        let (here, there) = (directory.join(parameter.replace('/', ".")), Path::new("/proc/sys").join(parameter));
        fs::write(&here, format!("{wanted}\n"))?;
        mount_bind(&here, &there).with_context(|| format!("cannot hide {}", there.display()))?;
    }
    Ok(())
}

fn first_line(output: Option<ChildStdout>) -> Result<String> {
    let mut line = String::new();
    if let Some(output) = output {
        BufReader::new(output).read_line(&mut line)?;
    }
    Ok(line.trim().to_owned())
}
