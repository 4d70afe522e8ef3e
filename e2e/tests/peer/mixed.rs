//! A Go provisioner and ours share one lease, as they do while a Deployment goes from one to the other: exactly one of
//! them works at a time.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::journal::{no_overlap, within_terms};
use e2e::{Sidecar, eventually};
use rustix::process::Signal;
use serde_json::json;

use crate::lease_history::LeaseHistory;
use crate::site::{PATIENCE, Side, Site, works};

/// Long enough for a busy machine to renew in time, short enough to wait for.
const LEASE: [&str; 3] =
    ["--leader-election-lease-duration=6s", "--leader-election-renew-deadline=4s", "--leader-election-retry-period=1s"];
/// Calls that take a while: some are under way whenever the leader goes.
const SLOW_DRIVER: [&str; 2] = ["--fault=CreateVolume:delay=150ms", "--fault=DeleteVolume:delay=150ms"];
const CLASS: &str = "volumes";

/// How the leader goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exit {
    /// SIGTERM, as in a rollout.
    Rollout,
    /// SIGKILL.
    Kill,
    /// SIGSTOP for longer than the lease, then SIGCONT.
    Pause,
}

#[tokio::test]
async fn rollout_from_go_to_ours() -> Result<()> {
    take_turns("rollout-to-ours", Side::Go, Exit::Rollout).await
}

#[tokio::test]
async fn rollback_from_ours_to_go() -> Result<()> {
    take_turns("rollback-to-go", Side::Ours, Exit::Rollout).await
}

#[tokio::test]
async fn go_is_killed_and_ours_takes_over() -> Result<()> {
    take_turns("go-killed", Side::Go, Exit::Kill).await
}

#[tokio::test]
async fn ours_is_killed_and_go_takes_over() -> Result<()> {
    take_turns("ours-killed", Side::Ours, Exit::Kill).await
}

#[tokio::test]
async fn go_is_paused_and_ours_takes_over() -> Result<()> {
    take_turns("go-paused", Side::Go, Exit::Pause).await
}

#[tokio::test]
async fn ours_is_paused_and_go_takes_over() -> Result<()> {
    take_turns("ours-paused", Side::Ours, Exit::Pause).await
}

/// `first` leads and goes in the middle of its work; the other side takes over and finishes it.
async fn take_turns(purpose: &str, first: Side, exit: Exit) -> Result<()> {
    let second = if first == Side::Go { Side::Ours } else { Side::Go };
    let site = Site::start(purpose, &SLOW_DRIVER).await?;
    site.add_class(CLASS, &json!({})).await?;
    let history = LeaseHistory::of(&site.client, &site.namespace);
    let mut leader = replica(&site, first).await?;
    history.held_by(first).await.with_context(|| leader.process().tail())?;
    works(&mut leader, first).await?;
    let mut standby = replica(&site, second).await?;
    stands_by(&mut standby, second).await?;

    claims(&site, 0..6).await?;
    let mut volumes = bound(&site, 0..6).await?;
    assert_eq!(callers(&site)?, BTreeSet::from([leader.pid()]), "the standby calls nothing");
    // Claims to be deleted and claims to be provisioned are under way when it happens.
    claims(&site, 6..12).await?;
    delete(&site, 0..3).await?;
    leader.process().logged("/csi.v1.Controller/DeleteVolume", PATIENCE).await?;
    match exit {
        Exit::Rollout => {
            leader.terminate()?;
            // The Go provisioner has no handler for the signal.
            let code = leader.process().ended(PATIENCE).await?;
            assert_eq!(code, if first == Side::Go { 128 + 15 } else { 0 }, "{}", leader.process().tail());
        }
        Exit::Kill => leader.process().kill().await?,
        Exit::Pause => leader.process().signal(Signal::STOP)?,
    }

    history.held_by(second).await.with_context(|| standby.process().tail())?;
    works(&mut standby, second).await?;
    claims(&site, 12..18).await?;
    volumes.extend(bound(&site, 6..18).await?);
    if exit == Exit::Pause {
        let before = site.driver.journal()?.len();
        leader.process().signal(Signal::CONT)?;
        if first == Side::Ours {
            // It finds its work list as it left it, and may do none of it. The handshake of a new connection is no work.
            leader.process().logged("stopped leading", PATIENCE).await?;
            let woken: Vec<_> = site
                .driver
                .journal()?
                .into_iter()
                .skip(before)
                .filter(|call| call.peer_pid == Some(leader.pid()) && call.volume().is_some())
                .collect();
            assert!(woken.is_empty(), "sent after waking up: {woken:?}");
        } else {
            assert_eq!(leader.process().ended(PATIENCE).await?, 1, "it ends when it finds that the lease is lost");
        }
    }
    delete(&site, 3..18).await?;
    for volume in &volumes {
        eventually::gone(&site.volumes(), volume, PATIENCE).await?;
    }
    assert_eq!(site.backend()?, [json!(null); 0], "nothing is left at the driver");
    assert_eq!(standby.process().exit_code()?, None);

    let calls = site.driver.journal()?;
    no_overlap(&calls)?;
    for (side, pid) in [(first, leader.pid()), (second, standby.pid())] {
        // A Go provisioner that wakes up works on until it has noticed that its lease is gone.
        if !(side == Side::Go && exit == Exit::Pause && side == first) {
            within_terms(&calls, pid, &history.terms(side)?, Duration::ZERO)?;
        }
        assert!(
            calls.iter().any(|call| call.peer_pid == Some(pid) && call.volume().is_some()),
            "{side:?} did its part"
        );
    }
    Ok(())
}

async fn replica(site: &Site, side: Side) -> Result<Sidecar> {
    let namespace = format!("--leader-election-namespace={}", site.namespace);
    let settings = site.settings(side).await?.flag("--leader-election").flag(&namespace);
    LEASE.iter().fold(settings, |settings, flag| settings.flag(flag)).start()
}

async fn stands_by(provisioner: &mut Sidecar, side: Side) -> Result<()> {
    let text = match side {
        Side::Go => "to acquire leader lease",
        Side::Ours => "standing by for the leader lease",
    };
    provisioner.process().logged(text, PATIENCE).await
}

async fn claims(site: &Site, numbers: Range<u32>) -> Result<()> {
    for n in numbers {
        site.claim(&format!("data-{n}"), CLASS, &json!({}), &json!({})).await?;
    }
    Ok(())
}

async fn bound(site: &Site, numbers: Range<u32>) -> Result<Vec<String>> {
    let mut volumes = Vec::new();
    for n in numbers {
        volumes.push(site.bound(&format!("data-{n}")).await?);
    }
    Ok(volumes)
}

async fn delete(site: &Site, numbers: Range<u32>) -> Result<()> {
    for n in numbers {
        site.delete_claim(&format!("data-{n}")).await?;
    }
    Ok(())
}

/// Processes that have called for volumes.
fn callers(site: &Site) -> Result<BTreeSet<i32>> {
    let calls = site.driver.journal().context("no journal")?;
    Ok(calls.iter().filter(|call| call.volume().is_some()).filter_map(|call| call.peer_pid).collect())
}
