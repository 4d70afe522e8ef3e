//! A Go attacher and ours share one lease, as they do while a Deployment goes from one to the other: exactly one of them works
//! at a time.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::attach_scene::{ATTACHES, AttachScene};
use e2e::journal::{no_overlap, within_terms};
use e2e::{Cluster, Sidecar};
use serde_json::json;

use crate::lease_history::LeaseHistory;
use crate::site::{PATIENCE, Side};

/// Long enough for a busy machine to renew in time, short enough to wait for.
const LEASE: [&str; 3] =
    ["--leader-election-lease-duration=6s", "--leader-election-renew-deadline=4s", "--leader-election-retry-period=1s"];
/// Calls that take a while: some are under way whenever the leader goes.
const SLOW_DRIVER: [&str; 3] =
    [ATTACHES, "--fault=ControllerPublishVolume:delay=150ms", "--fault=ControllerUnpublishVolume:delay=150ms"];
const NODE: &str = "node";

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
    take_turns("attach-to-ours", Side::Go, Exit::Rollout).await
}

#[tokio::test]
async fn rollback_from_ours_to_go() -> Result<()> {
    take_turns("attach-to-go", Side::Ours, Exit::Rollout).await
}

#[tokio::test]
async fn go_is_killed_and_ours_takes_over() -> Result<()> {
    take_turns("attach-go-killed", Side::Go, Exit::Kill).await
}

#[tokio::test]
async fn ours_is_killed_and_go_takes_over() -> Result<()> {
    take_turns("attach-ours-killed", Side::Ours, Exit::Kill).await
}

/// `first` leads and goes in the middle of its work; the other side takes over and finishes it.
async fn take_turns(purpose: &str, first: Side, exit: Exit) -> Result<()> {
    let second = if first == Side::Go { Side::Ours } else { Side::Go };
    let scene = AttachScene::start(Cluster::shared_with_audit().await?, purpose, &SLOW_DRIVER).await?;
    scene.add_node(NODE, NODE).await?;
    let mut handles = Vec::new();
    for n in 0..18 {
        handles.push(scene.add_volume(&name(n), &json!({}), &json!({})).await?);
    }
    let history = LeaseHistory::of(&scene.client, &scene.namespace);
    let mut leader = replica(&scene, first).await?;
    history.held_by(first).await.with_context(|| leader.process().tail())?;
    super::works(&mut leader, first).await?;
    let mut standby = replica(&scene, second).await?;
    let text = if second == Side::Go { "to acquire leader lease" } else { "standing by for the leader lease" };
    standby.process().logged(text, PATIENCE).await?;

    attach(&scene, 0..6).await?;
    attached(&scene, 0..6).await?;
    assert_eq!(callers(&scene)?, BTreeSet::from([leader.pid()]), "the standby calls nothing");
    // Some to be attached and some to be detached are under way when it happens.
    attach(&scene, 6..12).await?;
    detach(&scene, 0..3).await?;
    leader.process().logged("/csi.v1.Controller/ControllerUnpublishVolume", PATIENCE).await?;
    match exit {
        Exit::Rollout => {
            leader.terminate()?;
            // The Go attacher has no handler for the signal.
            let code = leader.process().ended(PATIENCE).await?;
            assert_eq!(code, if first == Side::Go { 128 + 15 } else { 0 }, "{}", leader.process().tail());
        }
        Exit::Kill => leader.process().kill().await?,
    }

    history.held_by(second).await.with_context(|| standby.process().tail())?;
    super::works(&mut standby, second).await?;
    attach(&scene, 12..18).await?;
    attached(&scene, 6..18).await?;
    detach(&scene, 3..18).await?;
    for n in 0..18 {
        scene.detached(&name(n)).await?;
    }
    for handle in &handles {
        assert_eq!(scene.published_to(handle)?, [""; 0], "nothing is left at the driver");
    }
    assert_eq!(standby.process().exit_code()?, None);

    let calls: Vec<_> = scene
        .driver
        .journal()?
        .into_iter()
        .filter(|call| call.rpc.ends_with("publishVolume") || call.rpc.ends_with("PublishVolume"))
        .collect();
    no_overlap(&calls)?;
    for (side, pid) in [(first, leader.pid()), (second, standby.pid())] {
        within_terms(&calls, pid, &history.terms(side)?, Duration::ZERO)?;
        assert!(calls.iter().any(|call| call.peer_pid == Some(pid)), "{side:?} did its part");
    }
    Ok(())
}

fn name(number: u32) -> String {
    format!("data-{number}")
}

async fn replica(scene: &AttachScene, side: Side) -> Result<Sidecar> {
    let settings = scene.competing(super::settings(scene, side).await?);
    LEASE.iter().fold(settings, |settings, flag| settings.flag(flag)).start()
}

async fn attach(scene: &AttachScene, numbers: Range<u32>) -> Result<()> {
    for n in numbers {
        scene.attach(&name(n), &name(n), NODE).await?;
    }
    Ok(())
}

async fn attached(scene: &AttachScene, numbers: Range<u32>) -> Result<()> {
    for n in numbers {
        scene.attached(&name(n)).await?;
    }
    Ok(())
}

async fn detach(scene: &AttachScene, numbers: Range<u32>) -> Result<()> {
    for n in numbers {
        scene.detach(&name(n)).await?;
    }
    Ok(())
}

/// Processes that have attached or detached.
fn callers(scene: &AttachScene) -> Result<BTreeSet<i32>> {
    let calls = scene
        .driver
        .journal()?
        .into_iter()
        .filter(|call| ["ControllerPublishVolume", "ControllerUnpublishVolume"].contains(&call.rpc.as_str()));
    Ok(calls.filter_map(|call| call.peer_pid).collect())
}
