//! `make function-order`: which functions of the release builds run, in the order of their first call, for
//! `release/function-order.txt`.
//!
//! Each program runs in an emulator that logs every piece of code it meets for the first time, and does what it is there
//! for: it starts, leads, idles, works, ends. So the list begins with what an idle process needs. Code for failures is not
//! asked for.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bench::functions::Functions;
use e2e::attach_scene::AttachScene;
use e2e::http_get::http_get;
use e2e::ports::Port;
use e2e::resize_scene::{Fields, ResizeScene};
use e2e::scene::{Scene, leading};
use e2e::sidecar::{Role, Settings};
use e2e::{Cluster, Driver, Program, Sidecar};
use serde_json::json;
use tokio::time::sleep;

/// Several renewals of the lease.
const IDLE: Duration = Duration::from_secs(20);
/// What is done once more goes another way than the first time.
const TIMES: usize = 20;

const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../release/function-order.txt");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let programs = std::env::args_os().nth(1).context("usage: function-order DIRECTORY, of programs with symbols")?;
    let recorder = Recorder { programs: programs.into(), logs: tempfile::tempdir()? };
    let cluster = Cluster::start().await?;
    recorder.provision(&cluster).await?;
    recorder.attach(&cluster).await?;
    recorder.resize(&cluster).await?;
    recorder.beside_a_driver().await?;
    let (mut known, mut list) = (HashSet::new(), String::new());
    for program in ["csi-provisioner", "csi-attacher", "csi-resizer", "csi-node-driver-registrar", "livenessprobe"] {
        let functions = Functions::of(&recorder.programs.join(program))?;
        for name in functions.ran(&recorder.log(program))? {
            if known.insert(name.to_owned()) {
                list.push_str(name);
                list.push('\n');
            }
        }
    }
    std::fs::write(LIST, list).with_context(|| format!("cannot write {LIST}"))
}

struct Recorder {
    programs: PathBuf,
    logs: tempfile::TempDir,
}

impl Recorder {
    fn log(&self, program: &str) -> PathBuf {
        self.logs.path().join(program)
    }

    /// Makes a program log what of it runs.
    fn emulated(&self, program: Program) -> Program {
        let log = self.log(&program.name);
        let emulator = format!("qemu-{}", std::env::consts::ARCH);
        program.through(&emulator).environment("QEMU_LOG", "in_asm").environment("QEMU_LOG_FILENAME", log)
    }

    /// Starts a sidecar that leads, and lets it idle.
    async fn leader(&self, role: Role, kubeconfig: &Path, driver: &Driver, namespace: &str) -> Result<Sidecar> {
        let executable = self.programs.join(role.program());
        let settings = Settings::of(role.program(), executable, kubeconfig, &driver.address())?;
        let namespace = format!("--leader-election-namespace={namespace}");
        let settings = settings.flag("--leader-election").flag(&namespace).flag("--v=2");
        let leader = leading(settings.map(|program| self.emulated(program))).await?;
        sleep(IDLE).await;
        Ok(leader)
    }

    async fn provision(&self, cluster: &Cluster) -> Result<()> {
        let scene = Scene::start_in(cluster, "provision", &[]).await?;
        let mut leader =
            self.leader(Role::Provisioner, &scene.account.kubeconfig, &scene.driver, &scene.namespace).await?;
        let name = |number| format!("claim-{number}");
        for number in 0..TIMES {
            scene.claim(&name(number), &json!({})).await?;
        }
        let mut volumes = Vec::new();
        for number in 0..TIMES {
            volumes.push(scene.bound(&name(number)).await?);
            scene.delete_claim(&name(number)).await?;
        }
        for volume in &volumes {
            scene.gone(volume).await?;
        }
        leader.process().stop().await.map(drop)
    }

    async fn attach(&self, cluster: &Cluster) -> Result<()> {
        let scene = AttachScene::start(cluster, "attach", &[]).await?;
        scene.add_node("node", "node").await?;
        let mut leader =
            self.leader(Role::Attacher, &scene.account.kubeconfig, &scene.driver, &scene.namespace).await?;
        let name = |number| format!("volume-{number}");
        for number in 0..TIMES {
            scene.add_volume(&name(number), &json!({}), &json!({})).await?;
            scene.attach(&name(number), &name(number), "node").await?;
        }
        for number in 0..TIMES {
            scene.attached(&name(number)).await?;
            scene.detach(&name(number)).await?;
        }
        for number in 0..TIMES {
            scene.detached(&name(number)).await?;
        }
        leader.process().stop().await.map(drop)
    }

    async fn resize(&self, cluster: &Cluster) -> Result<()> {
        let scene = ResizeScene::start(cluster, "resize", &[]).await?;
        let mut leader = self.leader(Role::Resizer, &scene.account.kubeconfig, &scene.driver, &scene.namespace).await?;
        let name = |number| format!("claim-{number}");
        for number in 0..TIMES {
            scene.add_claim(&name(number), &Fields::default()).await?;
            scene.ask(&name(number), "2Mi").await?;
        }
        for number in 0..TIMES {
            scene.has(&name(number), "2Mi").await?;
        }
        leader.process().stop().await.map(drop)
    }

    /// The programs of a node.
    async fn beside_a_driver(&self) -> Result<()> {
        let driver = Driver::start("beside.outrigger.dev", &[]).await?;
        let (directory, port) = (tempfile::tempdir()?, Port::claim()?);
        let program = |name: &str| {
            let program = Program::new(name, self.programs.join(name), directory.path());
            self.emulated(program.argument(format!("--csi-address={}", driver.socket().display())))
        };
        let registrar = program("csi-node-driver-registrar")
            .argument(format!("--plugin-registration-path={}", directory.path().display()))
            .argument("--kubelet-registration-path=/var/lib/kubelet/plugins/driver/csi.sock");
        let mut registrar = registrar.start()?;
        let probe = program("livenessprobe").argument(format!("--http-endpoint={}", port.address()));
        let mut probe = probe.start()?;
        sleep(IDLE).await;
        for _ in 0..TIMES {
            http_get(&port.address(), "/healthz").await?;
        }
        registrar.stop().await?;
        probe.stop().await.map(drop)
    }
}
