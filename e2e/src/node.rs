//! A node as processes: containerd, runc and kubelet of a [`Cluster`], on this machine and apart from it.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use e2e::{Cluster, Node};
//! if let Err(reason) = Node::possible() {
//!     eprintln!("no node: {reason:#}");
//!     return Ok(());
//! }
//! let cluster = Cluster::start_for_nodes().await?;
//! let mut node = Node::start(&cluster, "node-1").await?; // Ready
//! node.reboot().await?;
//! # Ok(())
//! # }
//! ```
//!
//! `hold-node` (in `src/bin`) holds two namespaces, and everything of the node ends with them:
//!
//! - a mount namespace, in which `/run`, `/var/lib` and `/var/log` are the node's own. CSI drivers start there
//!   ([`Driver::move_to`](crate::Driver::move_to), [`Program::in_mounts`]) with process ids of the machine, as a driver's
//!   journal needs them. The kubelet's directory is the same path inside and outside ([`places`]), so sockets in it are
//!   reached from everywhere; what is mounted below it is seen inside only ([`Node::mounts`]).
//! - a process namespace below it, for containerd, kubelet, shims and containers. Mounts below the kubelet's directory go
//!   both ways between the two, as with a driver in a pod with bidirectional mount propagation.
//!
//! The network is the machine's: the node has an address of its own on the loopback link, pods are on a bridge of their
//! node without a way out (`hostNetwork` pods reach the API server). What namespaces do not contain is in [`traces`].
//! Kernel parameters are not touched: the kubelet finds them as it wants them, in files over a read-only `/proc/sys`.

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{coordination::v1::Lease, core::v1};
use kube::{Api, Client};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::{net::UnixStream, process::Command};

use crate::{
    Cluster,
    binary::bin,
    eventually::eventually,
    image, kubeconfig,
    process::{self, Process, Program},
    programs::{self, node as go},
};

mod holder;
mod mount_namespace;
pub mod places;
mod possible;
mod settings;
pub mod traces;

use self::{holder::Holder, places::Places};
pub use crate::node::mount_namespace::MountNamespace;

/// Ready takes about 3 s on an idle machine.
const TO_BE_READY: Duration = Duration::from_mins(2);
const TO_SERVE: Duration = Duration::from_secs(30);
/// Longest path of a Unix socket, without its final zero.
const SOCKET_PATH: usize = 107;
/// What a driver's name may add to the path of the node.
const LONGEST_SOCKET: &str = "kubelet/plugins_registry/a-driver-with-a-long-name.outrigger.dev-reg.sock";

/// A node that is Ready. Dropping it takes everything away that belonged to it, in the machine; its objects in the API
/// server stay.
#[derive(Debug)]
pub struct Node {
    // In the order in which they are ended.
    kubelet: Option<Process>,
    containerd: Option<Process>,
    holder: Holder,
    name: String,
    admin: PathBuf,
    programs: Programs,
    directory: TempDir,
}

#[derive(Debug)]
struct Programs {
    kubelet: PathBuf,
    containerd: PathBuf,
    ctr: PathBuf,
    runc: PathBuf,
}

impl Node {
    /// Whether this machine can have one: root, namespaces, control groups, a few programs of the system.
    ///
    /// # Errors
    /// When not: the reason, to be shown instead of a test.
    pub fn possible() -> Result<()> {
        possible::check()
    }

    /// Starts one with that name and waits until it is Ready. The cluster must have been started for nodes.
    ///
    /// # Errors
    /// When this machine cannot have one, a program cannot be built or started, or the node is not Ready in time; with the
    /// tail of the kubelet's log.
    pub async fn start(cluster: &Cluster, name: &str) -> Result<Self> {
        tokio::task::spawn_blocking(Self::possible).await??;
        let directory = crate::temporary_directory("node")?;
        let longest = directory.path().join(LONGEST_SOCKET).as_os_str().len();
        ensure!(longest <= SOCKET_PATH, "sockets below {} get too long: set TMPDIR", directory.path().display());
        let places = Places::below(directory.path());
        let programs = Programs::install(&places).await?;
        let image = places.image();
        tokio::task::spawn_blocking(move || image::write(&image)).await??;

        let holder = Holder::start(directory.path(), &host_name(directory.path()))?;
        let identity = cluster.node_identity(name, holder.address, directory.path())?;
        let kubelet = settings::kubelet(&places, holder.address, &host_name(directory.path()), cluster, &identity);
        fs::write(places.kubelet_settings(), kubelet.to_string())?;
        fs::write(places.containerd_settings(), settings::containerd(&places))?;
        fs::write(
            places.network().join("10-pods.conflist"),
            settings::network(&host_name(directory.path())).to_string(),
        )?;
        let credentials = kubeconfig::Credentials::Certificate { certificate: identity.certificate, key: identity.key };
        kubeconfig::write(&places.kubelet_kubeconfig(), cluster.address(), cluster.authority(), &credentials)?;

        let admin = cluster.admin_kubeconfig().to_owned();
        let mut node =
            Self { kubelet: None, containerd: None, holder, name: name.to_owned(), admin, programs, directory };
        node.start_containerd().await?;
        node.import_image().await?;
        node.start_kubelet().await?;
        Ok(node)
    }

