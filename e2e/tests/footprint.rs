//! What the release build takes of memory: idle, in a cluster of many volumes, and when many claims come at once.
//!
//! The figures beside Go's are those of `make bench-idle` and `make bench-memory`; here they have bounds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::sidecar::{Role, Settings};
use e2e::{
    Cluster, Driver, Footprint, MemoryLimit, Population, Program, Sidecar, binary::release_bin, eventually, population,
};
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{Api, ResourceExt as _, core::PartialObjectMeta};
use kube_runtime::{
    WatchStreamExt as _,
    watcher::{self, watcher},
};
use tokio::sync::{Mutex, OnceCell};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_mins(2);
const BURST_PATIENCE: Duration = Duration::from_mins(5);
const MEBIBYTE: u64 = 1 << 20;

/// The goals are 7 MiB and 1.5 MiB; a quarter more is a defect.
const IDLE_RESIDENT: u64 = 8 * MEBIBYTE + MEBIBYTE * 3 / 4;
const IDLE_ANONYMOUS: u64 = MEBIBYTE * 19 / 10;

/// The design allows 3 MiB for a program of the node.
const NODE_PROGRAM_RESIDENT: u64 = MEBIBYTE * 15 / 4;
/// The limit of the container in which Go's were killed on machines of many cores.
const NODE_CONTAINER: u64 = 16 * MEBIBYTE;

/// Volumes of the cluster in which C2 and C3 are asked for.
const VOLUMES: usize = 5_000;

const OWN_PEAK: u64 = 13 * MEBIBYTE;
const OWN_ANONYMOUS: u64 = 6 * MEBIBYTE;
/// Of this up to 8 MiB are pages of the program itself, which the kernel maps in runs around those that are used.
const FOREIGN_PEAK: u64 = 12 * MEBIBYTE;
/// What a page of each list takes; 100 bytes kept of each volume would exceed it.
const FOREIGN_ANONYMOUS: u64 = 3 * MEBIBYTE;

/// Claims that come at once in C4, and the limit of the container in which Go's provisioner is killed by more of them.
const BURST: usize = 5_000;
const BURST_PEAK: u64 = 64 * MEBIBYTE;

/// One at a time: each loads the machine.
static TURN: Mutex<()> = Mutex::const_new(());
static POPULATED: OnceCell<Scene> = OnceCell::const_new();

/// A cluster whose volume controller does not run: nothing but the provisioner changes anything.
struct Scene {
    cluster: Cluster,
    namespace: String,
}

impl Scene {
    async fn start() -> Result<Self> {
        let mut cluster = Cluster::start().await?;
        cluster.controller_manager().stop().await?;
        let namespace = cluster.namespace("footprint").await?;
        Ok(Self { cluster, namespace })
    }

    /// The one that has volumes of the driver `many.outrigger.dev`.
    async fn populated() -> Result<&'static Self> {
        let populate = async || {
            let scene = Self::start().await?;
            let driver = "many.outrigger.dev".to_owned();
            let population = Population { namespace: scene.namespace.clone(), driver, count: VOLUMES };
            population.create(&scene.cluster.client().await?).await?;
            Ok(scene)
        };
        POPULATED.get_or_try_init(populate).await
    }

    /// A leader that is at work.
    async fn leader(&self, driver: &Driver) -> Result<Sidecar> {
        let account = self.cluster.upstream_provisioner_account(&self.namespace).await?;
        let settings = Settings::release(Role::Provisioner, &account.kubeconfig, &driver.address())?;
        let namespace = format!("--leader-election-namespace={}", self.namespace);
        let mut leader = settings.flag("--leader-election").flag(&namespace).flag("--v=2").start()?;
        leader.process().logged("work starts", PATIENCE).await?;
        Ok(leader)
    }

    /// What a leader takes that has made one volume beside all that there are.
    async fn footprint_beside_volumes(&self, driver: &Driver) -> Result<Footprint> {
        let client = self.cluster.client().await?;
        population::create_class(&client, driver.name()).await?;
        let leader = self.leader(driver).await?;
        population::create_waiting_claim(&client, &self.namespace, driver.name(), driver.name()).await?;
        let made = eventually("the volume of the claim", PATIENCE, async || {
            Ok((!driver.calls("CreateVolume")?.is_empty()).then_some(()))
        });
        made.await?;
        Footprint::of(leader.pid())
    }
}

