//! Two resizers and one lease.

use anyhow::Result;
use e2e::Cluster;
use e2e::journal::no_overlap;
use e2e::resize_scene::{Fields, RESIZES, ResizeScene};
use e2e::scene::PATIENCE;
use e2e::sidecar::Settings;
use futures_util::future::try_join_all;

/// With a lease that is short enough to be waited for when its holder is killed.
pub(crate) fn brief(settings: Settings) -> Settings {
    settings
        .flag("--leader-election-lease-duration=4s")
        .flag("--leader-election-renew-deadline=3s")
        .flag("--leader-election-retry-period=500ms")
}

#[tokio::test]
async fn a_rollout_in_the_middle_of_work_repeats_nothing() -> Result<()> {
    const MANY: usize = 24;
    let faults = [RESIZES, "--fault=ControllerExpandVolume:delay=200ms"];
    let scene = ResizeScene::start(Cluster::shared().await?, "grow-rollout", &faults).await?;
    let names: Vec<_> = (0..MANY).map(|n| format!("data-{n}")).collect();
    let fields = Fields::default();
    let handles = try_join_all(names.iter().map(|name| scene.add_claim(name, &fields))).await?;
    // Two at a time, so that most are left for the next.
    let mut leader = e2e::scene::leading(scene.replica()?.flag("--workers=2")).await?;
    let mut standby = scene.replica()?.start()?;
    standby.process().logged("standing by for the leader lease", PATIENCE).await?;
    for name in &names {
        scene.ask(name, "2Mi").await?;
    }
    leader.process().logged("/csi.v1.Controller/ControllerExpandVolume", PATIENCE).await?;
    leader.terminate()?;
    assert_eq!(leader.process().ended(PATIENCE).await?, 0, "{}", leader.process().tail());
    for (name, handle) in names.iter().zip(&handles) {
        scene.has(name, "2Mi").await?;
        assert_eq!(scene.course_of(handle)?, ["ControllerExpandVolume OK"]);
    }
    let calls = scene.driver.calls("ControllerExpandVolume")?;
    no_overlap(&calls)?;
    for pid in [leader.pid(), standby.pid()] {
        assert!(calls.iter().any(|call| call.peer_pid == Some(pid)), "{pid} did its part");
    }
    Ok(())
}

/// The leader is killed with calls under way: the next one finishes all of them, and asks for the same sizes.
#[tokio::test]
async fn the_standby_finishes_what_a_killed_leader_has_begun() -> Result<()> {
    const MANY: usize = 12;
    let faults = [RESIZES, "--fault=ControllerExpandVolume:delay=300ms"];
    let scene = ResizeScene::start(Cluster::shared().await?, "grow-hand-over", &faults).await?;
    let names: Vec<_> = (0..MANY).map(|n| format!("data-{n}")).collect();
    let fields = Fields::default();
    let handles = try_join_all(names.iter().map(|name| scene.add_claim(name, &fields))).await?;
    let mut leader = e2e::scene::leading(brief(scene.replica()?).flag("--workers=3")).await?;
    let mut standby = brief(scene.replica()?).start()?;
    standby.process().logged("standing by for the leader lease", PATIENCE).await?;
    for name in &names {
        scene.ask(name, "2Mi").await?;
    }
    leader.process().logged("/csi.v1.Controller/ControllerExpandVolume", PATIENCE).await?;
    leader.process().kill().await?;
    for (name, handle) in names.iter().zip(&handles) {
        scene.has(name, "2Mi").await?;
        let calls = scene.calls_about(handle)?;
        assert!(calls.len() <= 2 && calls.iter().all(|call| call.code == "OK"), "{calls:#?}");
    }
    Ok(())
}
