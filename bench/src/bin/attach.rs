//! `make bench-attach`: a thousand volumes to be attached at once, and fresh ones while a thousand slow detaches wait.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bench::Contender;
use bench::table::{heading, line, mebibytes, say, seconds, share};
use e2e::attach_scene::{ATTACHES, AttachScene};
use e2e::sidecar::Role;
use e2e::{Cluster, Footprint};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::{Api, ResourceExt as _};
use kube_runtime::watcher::{self, Event, watcher};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout_at};

const VOLUMES: usize = 1_000;
/// Attached one after the other while the detaches wait.
const FRESH: usize = 100;
const BETWEEN_FRESH: Duration = Duration::from_millis(250);
/// What the driver takes; ten at a time are in flight by default.
const DRIVER: [&str; 3] =
    [ATTACHES, "--fault=ControllerPublishVolume:delay=50ms", "--fault=ControllerUnpublishVolume:delay=2s"];
/// Longer is not waited for: the rest is told from the pace.
const BOUND: Duration = Duration::from_mins(1);
const NODES: usize = 20;
/// More do not make the API server faster.
const AT_ONCE: usize = 16;
/// Pairs of runs; the middle one by its CPU is told. Single ones differ by a quarter on a machine that is shared.
const ROUNDS: usize = 5;

struct Figures {
    attached: usize,
    /// From the start of the attacher until all were attached, or until it was waited for no longer.
    took: Duration,
    footprint: Footprint,
    requests: usize,
    /// From the creation of a fresh attachment until it was attached, the longest last; none when it was not in time.
    fresh: Option<Vec<Option<Duration>>>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    say(&format!(
        "{VOLUMES} volumes to be attached when the attacher starts; the driver takes 50 ms to publish and 2 s to unpublish"
    ));
    let (mut ours, mut unthrottled) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let fresh = round == 0;
        ours.push(measure("ours", Contender::Outrigger, &[], fresh).await?);
        let no_limit = ["--kube-api-qps=10000", "--kube-api-burst=10000"];
        unthrottled.push(measure("unthrottled", Contender::Go, &no_limit, fresh).await?);
    }
    let (ours, unthrottled) = (middle(ours)?, middle(unthrottled)?);
    let theirs = measure("theirs", Contender::Go, &[], false).await?;
    report("Default flags", &ours, &theirs, "1/8");
    report("The Go attacher without its request limit", &ours, &unthrottled, "not slower");
    Ok(())
}

/// In a cluster of its own, so that nobody's objects burden the next one.
async fn measure(purpose: &str, contender: Contender, flags: &[&str], fresh: bool) -> Result<Figures> {
    let mut cluster = Cluster::start_with_audit().await?;
    let scene = AttachScene::start(&cluster, purpose, &DRIVER).await?;
    // Nothing but the attacher is to work while it is measured.
    cluster.controller_manager().stop().await?;
    for node in 0..NODES {
        scene.add_node(&format!("node-{node}"), &format!("node-{node}")).await?;
    }
    let volumes = (0..VOLUMES)
        .map(|n| prepare(&scene, n, true))
        .chain((VOLUMES..VOLUMES + FRESH).map(|n| prepare(&scene, n, false)));
    stream::iter(volumes).buffer_unordered(AT_ONCE).try_collect::<()>().await?;

    let mut watch = Watch::start(&scene).await?;
    let started = Instant::now();
    let mut run = contender.start(Role::Attacher, &scene.account, &scene.driver, flags).await?;
    watch.until_attached(VOLUMES, started + BOUND).await?;
    let attached = watch.attached.len();
    ensure!(attached > 0, "nothing was attached within {BOUND:?}");
    let took = if attached == VOLUMES { watch.last() - started } else { started.elapsed() };
    let footprint = run.footprint()?;
    let requests = cluster.audit()?.len();
    let fresh = if fresh && attached == VOLUMES { Some(fresh_ones(&scene, &mut watch).await?) } else { None };
    // Detaches that are in flight end with their owner: nobody is interested in them any more.
    drop(run);
    say(&format!("{purpose}: {attached} attached in {}, CPU {}", seconds(took), seconds(footprint.cpu)));
    Ok(Figures { attached, took, footprint, requests, fresh })
}

/// The run in the middle by its CPU, with the fresh attachments of the one that measured them.
fn middle(mut runs: Vec<Figures>) -> Result<Figures> {
    let fresh = runs.iter_mut().find_map(|run| run.fresh.take());
    runs.sort_by_key(|run| run.footprint.cpu);
    let middle = runs.into_iter().nth(ROUNDS / 2).context("no run")?;
    Ok(Figures { fresh, ..middle })
}

