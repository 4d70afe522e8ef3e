//! `make bench-idle`: what a provisioner takes that has nothing to do, and how soon after its start it can call the driver.

use std::time::Duration;

use anyhow::{Result, ensure};
use bench::table::{heading, line, mebibytes, median, milliseconds, say};
use bench::{Contender, Run};
use e2e::cluster::Account;
use e2e::{Cluster, Driver, Footprint};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, ListParams};

/// Odd, so that a median is a run. One more goes before them and does not count: it reads the programs from disk.
const RUNS: usize = 5;
/// From the last start to the look at the memory: informers have listed, the lease is held, Go's collector has run.
const SETTLE: Duration = Duration::from_secs(15);

struct Figures {
    first_call: Duration,
    footprint: Footprint,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    say("Idle provisioners, side by side, each leading for a driver of its own in an empty cluster");
    let cluster = Cluster::start().await?;
    let namespace = cluster.namespace("bench").await?;
    let account = cluster.upstream_provisioner_account(&namespace).await?;
    let drivers = [Driver::start("ours.outrigger.dev", &[]).await?, Driver::start("theirs.outrigger.dev", &[]).await?];
    let leases: Api<Lease> = Api::namespaced(cluster.client().await?, &namespace);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 0..=RUNS {
        // The Go provisioner leaves its lease to run out.
        leases.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        let [first, second] = measure(&account, &drivers, &leases).await?;
        if run > 0 {
            say(&format!(
                "run {run}: first call after {} and {}, resident {} and {}",
                milliseconds(first.first_call),
                milliseconds(second.first_call),
                mebibytes(first.footprint.resident),
                mebibytes(second.footprint.resident)
            ));
            ours.push(first);
            theirs.push(second);
        }
    }
    report(&ours, &theirs);
    Ok(())
}

async fn measure(account: &Account, drivers: &[Driver; 2], leases: &Api<Lease>) -> Result<[Figures; 2]> {
    let [ours, theirs] = drivers;
    let (mut first, first_call) = start(Contender::Outrigger, account, ours).await?;
    let (mut second, second_call) = start(Contender::Go, account, theirs).await?;
    tokio::time::sleep(SETTLE).await;
    // One that hangs would be small.
    let held = leases.list(&ListParams::default()).await?.items;
    let held =
        held.iter().filter(|lease| lease.spec.as_ref().is_some_and(|spec| spec.holder_identity.is_some())).count();
    ensure!(held == drivers.len(), "{held} provisioners lead instead of {}", drivers.len());
    let figures = [
        Figures { first_call, footprint: first.footprint()? },
        Figures { first_call: second_call, footprint: second.footprint()? },
    ];
    first.stop().await?;
    second.stop().await?;
    Ok(figures)
}

async fn start(contender: Contender, account: &Account, driver: &Driver) -> Result<(Run, Duration)> {
    let mut run = contender.start(account, driver).await?;
    let first_call = run.first_call(driver, None).await?;
    Ok((run, first_call))
}

fn report(ours: &[Figures], theirs: &[Figures]) {
    heading(&format!("Medians of {RUNS} runs"), &Contender::BOTH.map(Contender::name));
    let row = |name: &str, show: fn(u64) -> String, figure: fn(&Figures) -> u64, goal: &str| {
        line(name, &[ours, theirs].map(|all| show(median(all.iter().map(figure)))), goal);
    };
    row("resident memory", mebibytes, |figures| figures.footprint.resident, "6 MiB");
    row("  of it anonymous", mebibytes, |figures| figures.footprint.anonymous, "1.5 MiB");
    row("peak resident memory", mebibytes, |figures| figures.footprint.peak, "");
    row("threads", |threads| threads.to_string(), |figures| figures.footprint.threads, "1");
    let nanos = |figures: &Figures| u64::try_from(figures.first_call.as_nanos()).unwrap_or(u64::MAX);
    row("from exec to the first call at the driver", |n| milliseconds(Duration::from_nanos(n)), nanos, "10 ms");
}
