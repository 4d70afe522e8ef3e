//! `make bench-capacity`: storage capacities of a large cluster, from the start of a provisioner until all are there, and over
//! the rounds that follow.
//!
//! `SEGMENTS`, `POLL` (seconds) and `ROUNDS` change the size, the poll interval and how many rounds are looked at. Each
//! provisioner runs for so many intervals, whether it has made all objects by then or not.

use std::env;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bench::table::{heading, line, mebibytes, say, seconds, share};
use bench::{Contender, Run};
use e2e::cluster::Account;
use e2e::sidecar::Role;
use e2e::{Cluster, Driver, Footprint};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSINode, CSIStorageCapacity, StorageClass};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

const CLASSES: [&str; 2] = ["fast", "slow"];
const DRIVER: &str = "capacity.outrigger.dev";
/// Each call takes so long, and says the same every time.
const ANSWERS: [&str; 3] = [
    "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,GET_CAPACITY",
    "--capacity=1099511627776",
    "--fault=GetCapacity:delay=50ms",
];
const TOPOLOGY_KEY: &str = "topology.outrigger.dev/node";
/// More do not make the API server faster.
const AT_ONCE: usize = 48;
/// How often the objects are counted.
const LOOK: Duration = Duration::from_millis(500);

/// What is measured.
#[derive(Clone, Copy)]
struct Size {
    segments: usize,
    poll: Duration,
    rounds: u32,
}

impl Size {
    fn from_env() -> Result<Self> {
        let number = |name: &str, default: u32| match env::var(name) {
            Ok(text) => text.parse().with_context(|| format!("{name} must be a number, not {text:?}")),
            Err(_) => Ok(default),
        };
        Ok(Self {
            segments: usize::try_from(number("SEGMENTS", 2_000)?)?,
            poll: Duration::from_secs(number("POLL", 15)?.into()),
            rounds: number("ROUNDS", 10)?,
        })
    }

    fn objects(self) -> usize {
        self.segments * CLASSES.len()
    }
}

struct Figures {
    /// From the start of the provisioner; `None`: not all in time.
    all_after: Option<Duration>,
    /// After two polls, and at the end.
    objects: [usize; 2],
    /// When all objects are there or the first round should be over, and at the end.
    footprints: [Footprint; 2],
    calls: usize,
    writes: usize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let size = Size::from_env()?;
    say(&format!(
        "{} segments and {} classes; the driver takes 50 ms; asked every {} s, looked at for {} rounds",
        size.segments,
        CLASSES.len(),
        size.poll.as_secs(),
        size.rounds
    ));
    let ours = measure(Contender::Outrigger, size).await?;
    let theirs = measure(Contender::Go, size).await?;
    report(size, &ours, &theirs);
    Ok(())
}

/// In a cluster of its own, so that nobody's objects burden the next one.
async fn measure(contender: Contender, size: Size) -> Result<Figures> {
    let mut cluster = Cluster::start_with_audit().await?;
    let namespace = cluster.namespace("bench").await?;
    let account = cluster.upstream_provisioner_account(&namespace).await?;
    let client = cluster.client().await?;
    // Nothing but the provisioner is to work while it is measured, and nobody is to look after the nodes.
    cluster.controller_manager().stop().await?;
    let driver = Driver::start(DRIVER, &ANSWERS).await?;
    populate(&client, size).await?;
    let objects: Api<CSIStorageCapacity> = Api::namespaced(client, &namespace);
    let (run, started) = start(contender, &account, &driver, size).await?;
    let mut figures = watch(run, started, &objects, size).await?;
    figures.calls = driver.calls("GetCapacity")?.len();
    let is_write = |verb: &str| ["create", "update", "patch", "delete"].contains(&verb);
    let requests = cluster.audit()?.into_iter();
    figures.writes = requests.filter(|one| one.resource == "csistoragecapacities" && is_write(&one.verb)).count();
    let all =
        figures.all_after.map_or_else(|| "not all in time".to_owned(), |time| format!("all after {}", seconds(time)));
    say(&format!("{}: {} objects, {all}", contender.name(), figures.objects[1]));
    Ok(figures)
}

