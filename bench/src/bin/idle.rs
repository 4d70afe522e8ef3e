//! `make bench-idle`: what sidecars take that have nothing to do, and how soon after their start they can call the driver.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bench::table::{heading, line, mebibytes, median, milliseconds, say};
use bench::{Contender, Run};
use e2e::binary::release_bin;
use e2e::cluster::Account;
use e2e::sidecar::Role;
use e2e::{Cluster, Driver, Footprint, Process, Program};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{DeleteParams, ListParams};

/// Odd, so that a median is a run. One more goes before them and does not count: it reads the programs from disk.
const RUNS: usize = 5;
/// From the last start to the look at the memory: informers have listed, the lease is held, Go's collector has run.
const SETTLE: Duration = Duration::from_secs(15);
/// What the drivers advertise: something to do for each.
const CAPABILITIES: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,PUBLISH_UNPUBLISH_VOLUME,\
    PUBLISH_READONLY,EXPAND_VOLUME,MODIFY_VOLUME";
/// Those that lead, each with its service account.
const ROLES: [Role; 3] = [Role::Provisioner, Role::Attacher, Role::Resizer];
/// Those beside a driver on a node. The Go ones are not to be had as Go modules.
const NODE_PROGRAMS: [&str; 2] = ["csi-node-driver-registrar", "livenessprobe"];

struct Figures {
    first_call: Duration,
    footprint: Footprint,
}

/// The figures of all runs of one column.
type Column = Vec<Figures>;

/// Where the programs run.
struct Scene {
    leases: Api<Lease>,
    accounts: Vec<Account>,
    /// One for each that leads, and the last for the node programs.
    drivers: Vec<Driver>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    say("Idle sidecars, side by side, each leading for a driver of its own in an empty cluster");
    let cluster = Cluster::start().await?;
    let namespace = cluster.namespace("bench").await?;
    let mut drivers = Vec::new();
    for number in 0..=ROLES.len() * Contender::BOTH.len() {
        drivers.push(Driver::start(&format!("driver-{number}.outrigger.dev"), &[CAPABILITIES]).await?);
    }
    let leases: Api<Lease> = Api::namespaced(cluster.client().await?, &namespace);
    let accounts = vec![
        cluster.upstream_provisioner_account(&namespace).await?,
        cluster.upstream_attacher_account(&namespace).await?,
        cluster.upstream_resizer_account(&namespace).await?,
    ];
    let scene = Scene { leases, accounts, drivers };
    let mut leading: Vec<[Column; 2]> = ROLES.iter().map(|_| <[Column; 2]>::default()).collect();
    let mut beside: Vec<Vec<Footprint>> = NODE_PROGRAMS.iter().map(|_| Vec::new()).collect();
    for run in 0..=RUNS {
        // A Go sidecar leaves its lease to run out.
        scene.leases.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        let (figures, footprints) = scene.measure().await?;
        if run > 0 {
            say(&format!("run {run} of {RUNS}"));
            for (columns, figures) in leading.iter_mut().zip(figures) {
                columns.iter_mut().zip(figures).for_each(|(column, figures)| column.push(figures));
            }
            beside.iter_mut().zip(footprints).for_each(|(column, footprint)| column.push(footprint));
        }
    }
    for (role, columns) in ROLES.iter().zip(&leading) {
        report(*role, columns);
    }
    report_node_programs(&beside);
    Ok(())
}

impl Scene {
    /// By role and contender, and the node programs.
    async fn measure(&self) -> Result<(Vec<Vec<Figures>>, Vec<Footprint>)> {
        let mut drivers = self.drivers.iter();
        let mut running = Vec::new();
        for (role, account) in ROLES.iter().zip(&self.accounts) {
            for contender in Contender::BOTH {
                let driver = drivers.next().context("a driver for each")?;
                let mut run = contender.start(*role, account, driver, &[]).await?;
                let first_call = run.first_call(driver, None).await?;
                running.push((run, first_call));
            }
        }
        let driver = drivers.next().context("a driver for the node programs")?;
        let directory = tempfile::tempdir()?;
        let mut beside = NODE_PROGRAMS
            .map(|name| start_beside(name, driver, directory.path()))
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        tokio::time::sleep(SETTLE).await;
        // One that hangs would be small.
        let held = self.leases.list(&ListParams::default()).await?.items;
        let held =
            held.iter().filter(|lease| lease.spec.as_ref().is_some_and(|spec| spec.holder_identity.is_some())).count();
        ensure!(held == running.len(), "{held} lead instead of {}", running.len());
        let mut figures = Vec::new();
        for (run, first_call) in &mut running {
            figures.push(Figures { first_call: *first_call, footprint: run.footprint()? });
        }
        let footprints = beside.iter().map(|process| Footprint::of(process.pid())).collect::<Result<Vec<_>>>()?;
        for (run, _) in running {
            Run::stop(run).await?;
        }
        for process in &mut beside {
            process.stop().await?;
        }
        let mut figures = figures.into_iter();
        let by_role = ROLES.iter().map(|_| figures.by_ref().take(Contender::BOTH.len()).collect()).collect();
        Ok((by_role, footprints))
    }
}

/// With what its upstream deployment gives it.
fn start_beside(name: &str, driver: &Driver, directory: &std::path::Path) -> Result<Process> {
    let program = Program::new(name, release_bin(name)?, directory);
    let program = program.argument(format!("--csi-address={}", driver.socket().display()));
    let program = if name == "livenessprobe" {
        program.argument("--http-endpoint=127.0.0.1:0")
    } else {
        program
            .argument(format!("--plugin-registration-path={}", directory.display()))
            .argument("--kubelet-registration-path=/var/lib/kubelet/plugins/driver/csi.sock")
    };
    program.start()
}

fn report(role: Role, columns: &[Column; 2]) {
    heading(&format!("{}: medians of {RUNS} runs", role.program()), &Contender::BOTH.map(Contender::name));
    let row = |name: &str, show: fn(u64) -> String, figure: fn(&Figures) -> u64, goal: &str| {
        line(name, &columns.each_ref().map(|all| show(median(all.iter().map(figure)))), goal);
    };
    row("resident memory", mebibytes, |figures| figures.footprint.resident, "6 MiB");
    row("  of it anonymous", mebibytes, |figures| figures.footprint.anonymous, "1.5 MiB");
    row("peak resident memory", mebibytes, |figures| figures.footprint.peak, "");
    row("threads", |threads| threads.to_string(), |figures| figures.footprint.threads, "1");
    let nanos = |figures: &Figures| u64::try_from(figures.first_call.as_nanos()).unwrap_or(u64::MAX);
    row("from exec to the first call at the driver", |n| milliseconds(Duration::from_nanos(n)), nanos, "10 ms");
}

fn report_node_programs(columns: &[Vec<Footprint>]) {
    heading(
        &format!("On every node: medians of {RUNS} runs"),
        &NODE_PROGRAMS.map(|name| name.trim_start_matches("csi-node-")),
    );
    let row = |name: &str, show: fn(u64) -> String, figure: fn(&Footprint) -> u64, goal: &str| {
        let figures: Vec<_> = columns.iter().map(|all| show(median(all.iter().map(figure)))).collect();
        line(name, &figures, goal);
    };
    row("resident memory", mebibytes, |footprint| footprint.resident, "3 MiB");
    row("  of it anonymous", mebibytes, |footprint| footprint.anonymous, "");
    row("threads", |threads| threads.to_string(), |footprint| footprint.threads, "1");
}
