//! `make bench-memory`: what a provisioner takes that starts in a cluster of 20,000 volumes, its own or another driver's.

use std::time::Duration;

use anyhow::Result;
use bench::Contender;
use bench::table::{heading, line, mebibytes, say, seconds, share};
use e2e::cluster::Account;
use e2e::sidecar::Role;
use e2e::{Cluster, Driver, Footprint, Population, population};
use kube::Client;
use tokio::time::{Instant, sleep};

/// Claims, volumes and attachments, of each kind. The drivers do not attach, so nobody looks at the attachments.
const VOLUMES: usize = 20_000;
/// From the first `CreateVolume` to the look at the steady memory.
const SETTLE: Duration = Duration::from_secs(30);

struct Figures {
    started: Footprint,
    /// From the start to the arrival of the first `CreateVolume` at the driver.
    until_work: Duration,
    settled: Footprint,
}

struct Scene {
    client: Client,
    account: Account,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    say(&format!(
        "{VOLUMES} claims, volumes and attachments; one claim waits for a volume when the provisioner starts"
    ));
    let mut cluster = Cluster::start().await?;
    let namespace = cluster.namespace("bench").await?;
    let account = cluster.upstream_provisioner_account(&namespace).await?;
    let scene = Scene { client: cluster.client().await?, account };
    // Nothing but the provisioner is to work while it is measured.
    cluster.controller_manager().stop().await?;
    let owner = Driver::start("many.outrigger.dev", &[]).await?;
    let beside = Driver::start("few.outrigger.dev", &[]).await?;
    for driver in [&owner, &beside] {
        population::create_class(&scene.client, driver.name()).await?;
    }
    let loading = Instant::now();
    let population = Population { namespace, driver: owner.name().to_owned(), count: VOLUMES };
    population.create(&scene.client).await?;
    say(&format!("loaded in {}", seconds(loading.elapsed())));
    for (driver, title) in [(&owner, "All of them of its own driver"), (&beside, "All of them of another driver")] {
        let ours = scene.measure(Contender::Outrigger, driver).await?;
        let theirs = scene.measure(Contender::Go, driver).await?;
        report(title, &ours, &theirs);
    }
    Ok(())
}

impl Scene {
    async fn measure(&self, contender: Contender, driver: &Driver) -> Result<Figures> {
        let claim = format!("waits-{}-{}", driver.name(), contender.name().to_lowercase());
        population::create_waiting_claim(&self.client, &self.account.namespace, &claim, driver.name()).await?;
        let mut run = contender.start(Role::Provisioner, &self.account, driver, &[]).await?;
        let until_work = run.first_call(driver, Some("CreateVolume")).await?;
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
    time("CPU until the first CreateVolume", |figures| figures.started.cpu, "1/4");
    time("time until the first CreateVolume", |figures| figures.until_work, "");
    time("CPU until settled", |figures| figures.settled.cpu, "");
}