async fn start(contender: Contender, account: &Account, driver: &Driver, size: Size) -> Result<(Run, Instant)> {
    let poll = format!("--capacity-poll-interval={}s", size.poll.as_secs());
    // Nobody owns the objects: there is no pod.
    let flags = ["--enable-capacity", "--capacity-ownerref-level=-1", &poll];
    let environment = [("NAMESPACE", account.namespace.as_str())];
    let started = Instant::now();
    let mut run = contender.start_in(Role::Provisioner, account, driver, &flags, &environment).await?;
    run.footprint()?;
    Ok((run, started))
}

async fn watch(mut run: Run, started: Instant, objects: &Api<CSIStorageCapacity>, size: Size) -> Result<Figures> {
    let (two_polls, end) = (started + 2 * size.poll, started + size.rounds * size.poll);
    let mut all_after = None;
    let mut early = None;
    while Instant::now() < end && (all_after.is_none() || early.is_none()) {
        let now = Instant::now();
        let there = count(objects).await?;
        if all_after.is_none() && there >= size.objects() {
            all_after = Some(now - started);
        }
        if early.is_none() && now >= two_polls {
            early = Some((there, run.footprint()?));
        }
        sleep(LOOK).await;
    }
    let (early, first) = early.context("two polls are longer than all rounds")?;
    sleep_until(end).await;
    let last = run.footprint()?;
    let objects = [early, count(objects).await?];
    run.stop().await?;
    Ok(Figures { all_after, objects, footprints: [first, last], calls: 0, writes: 0 })
}

async fn count(objects: &Api<CSIStorageCapacity>) -> Result<usize> {
    let page = objects.list(&ListParams::default().limit(1)).await?;
    let more = page.metadata.remaining_item_count.unwrap_or_default();
    Ok(page.items.len() + usize::try_from(more)?)
}

async fn populate(client: &Client, size: Size) -> Result<()> {
    let classes: Api<StorageClass> = Api::all(client.clone());
    for class in CLASSES {
        let class = json!({
            "metadata": { "name": class }, "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer",
        });
        classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
    }
    let nodes = (0..size.segments).map(|number| add_node(client, format!("node-{number:05}")));
    stream::iter(nodes).buffer_unordered(AT_ONCE).try_collect::<()>().await
}

async fn add_node(client: &Client, name: String) -> Result<()> {
    let (nodes, csi_nodes): (Api<Node>, Api<CSINode>) = (Api::all(client.clone()), Api::all(client.clone()));
    let node = json!({ "metadata": { "name": name, "labels": { TOPOLOGY_KEY: name } } });
    nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
    let driver = json!({ "name": DRIVER, "nodeID": name, "topologyKeys": [TOPOLOGY_KEY] });
    let csi_node = json!({ "metadata": { "name": name }, "spec": { "drivers": [driver] } });
    csi_nodes.create(&PostParams::default(), &serde_json::from_value(csi_node)?).await?;
    Ok(())
}

fn report(size: Size, ours: &Figures, theirs: &Figures) {
    heading("Storage capacities, default flags", &["Outrigger", "Go", "share"]);
    let both = [ours, theirs];
    let all = both.map(|figures| figures.all_after.map_or_else(|| "-".to_owned(), seconds));
    line("time until all objects are there", &all, &format!("{} s", 2 * size.poll.as_secs()));
    line("objects after two polls", &both.map(|figures| figures.objects[0].to_string()), &size.objects().to_string());
    line("objects at the end", &both.map(|figures| figures.objects[1].to_string()), "");
    let memory = |name: &str, at: usize, goal: &str| {
        let [ours, theirs] = both.map(|figures| figures.footprints[at].resident);
        line(name, &[mebibytes(ours), mebibytes(theirs), share(ours, theirs)], goal);
    };
    memory("resident memory after two polls", 0, "");
    memory("resident memory at the end", 1, "the same");
    let [our_peak, their_peak] = both.map(|figures| figures.footprints[1].peak);
    line("peak resident memory", &[mebibytes(our_peak), mebibytes(their_peak), share(our_peak, their_peak)], "");
    let cpu = both.map(|figures| figures.footprints[1].cpu);
    line("CPU", &cpu.map(seconds), "");
    line("GetCapacity calls", &both.map(|figures| figures.calls.to_string()), "");
    line("writes", &both.map(|figures| figures.writes.to_string()), &size.objects().to_string());
}
