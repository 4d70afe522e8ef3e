//! A Go resizer and ours share one lease, as they do while a Deployment goes from one to the other: exactly one of them works
//! at a time.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::driver::Call;
use e2e::journal::{no_overlap, within_terms};
use e2e::resize_scene::{Fields, RESIZES, ResizeScene};
use e2e::{Cluster, Sidecar};
use futures_util::future::try_join_all;

use crate::lease_history::LeaseHistory;
use crate::site::{PATIENCE, Side};

/// Long enough for a busy machine to renew in time, short enough to wait for.
const LEASE: [&str; 3] =
    ["--leader-election-lease-duration=6s", "--leader-election-renew-deadline=4s", "--leader-election-retry-period=1s"];
/// Calls that take a while: some are under way whenever the leader goes.
const SLOW_DRIVER: [&str; 2] = [RESIZES, "--fault=ControllerExpandVolume:delay=300ms"];

/// How the leader goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exit {
    /// SIGTERM, as in a rollout.
    Rollout,
    /// SIGKILL.
    Kill,
}

#[tokio::test]
async fn rollout_from_go_to_ours() -> Result<()> {
    take_turns("resize-to-ours", Side::Go, Exit::Rollout).await
}

#[tokio::test]
async fn rollback_from_ours_to_go() -> Result<()> {
    take_turns("resize-to-go", Side::Ours, Exit::Rollout).await
}

#[tokio::test]
async fn go_is_killed_and_ours_takes_over() -> Result<()> {
    take_turns("resize-go-killed", Side::Go, Exit::Kill).await
}

#[tokio::test]
async fn ours_is_killed_and_go_takes_over() -> Result<()> {
    take_turns("resize-ours-killed", Side::Ours, Exit::Kill).await
}

/// `first` leads and goes in the middle of its work; the other side takes over and finishes it.
async fn take_turns(purpose: &str, first: Side, exit: Exit) -> Result<()> {
    let second = if first == Side::Go { Side::Ours } else { Side::Go };
    let mut scene = ResizeScene::start(Cluster::shared_with_audit().await?, purpose, &SLOW_DRIVER).await?;
    let names: Vec<_> = (0..18).map(|n| format!("data-{n}")).collect();
    let fields = Fields::default();
    try_join_all(names.iter().map(|name| scene.add_claim(name, &fields))).await?;
    let history = LeaseHistory::of(&scene.client, &scene.namespace);
    let mut leader = replica(&scene, first).await?;
    history.held_by(first).await.with_context(|| leader.process().tail())?;
    super::works(&mut leader, first).await?;
    let mut standby = replica(&scene, second).await?;
    let text = if second == Side::Go { "to acquire leader lease" } else { "standing by for the leader lease" };
    standby.process().logged(text, PATIENCE).await?;

    grow(&scene, 0..6).await?;
    for name in &names[0..6] {
        scene.has(name, "2Mi").await?;
    }
    let callers: BTreeSet<_> = expansions(&scene)?.iter().filter_map(|call| call.peer_pid).collect();
    assert_eq!(callers, BTreeSet::from([leader.pid()]), "the standby calls nothing");
    let before = expansions(&scene)?.len();
    grow(&scene, 6..12).await?;
    // One has ended and others are under way.
    e2e::eventually("a call of the second batch", PATIENCE, async || {
        Ok((expansions(&scene)?.len() > before).then_some(()))
    })
    .await?;
    match exit {
        Exit::Rollout => {
            leader.terminate()?;
            // The Go resizer has no handler for the signal.
            let code = leader.process().ended(PATIENCE).await?;
            assert_eq!(code, if first == Side::Go { 128 + 15 } else { 0 }, "{}", leader.process().tail());
        }
        Exit::Kill => leader.process().kill().await?,
    }

    history.held_by(second).await.with_context(|| standby.process().tail())?;
    super::works(&mut standby, second).await?;
    grow(&scene, 12..18).await?;
    for name in &names {
        scene.has(name, "2Mi").await.with_context(|| standby.process().tail())?;
    }
    assert_eq!(standby.process().exit_code()?, None);
    // The driver writes a call down when it has ended.
    scene.driver.stop().await?;
    let calls = expansions(&scene)?;
    no_overlap(&calls)?;
    for (side, pid) in [(first, leader.pid()), (second, standby.pid())] {
        within_terms(&calls, pid, &history.terms(side)?, Duration::ZERO)?;
        assert!(calls.iter().any(|call| call.peer_pid == Some(pid)), "{side:?} did its part");
    }
    Ok(())
}

async fn replica(scene: &ResizeScene, side: Side) -> Result<Sidecar> {
    let settings = scene.competing(super::settings(scene, side).await?);
    LEASE.iter().fold(settings, |settings, flag| settings.flag(flag)).start()
}

async fn grow(scene: &ResizeScene, numbers: Range<u32>) -> Result<()> {
    for n in numbers {
        scene.ask(&format!("data-{n}"), "2Mi").await?;
    }
    Ok(())
}

fn expansions(scene: &ResizeScene) -> Result<Vec<Call>> {
    scene.driver.calls("ControllerExpandVolume")
}
