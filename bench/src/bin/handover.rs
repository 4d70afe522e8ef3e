//! `make bench-handover`: what a standby takes, and how soon it works when the leader has got its SIGTERM, in a small cluster
//! and in one of 20,000 volumes. `VOLUMES` sets another number.

use std::env;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bench::Contender;
use bench::scene::{JOBS, Job, Scene};
use bench::table::{heading, line, mebibytes, median, say, seconds, share};
use e2e::Driver;
use tokio::time::sleep;

/// Claims, volumes and attachments, of each kind. Half as many pods use them.
const VOLUMES: usize = 20_000;
/// The middle one is told. A Go leader leaves its Lease to run out, so chance decides how long the standby waits.
const HAND_OVERS: usize = 3;
/// From when the standby stands by to the look at its memory.
const SETTLE: Duration = Duration::from_secs(10);

/// The middle one of the hand-overs.
struct Figures {
    /// Resident memory of the standby.
    standby: u64,
    /// From the SIGTERM to the first call of the next leader.
    until_work: Duration,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let volumes = match env::var("VOLUMES") {
        Ok(set) => set.parse().context("VOLUMES is not a number")?,
        Err(_) => VOLUMES,
    };
    say(&format!("Two replicas and one Lease; the leader ends {HAND_OVERS} times, and then something is there to do"));
    let scene = Scene::start().await?;
    let driver = scene.driver("many.outrigger.dev").await?;
    hand_over(&scene, &driver, "in a small cluster", "small", "1 s").await?;
    say(&format!("\nloaded in {}", seconds(scene.load(&driver, volumes, volumes / 2).await?)));
    hand_over(&scene, &driver, &format!("beside {volumes} volumes"), "large", "3 s").await
}

async fn hand_over(scene: &Scene, driver: &Driver, place: &str, label: &str, goal: &str) -> Result<()> {
    for job in JOBS {
        let ours = measure(scene, driver, Contender::Outrigger, job, label).await?;
        let theirs = measure(scene, driver, Contender::Go, job, label).await?;
        report(&format!("{}, {place}", job.name), &ours, &theirs, goal);
    }
    Ok(())
}

async fn measure(scene: &Scene, driver: &Driver, contender: Contender, job: Job, label: &str) -> Result<Figures> {
    let name = |number: usize| format!("{}-{label}-{}-{number}", job.name, contender.name().to_lowercase());
    let account = scene.account(job.role);
    scene.create_waiting(job.role, &name(0), driver).await?;
    let mut leader = contender.start_on(&name(0), job.role, account, driver).await?;
    leader.first_call(driver, Some(job.rpc)).await?;
    let (mut memory, mut times) = (Vec::new(), Vec::new());
    for number in 1..=HAND_OVERS {
        let mut standby = contender.start_on(&name(number), job.role, account, driver).await?;
        standby.stands_by().await?;
        sleep(SETTLE).await;
        memory.push(standby.footprint()?.resident);
        let told = leader.terminate()?;
        scene.create_waiting(job.role, &name(number), driver).await?;
        times.push(standby.first_call_since(told, driver, job.rpc).await?);
        leader.ended().await?;
        leader = standby;
    }
    leader.stop().await?;
    Ok(Figures { standby: median(memory), until_work: median(times) })
}

fn report(title: &str, ours: &Figures, theirs: &Figures, goal: &str) {
    heading(title, &["Outrigger", "Go", "share"]);
    let memory = |figures: &Figures| mebibytes(figures.standby);
    let smaller = share(ours.standby, theirs.standby);
    line("resident memory of the standby", &[memory(ours), memory(theirs), smaller], "7 MiB");
    let time = |figures: &Figures| seconds(figures.until_work);
    let millis = |figures: &Figures| u64::try_from(figures.until_work.as_millis()).unwrap_or(u64::MAX);
    let sooner = share(millis(ours), millis(theirs));
    line("SIGTERM of the leader to the first call", &[time(ours), time(theirs), sooner], goal);
}