async fn prepare(scene: &AttachScene, number: usize, attach: bool) -> Result<()> {
    let name = name(number);
    scene.add_volume(&name, &json!({}), &json!({})).await?;
    if attach { scene.attach(&name, &name, &node(number)).await } else { Ok(()) }
}

fn name(number: usize) -> String {
    format!("data-{number:04}")
}

fn node(number: usize) -> String {
    format!("node-{}", number % NODES)
}

/// All volumes are detached, and then a few others attached.
async fn fresh_ones(scene: &AttachScene, watch: &mut Watch) -> Result<Vec<Option<Duration>>> {
    let detached = (0..VOLUMES).map(|number| async move { scene.detach(&name(number)).await });
    stream::iter(detached).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
    let mut created = HashMap::new();
    let deadline = Instant::now() + BOUND;
    let create = async {
        for number in VOLUMES..VOLUMES + FRESH {
            created.insert(scene.name(&name(number)), Instant::now());
            scene.attach(&name(number), &name(number), &node(number)).await?;
            sleep(BETWEEN_FRESH).await;
        }
        anyhow::Ok(())
    };
    tokio::try_join!(create, watch.until_attached(VOLUMES + FRESH, deadline))?;
    let latency = |(name, created): (String, Instant)| watch.attached.get(&name).map(|attached| *attached - created);
    let mut latencies: Vec<_> = created.into_iter().map(latency).collect();
    latencies.sort_by_key(|latency| latency.unwrap_or(Duration::MAX));
    Ok(latencies)
}

/// When which attachment was first seen attached.
struct Watch {
    events: stream::BoxStream<'static, watcher::Result<Event<VolumeAttachment>>>,
    attached: HashMap<String, Instant>,
}

impl Watch {
    /// Returns when it has seen what there is.
    async fn start(scene: &AttachScene) -> Result<Self> {
        let attachments: Api<VolumeAttachment> = scene.attachments();
        let mut events = watcher(attachments, watcher::Config::default()).boxed();
        while !matches!(events.next().await.context("the watch has ended")??, Event::InitDone) {}
        Ok(Self { events, attached: HashMap::new() })
    }

    /// Until so many have been attached, or until the deadline.
    async fn until_attached(&mut self, count: usize, deadline: Instant) -> Result<()> {
        while self.attached.len() < count {
            let Ok(event) = timeout_at(deadline, self.events.next()).await else { return Ok(()) };
            match event.context("the watch has ended")?? {
                Event::Apply(object) | Event::InitApply(object)
                    if object.status.as_ref().is_some_and(|status| status.attached) =>
                {
                    self.attached.entry(object.name_any()).or_insert_with(Instant::now);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn last(&self) -> Instant {
        self.attached.values().max().copied().unwrap_or_else(Instant::now)
    }
}

fn report(title: &str, ours: &Figures, theirs: &Figures, time_goal: &str) {
    heading(title, &["Outrigger", "Go", "share"]);
    let both = [ours, theirs];
    line("attached within a minute", &both.map(|figures| figures.attached.to_string()), "");
    let all = both.map(|figures| scaled(figures, figures.took));
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let row = |name: &str, all: [Duration; 2], goal: &str| {
        line(name, &[seconds(all[0]), seconds(all[1]), share(millis(all[0]), millis(all[1]))], goal);
    };
    row("time until all are attached, at that pace", all, time_goal);
    row("CPU for all, at that pace", both.map(|figures| scaled(figures, figures.footprint.cpu)), "1/4");
    let memory = both.map(|figures| figures.footprint.resident);
    line("resident memory", &[mebibytes(memory[0]), mebibytes(memory[1]), share(memory[0], memory[1])], "");
    let requests = both.map(|figures| per_volume(figures.requests, figures.attached));
    line("API requests for each volume", &requests, "");
    for (title, part) in [("median", 50), ("99 of 100", 99)] {
        let name = format!("fresh attach beside {VOLUMES} detaches, {title}");
        line(&name, &both.map(|figures| latency(figures, part)), "");
    }
}

/// For all volumes, when it is known for some.
fn scaled(figures: &Figures, time: Duration) -> Duration {
    time.mul_f64(ratio(VOLUMES, figures.attached))
}

fn per_volume(requests: usize, volumes: usize) -> String {
    format!("{:.1}", ratio(requests, volumes))
}

#[expect(clippy::cast_precision_loss, reason = "thousands")]
fn ratio(one: usize, other: usize) -> f64 {
    one as f64 / other.max(1) as f64
}

fn latency(figures: &Figures, part: usize) -> String {
    let Some(fresh) = &figures.fresh else { return "-".to_owned() };
    let nth = (fresh.len() * part).div_ceil(100).saturating_sub(1);
    fresh.get(nth).copied().flatten().map_or_else(|| format!("> {}", seconds(BOUND)), seconds)
}
