//! `make bench-memory`: what a provisioner, an attacher and a resizer take that start in a cluster of 20,000 volumes and 10,000
//! pods, their own or another driver's. `ONLY=csi-resizer` measures that one alone.

use std::env;
use std::time::Duration;

use anyhow::Result;
use bench::Contender;
use bench::scene::{JOBS, Job, Scene};
use bench::table::{heading, line, mebibytes, say, seconds, share};
use e2e::{Driver, Footprint};
use tokio::time::sleep;

/// Claims, volumes and attachments, of each kind. The drivers attach, so the provisioner looks at the attachments too.
const VOLUMES: usize = 20_000;
/// Beside them: the resizer of others looks at all pods.
const PODS: usize = 10_000;
/// From the first call for the one volume that waits to the look at the steady memory.
const SETTLE: Duration = Duration::from_secs(30);

struct Figures {
    started: Footprint,
    /// From the start to the arrival of that call at the driver.
    until_work: Duration,
    settled: Footprint,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    say(&format!(
        "{VOLUMES} claims, volumes and attachments, {PODS} pods; one claim or attachment waits when a sidecar starts"
    ));
    let only = env::var("ONLY").ok();
    let scene = Scene::start().await?;
    let owner = scene.driver("many.outrigger.dev").await?;
    let beside = scene.driver("few.outrigger.dev").await?;
    say(&format!("loaded in {}", seconds(scene.load(&owner, VOLUMES, PODS).await?)));
    for (driver, whose) in [(&owner, "its own driver"), (&beside, "another driver")] {
        for job in JOBS.into_iter().filter(|job| only.as_ref().is_none_or(|only| only == job.name)) {
            let ours = measure(&scene, Contender::Outrigger, job, driver).await?;
            let theirs = measure(&scene, Contender::Go, job, driver).await?;
            report(&format!("{}, all of them of {whose}", job.name), &ours, &theirs);
        }
    }
    Ok(())
}

async fn measure(scene: &Scene, contender: Contender, job: Job, driver: &Driver) -> Result<Figures> {
    let waiting = format!("waits-{}-{}-{}", job.name, driver.name(), contender.name().to_lowercase());
    scene.create_waiting(job.role, &waiting, driver).await?;
    let mut run = contender.start(job.role, scene.account(job.role), driver, &[]).await?;
    let until_work = run.first_call(driver, Some(job.rpc)).await?;
    let started = run.footprint()?;
    sleep(SETTLE).await;
    let settled = run.footprint()?;
    run.stop().await?;
    Ok(Figures { started, until_work, settled })
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
