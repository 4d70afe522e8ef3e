//! The node itself: it is Ready, runs pods, comes up again, and leaves nothing behind.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::Result;
use e2e::{Pod, binary::bin, node::traces, site};
use serde_json::json;

/// What a node could leave on the machine.
#[derive(Debug, PartialEq)]
struct Machine {
    mounts: Vec<String>,
    links: Vec<String>,
    network_namespaces: bool,
    kernel_parameters: Vec<String>,
}

impl Machine {
    fn look() -> Result<Self> {
        let mut links: Vec<_> = fs::read_dir("/sys/class/net")?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<Result<_>>()?;
        links.sort();
        let mounts = fs::read_to_string("/proc/self/mounts")?.lines().map(str::to_owned).collect();
        let parameters = ["kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "net/ipv4/ip_forward"];
        let parameter = |name: &&str| fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap_or_default();
        let kernel_parameters = parameters.iter().map(parameter).collect();
        Ok(Self { mounts, links, network_namespaces: Path::new("/run/netns").exists(), kernel_parameters })
    }
}

/// Processes that have this text in their command line.
fn processes(text: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let line = fs::read(entry?.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(text) {
            found.push(line);
        }
    }
    Ok(found)
}

#[tokio::test]
async fn a_node_runs_a_pod_and_leaves_nothing_behind() -> Result<()> {
    if !site::possible() {
        return Ok(());
    }
    let before = Machine::look()?;
    let place = site::Place::start().await?;
    let client = place.cluster.client().await?;
    let namespace = place.cluster.namespace("pods").await?;
    let steps = ["write", "/scratch/file", "text", "then", "read", "/scratch/file", "then", "mount", "/scratch"];
    let pod = Pod::new("writer").volume(&json!({ "emptyDir": { "medium": "Memory" } }), "/scratch").runs(&steps);
    let pod = pod.create(&client, &namespace).await?;
    let told = pod.succeeded().await?;
    assert!(told.starts_with("text\ntmpfs rw"), "{told}");
    assert_eq!(pod.log().await?.trim_end(), told);
    pod.delete().await?;
    let holder = Pod::new("holder").volume(&json!({ "emptyDir": { "medium": "Memory" } }), "/scratch");
    let holder = holder.create(&client, &namespace).await?;
    holder.running().await?;

    let (directory, name) = (place.node.places().kubelet(), place.node.host_name());
    let directory = directory.parent().unwrap().to_owned();
    let text = directory.to_string_lossy().into_owned();
    assert_eq!(traces::addresses(&name)?.len(), 1);
    assert!(!processes(&text)?.is_empty());
    assert!(!traces::control_groups(&name)?.is_empty());
    let inside = place.node.mounts().mounts()?;
    assert!(inside.iter().any(|line| line.contains(holder.uid())), "{inside:#?}");
    drop(place);
    assert_eq!(processes(&text)?, [""; 0]);
    assert_eq!(traces::control_groups(&name)?, [""; 0].map(std::path::PathBuf::from));
    assert_eq!(traces::addresses(&name)?, [""; 0]);
    assert!(!directory.exists());
    let after = Machine::look()?;
    assert!(!after.links.contains(&name), "{after:?}");
    assert_eq!(after.mounts, before.mounts);
    assert_eq!(after.kernel_parameters, before.kernel_parameters);
    assert_eq!(after.network_namespaces, before.network_namespaces);
    Ok(())
}

#[test]
fn everything_of_a_node_goes_with_its_owner() -> Result<()> {
    if !site::possible() {
        return Ok(());
    }
    let directory = tempfile::Builder::new().prefix("outrigger-hold-").tempdir()?;
    let path = directory.path().to_owned();
    let name = format!("or-{}", std::process::id());
    let mut holder =
        Command::new(bin("hold-node")?).arg(&path).arg(&name).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let address = lines.next().unwrap()?;
    let addresses = traces::addresses(&name)?;
    assert!(matches!(&addresses[..], [line] if line.contains(&address)), "{addresses:?}");
    let ids = lines.next().unwrap()?;
    let init = ids.split(' ').nth(1).unwrap();
    // Something that nobody waits for, as a container's shim is.
    let orphan = format!("sleep 1000 & mount --bind /etc {0}/kubelet && echo started", path.display());
    let started = Command::new("nsenter")
        .args(["--target", init, "--mount", "--pid", "--", "sh", "-c", &orphan])
        .stdout(Stdio::piped())
        .spawn()?
        .stdout;
    assert_eq!(BufReader::new(started.unwrap()).lines().next().unwrap()?, "started");

    // What the system does with the pipe when the owner is killed.
    drop(holder.stdin.take());
    assert!(holder.wait()?.success());
    assert!(!Path::new("/proc").join(init).exists());
    assert_eq!(traces::control_groups(&name)?, [""; 0].map(std::path::PathBuf::from));
    assert_eq!(traces::addresses(&name)?, [""; 0]);
    assert!(!path.exists());
    assert!(fs::metadata("/etc/passwd").is_ok(), "what was mounted there is not touched");
    Ok(())
}
