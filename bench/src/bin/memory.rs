//! `make bench-memory`: what a provisioner, an attacher and a resizer take that start in a cluster of 20,000 volumes and 10,000
//! pods, their own or another driver's. `ONLY=csi-resizer` measures that one alone.

use std::env;
use std::time::Duration;

use anyhow::Result;
use bench::Contender;
use bench::table::{heading, line, mebibytes, say, seconds, share};
use e2e::cluster::Account;
use e2e::sidecar::Role;
use e2e::{Cluster, Driver, Footprint, Population, population};
use kube::Client;
use tokio::time::{Instant, sleep};

/// Claims, volumes and attachments, of each kind. The drivers attach, so the provisioner looks at the attachments too.
const VOLUMES: usize = 20_000;
/// Beside them: the resizer of others looks at all pods.
const PODS: usize = 10_000;
/// What the drivers advertise: something to do for each sidecar.
const CAPABILITIES: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,PUBLISH_UNPUBLISH_VOLUME,\
    PUBLISH_READONLY,EXPAND_VOLUME,MODIFY_VOLUME";
/// From the first call for the one volume that waits to the look at the steady memory.
const SETTLE: Duration = Duration::from_secs(30);

struct Figures {
    started: Footprint,
    /// From the start to the arrival of that call at the driver.
    until_work: Duration,
    settled: Footprint,
}

struct Scene {
    client: Client,
    provisioner: Account,
    attacher: Account,
    resizer: Account,
}

/// A sidecar, and the call that says that it works.
#[derive(Clone, Copy)]
struct Job {
    name: &'static str,
    role: Role,
    rpc: &'static str,
}

const JOBS: [Job; 3] = [
    Job { name: "csi-provisioner", role: Role::Provisioner, rpc: "CreateVolume" },
    Job { name: "csi-attacher", role: Role::Attacher, rpc: "ControllerPublishVolume" },
    Job { name: "csi-resizer", role: Role::Resizer, rpc: "ControllerExpandVolume" },
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    say(&format!(
        "{VOLUMES} claims, volumes and attachments, {PODS} pods; one claim or attachment waits when a sidecar starts"
    ));
    let only = env::var("ONLY").ok();
    let mut cluster = Cluster::start().await?;
    let namespace = cluster.namespace("bench").await?;
    let provisioner = cluster.upstream_provisioner_account(&namespace).await?;
    let attacher = cluster.upstream_attacher_account(&namespace).await?;
    let resizer = cluster.upstream_resizer_account(&namespace).await?;
    let scene = Scene { client: cluster.client().await?, provisioner, attacher, resizer };
    // Nothing but the sidecar is to work while it is measured.
    cluster.controller_manager().stop().await?;
    let owner = Driver::start("many.outrigger.dev", &[CAPABILITIES]).await?;
    let beside = Driver::start("few.outrigger.dev", &[CAPABILITIES]).await?;
    for driver in [&owner, &beside] {
        population::create_class(&scene.client, driver.name()).await?;
    }
    let loading = Instant::now();
    let population = Population { namespace, driver: owner.name().to_owned(), count: VOLUMES };
    population.create(&scene.client).await?;
    population.mark_attached(&scene.client).await?;
    population.mark_bound(&scene.client).await?;
    population.create_pods(&scene.client, &scene.resizer.name, PODS).await?;
    say(&format!("loaded in {}", seconds(loading.elapsed())));
    for (driver, whose) in [(&owner, "its own driver"), (&beside, "another driver")] {
        for job in JOBS.into_iter().filter(|job| only.as_ref().is_none_or(|only| only == job.name)) {
            let ours = scene.measure(Contender::Outrigger, job, driver).await?;
            let theirs = scene.measure(Contender::Go, job, driver).await?;
            report(&format!("{}, all of them of {whose}", job.name), &ours, &theirs);
        }
    }
    Ok(())
}

impl Scene {
    async fn measure(&self, contender: Contender, job: Job, driver: &Driver) -> Result<Figures> {
        let waiting = format!("waits-{}-{}-{}", job.name, driver.name(), contender.name().to_lowercase());
        let account = match job.role {
            Role::Provisioner => &self.provisioner,
            Role::Attacher => &self.attacher,
            Role::Resizer => &self.resizer,
        };
        match job.role {
            Role::Provisioner => {
                population::create_waiting_claim(&self.client, &account.namespace, &waiting, driver.name()).await?;
            }
            Role::Attacher => population::create_waiting_attachment(&self.client, &waiting, driver.name()).await?,
            Role::Resizer => {
                population::create_growing_claim(&self.client, &account.namespace, &waiting, driver.name()).await?;
            }
        }
        let mut run = contender.start(job.role, account, driver, &[]).await?;
        let until_work = run.first_call(driver, Some(job.rpc)).await?;
        let started = run.footprint()?;
        sleep(SETTLE).await;
        let settled = run.footprint()?;
        run.stop().await?;
        Ok(Figures { started, until_work, settled })
    }
}

fn report(title: &str, ours: &Figures, theirs: &Figures) {
    heading(title, &["Outrigger", "Go", "share"]);
    let memory = |name: &str, figure: fn(&Figures) -> u64, goal: &str| {
        let (ours, theirs) = (figure(ours), figure(theirs));
        line(name, &[mebibytes(ours), mebibytes(theirs), share(ours, theirs)], goal);
    };
    memory("peak resident memory", |figures| figures.settled.peak, "1/15");
    memory("steady resident memory", |figures| figures.settled.resident, "1/15");
    memory("  of it anonymous", |figures| figures.settled.anonymous, "");
    let time = |name: &str, figure: fn(&Figures) -> Duration, goal: &str| {
        let (ours, theirs) = (figure(ours), figure(theirs));
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        line(name, &[seconds(ours), seconds(theirs), share(millis(ours), millis(theirs))], goal);
    };
    time("CPU until the first call", |figures| figures.started.cpu, "1/4");
    time("time until the first call", |figures| figures.until_work, "");
    time("CPU until settled", |figures| figures.settled.cpu, "");
}