    /// Its name in the API server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address, which is one of this machine.
    pub fn address(&self) -> Ipv4Addr {
        self.holder.address
    }

    /// Where its files are.
    pub fn places(&self) -> Places {
        Places::below(self.directory.path())
    }

    /// Its mount namespace, which follows the node over a reboot.
    pub fn mounts(&self) -> &MountNamespace {
        &self.holder.mounts
    }

    /// Name of its control groups and of its bridge.
    pub fn host_name(&self) -> String {
        host_name(self.directory.path())
    }

    /// The kubelet, when it runs: its log, above all. The process id is that of an `nsenter` in front of it.
    pub fn kubelet(&mut self) -> Option<&mut Process> {
        self.kubelet.as_mut()
    }

    /// Everything the kubelets of this node have written.
    pub fn kubelet_log(&self) -> String {
        fs::read_to_string(self.directory.path().join("kubelet.log")).unwrap_or_default()
    }

    /// The container runtime, likewise.
    pub fn containerd(&mut self) -> Option<&mut Process> {
        self.containerd.as_mut()
    }

    /// Starts the kubelet and waits until it has reported the node as Ready. Does nothing when it runs.
    ///
    /// # Errors
    /// When the node is not Ready in time, with the tail of the log.
    pub async fn start_kubelet(&mut self) -> Result<()> {
        if self.kubelet.is_some() {
            return Ok(());
        }
        let client = kubeconfig::client(&self.admin).await?;
        let before = heartbeat(&client, &self.name).await?;
        let program = Program::new("kubelet", self.programs.kubelet.clone(), self.directory.path())
            .argument(format!("--config={}", self.places().kubelet_settings().display()))
            .argument(format!("--kubeconfig={}", self.places().kubelet_kubeconfig().display()))
            .argument(format!("--root-dir={}", self.places().kubelet().display()))
            .argument(format!("--hostname-override={}", self.name))
            .argument(format!("--node-ip={}", self.holder.address))
            .argument("--v=2");
        let kubelet = self.kubelet.insert(self.holder.inside(&program).start()?);
        let nodes: Api<v1::Node> = Api::all(client.clone());
        let ready = eventually("the node to be Ready", TO_BE_READY, async || {
            if let Some(code) = kubelet.exit_code()? {
                return Ok(Some(Err(anyhow::anyhow!("the kubelet ended with exit code {code}"))));
            }
            // What an earlier kubelet reported is still there. The first on a node begins with heartbeats only later.
            let fresh = before.is_none() || heartbeat(&client, &self.name).await? != before;
            let node = nodes.get(&self.name).await?;
            Ok((fresh && is_ready(&node)).then_some(Ok(())))
        });
        ready.await.flatten().with_context(|| kubelet.tail())
    }

