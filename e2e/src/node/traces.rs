//! What a node leaves on the machine outside its mount and process namespaces: an address of the loopback link, control
//! groups, a bridge. `hold-node` makes these and takes them away again.

use std::{
    collections::BTreeSet,
    fs,
    hash::{BuildHasher as _, RandomState},
    io::ErrorKind,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread::sleep,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};

const CONTROL_GROUPS: &str = "/sys/fs/cgroup";
/// A range that is reserved for documentation (RFC 5737): nothing is reached there.
const ADDRESSES: [u8; 3] = [198, 51, 100];
/// The kernel takes a moment to empty the group of a process that was killed.
const TRIES: u32 = 500;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Gives the loopback link an address that no other node has: the kubelet refuses 127.0.0.1 as the address of its node.
/// Its label tells whose it is.
///
/// # Errors
/// When `ip` is missing, or the system refuses every address.
pub fn claim_address(name: &str) -> Result<Ipv4Addr> {
    let start = RandomState::new().hash_one(std::process::id());
    let mut refused = String::new();
    for offset in 0..254_u64 {
        let last = u8::try_from(start.wrapping_add(offset) % 254)? + 1;
        let [a, b, c] = ADDRESSES;
        let address = Ipv4Addr::new(a, b, c, last);
        let output = ip(&["addr", "add", &format!("{address}/32"), "dev", "lo", "label", &label(name)])?;
        if output.status.success() {
            return Ok(address);
        }
        String::from_utf8_lossy(&output.stderr).trim().clone_into(&mut refused);
    }
    bail!("no address for the node: {refused}")
}

/// Of the addresses of a node. A label begins with its link, and has 15 characters at most.
fn label(name: &str) -> String {
    format!("lo:{name}")
}

/// Takes an address away again.
///
/// # Errors
/// When the system refuses.
pub fn give_back_address(address: Ipv4Addr) -> Result<()> {
    let output = ip(&["addr", "del", &format!("{address}/32"), "dev", "lo"])?;
    ensure!(output.status.success(), "cannot remove {address}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// Addresses of the node of that name, for tests that look for leftovers. Its address may be another node's by now.
///
/// # Errors
/// When `ip` is missing or fails.
pub fn addresses(name: &str) -> Result<Vec<String>> {
    let output = ip(&["-o", "-4", "addr", "show", "label", &label(name)])?;
    ensure!(output.status.success(), "cannot list addresses: {}", String::from_utf8_lossy(&output.stderr).trim());
    let lines = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    Ok(lines)
}

/// Removes a bridge, if it is there.
///
/// # Errors
/// When the system refuses.
pub fn remove_bridge(name: &str) -> Result<()> {
    if !Path::new("/sys/class/net").join(name).exists() {
        return Ok(());
    }
    let output = ip(&["link", "del", name])?;
    ensure!(output.status.success(), "cannot remove {name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

fn ip(arguments: &[&str]) -> Result<Output> {
    Command::new("ip").args(arguments).output().context("cannot run ip: is iproute2 installed?")
}

/// Makes a control group of that name in every hierarchy.
///
/// # Errors
/// When the system refuses.
pub fn make_control_groups(name: &str) -> Result<()> {
    for hierarchy in hierarchies()? {
        let group = hierarchy.join(name);
        if hierarchy == Path::new(CONTROL_GROUPS) {
            // Version 2: groups below a group have the controllers that it hands on. What is not there is not needed.
            for controller in ["cpuset", "cpu", "io", "memory", "pids"] {
                drop(fs::write(hierarchy.join("cgroup.subtree_control"), format!("+{controller}")));
            }
        }
        match fs::create_dir(&group) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("cannot make {}", group.display()));
            }
            Ok(()) | Err(_) => {}
        }
        // Version 1: a new group has no processors, and takes no process before it has some.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(value) = fs::read_to_string(hierarchy.join(file)) {
                drop(fs::write(group.join(file), value));
            }
        }
    }
    Ok(())
}

/// Removes a control group and those below it, in every hierarchy. Their processes must have been killed.
///
/// # Errors
/// When one is still in use after some seconds.
pub fn remove_control_groups(name: &str) -> Result<()> {
    let mut tries = 0;
    for hierarchy in hierarchies()? {
        let group = hierarchy.join(name);
        while let Err(error) = remove_group(&group) {
            tries += 1;
            if tries > TRIES {
                return Err(error).with_context(|| format!("cannot remove {}", group.display()));
            }
            sleep(BETWEEN_TRIES);
        }
    }
    Ok(())
}

/// Only directories can be removed there, and only without groups below.
fn remove_group(group: &Path) -> std::io::Result<()> {
    let entries = match fs::read_dir(group) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_group(&entry.path())?;
        }
    }
    fs::remove_dir(group)
}

/// Roots of the control groups: one for version 2, one per controller for version 1, and both on a hybrid system.
fn hierarchies() -> Result<BTreeSet<PathBuf>> {
    let root = Path::new(CONTROL_GROUPS);
    let is_hierarchy = |path: &Path| path.join("cgroup.procs").exists();
    if is_hierarchy(root) {
        return Ok(BTreeSet::from([root.to_owned()]));
    }
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(root).context("no control groups")? {
        // Several controllers of one hierarchy have links to it.
        let path = fs::canonicalize(entry?.path())?;
        if is_hierarchy(&path) {
            found.insert(path);
        }
    }
    ensure!(!found.is_empty(), "no control groups are mounted at {CONTROL_GROUPS}");
    Ok(found)
}

/// Paths of control groups of that name, for tests that look for leftovers.
///
/// # Errors
/// When there are no control groups at all.
pub fn control_groups(name: &str) -> Result<Vec<PathBuf>> {
    Ok(hierarchies()?.into_iter().map(|hierarchy| hierarchy.join(name)).filter(|group| group.exists()).collect())
}
