//! Two attachers and one lease.

use anyhow::Result;
use e2e::Cluster;
use e2e::attach_scene::{ATTACHES, AttachScene};
use e2e::journal::no_overlap;
use e2e::scene::PATIENCE;
use serde_json::json;

/// Short enough to be waited for when its holder is killed.
pub(crate) const SHORT_LEASE: [&str; 3] = [
    "--leader-election-lease-duration=4s",
    "--leader-election-renew-deadline=3s",
    "--leader-election-retry-period=500ms",
];

#[tokio::test]
async fn a_rollout_in_the_middle_of_work_repeats_nothing() -> Result<()> {
    const MANY: usize = 24;
    let faults =
        [ATTACHES, "--fault=ControllerPublishVolume:delay=200ms", "--fault=ControllerUnpublishVolume:delay=200ms"];
    let scene = AttachScene::start(Cluster::shared().await?, "attach-rollout", &faults).await?;
    scene.add_node("node", "node").await?;
    let names: Vec<_> = (0..MANY).map(|n| format!("data-{n}")).collect();
    let mut handles = Vec::new();
    for name in &names {
        handles.push(scene.add_volume(name, &json!({}), &json!({})).await?);
    }
    let mut leader = scene.leader().await?;
    let mut standby = scene.replica()?.start()?;
    standby.process().logged("standing by for the leader lease", PATIENCE).await?;
    for name in &names {
        scene.attach(name, name, "node").await?;
    }
    leader.process().logged("/csi.v1.Controller/ControllerPublishVolume", PATIENCE).await?;
    leader.terminate()?;
    assert_eq!(leader.process().ended(PATIENCE).await?, 0, "{}", leader.process().tail());
    for name in &names {
        scene.attached(name).await?;
        scene.detach(name).await?;
    }
    for (name, handle) in names.iter().zip(&handles) {
        scene.detached(name).await?;
        assert_eq!(scene.course_of(handle)?, ["ControllerPublishVolume OK", "ControllerUnpublishVolume OK"]);
    }
    let calls: Vec<_> = scene
        .driver
        .journal()?
        .into_iter()
        .filter(|call| ["ControllerPublishVolume", "ControllerUnpublishVolume"].contains(&call.rpc.as_str()))
        .collect();
    no_overlap(&calls)?;
    for pid in [leader.pid(), standby.pid()] {
        assert!(calls.iter().any(|call| call.peer_pid == Some(pid)), "{pid} did its part");
    }
    Ok(())
}