    /// Ends the kubelet in good order; pods go on, as they do on any node.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn stop_kubelet(&mut self) -> Result<()> {
        let Some(mut kubelet) = self.kubelet.take() else { return Ok(()) };
        kill_process(inner(kubelet.pid())?, Signal::TERM).context("cannot signal the kubelet")?;
        kubelet.ended(TO_SERVE).await.map(drop)
    }

    /// Kills the kubelet; pods go on.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn kill_kubelet(&mut self) -> Result<()> {
        process::kill(&mut self.kubelet).await
    }

    /// Kills the containers of a pod, as the out-of-memory killer would; its sandbox stays. Gives their number.
    ///
    /// # Errors
    /// When processes cannot be listed.
    pub fn kill_containers(&self, pod_uid: &str) -> Result<usize> {
        let mut killed = 0;
        for entry in fs::read_dir("/proc")? {
            let path = entry?.path();
            let groups = fs::read_to_string(path.join("cgroup")).unwrap_or_default();
            let line = fs::read(path.join("cmdline")).unwrap_or_default();
            let pause = line.split(|byte| *byte == 0).eq([image::PROGRAM.as_bytes(), b"pause", b""]);
            if groups.contains(&format!("pod{pod_uid}")) && !pause {
                let pid = path.file_name().and_then(|name| name.to_str()?.parse().ok()).and_then(Pid::from_raw);
                killed += usize::from(pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok()));
            }
        }
        Ok(killed)
    }

    /// Loses power: kubelet, runtime and containers are killed, mounts, `/run` and control groups are gone. Files stay, and
    /// with them sockets that nobody serves. Drivers on the node are other processes: kill them before.
    ///
    /// # Errors
    /// When something does not end.
    pub async fn power_off(&mut self) -> Result<()> {
        process::kill(&mut self.kubelet).await?;
        process::kill(&mut self.containerd).await?;
        self.holder.down()
    }

    /// Comes up again after [`power_off`](Self::power_off), and waits until it is Ready.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn power_on(&mut self) -> Result<()> {
        self.holder.up()?;
        self.start_containerd().await?;
        self.start_kubelet().await
    }

    /// [`power_off`](Self::power_off), then [`power_on`](Self::power_on).
    ///
    /// # Errors
    /// As those.
    pub async fn reboot(&mut self) -> Result<()> {
        self.power_off().await?;
        self.power_on().await
    }

    async fn start_containerd(&mut self) -> Result<()> {
        let places = self.places();
        let path = std::env::var("PATH").unwrap_or_default();
        let program = Program::new("containerd", self.programs.containerd.clone(), self.directory.path())
            .argument("--config")
            .argument(places.containerd_settings())
            .environment("PATH", format!("{}:{path}", places.programs().display()))
            .environment("OUTRIGGER_RUNC", &self.programs.runc);
        // What a killed one left would look like the new one's.
        drop(fs::remove_file(places.containerd_socket()));
        let containerd = self.containerd.insert(self.holder.inside(&program).start()?);
        let socket = places.containerd_socket();
        let serving = eventually("containerd to serve", TO_SERVE, async || {
            if let Some(code) = containerd.exit_code()? {
                return Ok(Some(Err(anyhow::anyhow!("containerd ended with exit code {code}"))));
            }
            Ok(UnixStream::connect(&socket).await.is_ok().then_some(Ok(())))
        });
        serving.await.flatten().with_context(|| containerd.tail())
    }

    async fn import_image(&self) -> Result<()> {
        let mut ctr = Command::new(&self.programs.ctr);
        ctr.arg("--address").arg(self.places().containerd_socket()).args(["--namespace", "k8s.io"]);
        ctr.args(["images", "import", "--local", "--snapshotter", settings::SNAPSHOTTER]).arg(self.places().image());
        let output = ctr.kill_on_drop(true).output().await.context("cannot run ctr")?;
        let said =
            || format!("{} {}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "cannot import the image of the pods: {}", said());
        Ok(())
    }
}

impl Programs {
    /// Builds what is missing, and puts what finds each other by name into directories of the node.
    async fn install(places: &Places) -> Result<Self> {
        for directory in [places.programs(), places.network_plugins(), places.network()] {
            fs::create_dir_all(directory)?;
        }
        let shim = programs::ensured(&go::CONTAINERD_SHIM).await?;
        symlink(shim, places.programs().join(go::CONTAINERD_SHIM.name))?;
        for plugin in [&go::CNI_BRIDGE, &go::CNI_HOST_LOCAL] {
            symlink(programs::ensured(plugin).await?, places.network_plugins().join(plugin.name))?;
        }
        symlink(bin("runc-in-bounds")?, places.programs().join("runc"))?;
        Ok(Self {
            kubelet: programs::ensured(&go::KUBELET).await?,
            containerd: programs::ensured(&go::CONTAINERD).await?,
            ctr: programs::ensured(&go::CTR).await?,
            runc: programs::ensured(&go::RUNC).await?,
        })
    }
}

impl Holder {
    /// The program in both namespaces of the node. `nsenter` has to stay in front of it, since only a child is in the
    /// other process namespace; killed, it takes the program along.
    fn inside(&self, program: &Program) -> Program {
        let nsenter = Program { path: PathBuf::from("nsenter"), arguments: Vec::new(), ..program.clone() };
        nsenter
            .arguments(["--target", &self.init.to_string(), "--mount", "--pid", "--"])
            .arguments(["setpriv", "--pdeathsig", "KILL", "--"])
            .argument(&program.path)
            .arguments(&program.arguments)
    }
}

/// The one child of an `nsenter`.
fn inner(pid: i32) -> Result<Pid> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    children.trim().parse().ok().and_then(Pid::from_raw).context("nothing runs inside")
}

/// The last part of the directory's name is unique on this machine, and short enough for the name of a link.
fn host_name(directory: &Path) -> String {
    let name = directory.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    format!("or-{}", name.rsplit('-').next().unwrap_or_default())
}

/// When the kubelet last said that it is there.
async fn heartbeat(client: &Client, node: &str) -> Result<Option<String>> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let lease = leases.get_opt(node).await?;
    Ok(lease.and_then(|lease| lease.spec?.renew_time).map(|time| format!("{time:?}")))
}

/// Ready, and without the taint that a new node has until the controller knows.
fn is_ready(node: &v1::Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let tainted = node.spec.as_ref().is_some_and(|spec| spec.taints.iter().flatten().next().is_some());
    ready && !tainted
}