fn within(footprint: Footprint, peak: u64, anonymous: u64) -> Result<()> {
    let fits = footprint.peak <= peak && footprint.anonymous <= anonymous;
    ensure!(fits, "{footprint:?}; allowed are {peak} bytes at the peak and {anonymous} of anonymous memory");
    Ok(())
}

#[tokio::test]
async fn an_idle_leader_is_small() -> Result<()> {
    let _turn = TURN.lock().await;
    let scene = Scene::start().await?;
    let driver = Driver::start("idle.outrigger.dev", &[]).await?;
    let leader = scene.leader(&driver).await?;
    within(Footprint::of(leader.pid())?, IDLE_RESIDENT, IDLE_ANONYMOUS)
}

/// 374 MiB with Go's provisioner for four times as many.
#[tokio::test]
async fn c2_memory_for_volumes_of_its_own_is_a_few_hundred_bytes_each() -> Result<()> {
    let _turn = TURN.lock().await;
    let scene = Scene::populated().await?;
    let driver = Driver::start("many.outrigger.dev", &[]).await?;
    let footprint = scene.footprint_beside_volumes(&driver).await?;
    within(footprint, OWN_PEAK, OWN_ANONYMOUS)
}

#[tokio::test]
async fn c3_volumes_of_other_drivers_take_no_memory() -> Result<()> {
    let _turn = TURN.lock().await;
    let scene = Scene::populated().await?;
    let driver = Driver::start("few.outrigger.dev", &[]).await?;
    let footprint = scene.footprint_beside_volumes(&driver).await?;
    within(footprint, FOREIGN_PEAK, FOREIGN_ANONYMOUS)
}

#[tokio::test]
async fn c4_a_burst_of_claims_does_not_need_more_than_a_small_container() -> Result<()> {
    let _turn = TURN.lock().await;
    let scene = Scene::start().await?;
    let client = scene.cluster.client().await?;
    let driver = Driver::start("burst.outrigger.dev", &[]).await?;
    population::create_class(&client, driver.name()).await?;
    let limit = MemoryLimit::new(BURST_PEAK)?;
    let mut leader = scene.leader(&driver).await?;
    if let Some(limit) = &limit {
        limit.apply(leader.pid())?;
    }
    population::create_waiting_claims(&client, &scene.namespace, driver.name(), BURST).await?;
    let volumes: Api<PartialObjectMeta<PersistentVolume>> = Api::all(client);
    let mut changed = pin!(watcher(volumes, watcher::Config::default()).default_backoff().touched_objects());
    let mut seen = HashSet::new();
    let made = timeout(BURST_PATIENCE, async {
        while seen.len() < BURST {
            if let Some(Ok(volume)) = changed.next().await {
                seen.insert(volume.name_any());
            }
        }
    });
    made.await.context("not a volume for each claim").with_context(|| leader.process().tail())?;
    assert_eq!(leader.process().exit_code()?, None, "it was never killed");
    within(Footprint::of(leader.pid())?, BURST_PEAK, BURST_PEAK)
}

/// Whatever the number of cores: nothing in them depends on it.
#[tokio::test]
async fn f8_the_programs_of_a_node_are_small_and_have_one_thread() -> Result<()> {
    let _turn = TURN.lock().await;
    let driver = Driver::start("beside.outrigger.dev", &[]).await?;
    let directory = tempfile::tempdir()?;
    for (name, flags, ready) in [
        ("livenessprobe", vec!["--http-endpoint=127.0.0.1:0".to_owned()], "beside.outrigger.dev"),
        (
            "csi-node-driver-registrar",
            vec![
                format!("--plugin-registration-path={}", directory.path().display()),
                format!("--kubelet-registration-path={}", driver.socket().display()),
            ],
            "Registration socket is there",
        ),
    ] {
        let limit = MemoryLimit::new(NODE_CONTAINER)?;
        let program = Program::new(name, release_bin(name)?, directory.path());
        let program = program.argument(format!("--csi-address={}", driver.socket().display())).arguments(flags);
        let mut process = program.argument("--v=5").start()?;
        if let Some(limit) = &limit {
            limit.apply(process.pid())?;
        }
        process.logged(ready, PATIENCE).await?;
        let footprint = Footprint::of(process.pid())?;
        within(footprint, NODE_PROGRAM_RESIDENT, MEBIBYTE)?;
        ensure!(footprint.threads == 1, "{name}: {footprint:?}");
    }
    Ok(())
}
