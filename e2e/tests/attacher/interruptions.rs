//! The attacher or the driver goes away in the middle of a call; what is left is exactly attached, or exactly detached.

use anyhow::Result;
use e2e::attach_scene::{ATTACHES, AttachScene};
use e2e::scene::PATIENCE;
use e2e::{Cluster, Sidecar};
use serde_json::json;

use crate::leadership::SHORT_LEASE;

/// Calls show in the driver's log when they arrive.
const TELLS: &str = "--log-level=debug";
const SLOW_PUBLISH: &str = "--fault=ControllerPublishVolume:answer-delay=3s,times=1";
const SLOW_UNPUBLISH: &str = "--fault=ControllerUnpublishVolume:answer-delay=3s,times=1";
const SLOW_TO_PUBLISH: &str = "--fault=ControllerPublishVolume:delay=3s,times=1";

/// A volume to be attached to `node`, and its handle.
async fn scene(purpose: &str, faults: &[&str]) -> Result<(AttachScene, String)> {
    let flags: Vec<_> = [ATTACHES, TELLS].iter().chain(faults).copied().collect();
    let scene = AttachScene::start(Cluster::shared().await?, purpose, &flags).await?;
    scene.add_node("node", "node").await?;
    let handle = scene.add_volume("data", &json!({}), &json!({})).await?;
    Ok((scene, handle))
}

/// A leader whose lease is soon free when it is killed.
async fn leader(scene: &AttachScene) -> Result<Sidecar> {
    let settings = SHORT_LEASE.iter().fold(scene.replica()?, |settings, flag| settings.flag(flag));
    e2e::scene::leading(settings).await
}

async fn attached_once(scene: &AttachScene, handle: &str) -> Result<()> {
    let attachment = scene.attached("data").await?;
    assert!(attachment.status.is_some_and(|status| status.attach_error.is_none()), "an error on what is attached");
    assert_eq!(scene.published_to(handle)?, ["node"]);
    Ok(())
}

async fn detached_whole(scene: &AttachScene, handle: &str) -> Result<()> {
    scene.detached("data").await?;
    assert_eq!(scene.published_to(handle)?, [""; 0]);
    let calls = scene.calls_about(handle)?;
    let others: Vec<_> = calls.iter().filter(|call| call.request["node_id"] != "node").collect();
    assert!(others.is_empty(), "for another node: {others:?}");
    Ok(())
}

#[tokio::test]
async fn killed_while_the_driver_publishes() -> Result<()> {
    for fault in [SLOW_PUBLISH, SLOW_TO_PUBLISH] {
        let (mut scene, handle) = scene("attach-killed", &[fault]).await?;
        let mut first = leader(&scene).await?;
        scene.attach("data", "data", "node").await?;
        scene.driver.called("ControllerPublishVolume", PATIENCE).await?;
        first.process().kill().await?;
        let _second = leader(&scene).await?;
        attached_once(&scene, &handle).await?;
        scene.detach("data").await?;
        detached_whole(&scene, &handle).await?;
        let ok = scene.course_of(&handle)?.into_iter().filter(|call| call == "ControllerUnpublishVolume OK").count();
        assert_eq!(ok, 1);
    }
    Ok(())
}

/// Nobody wants it attached when the next attacher comes, and nobody knows whether it is.
#[tokio::test]
async fn killed_while_the_driver_publishes_and_deleted_before_the_next_comes() -> Result<()> {
    let (mut scene, handle) = scene("attach-orphan", &[SLOW_PUBLISH]).await?;
    let mut first = leader(&scene).await?;
    scene.attach("data", "data", "node").await?;
    scene.driver.called("ControllerPublishVolume", PATIENCE).await?;
    first.process().kill().await?;
    assert_eq!(scene.published_to(&handle)?, ["node"], "the driver has done it");
    scene.detach("data").await?;
    let _second = leader(&scene).await?;
    detached_whole(&scene, &handle).await
}

#[tokio::test]
async fn killed_while_the_driver_unpublishes() -> Result<()> {
    let (mut scene, handle) = scene("detach-killed", &[SLOW_UNPUBLISH]).await?;
    let mut first = leader(&scene).await?;
    scene.attach("data", "data", "node").await?;
    attached_once(&scene, &handle).await?;
    scene.detach("data").await?;
    scene.driver.called("ControllerUnpublishVolume", PATIENCE).await?;
    first.process().kill().await?;
    let attachment = scene.attachments().get(&scene.name("data")).await?;
    assert!(scene.holds(&attachment), "it goes when the driver has said so");
    let _second = leader(&scene).await?;
    detached_whole(&scene, &handle).await
}

#[tokio::test]
async fn sigterm_waits_for_the_call_and_writes_its_outcome() -> Result<()> {
    let (mut scene, handle) = scene("attach-term", &[SLOW_PUBLISH]).await?;
    let mut attacher = leader(&scene).await?;
    scene.attach("data", "data", "node").await?;
    scene.driver.called("ControllerPublishVolume", PATIENCE).await?;
    attacher.terminate()?;
    let code = attacher.process().ended(PATIENCE).await?;
    assert_eq!(code, 0, "{}", attacher.process().tail());
    let attachment = scene.attachments().get(&scene.name("data")).await?;
    assert!(attachment.status.is_some_and(|status| status.attached), "the outcome is written before the end");
    assert_eq!(scene.course_of(&handle)?, ["ControllerPublishVolume OK"]);
    Ok(())
}

#[tokio::test]
async fn the_driver_is_killed_while_it_publishes() -> Result<()> {
    let (mut scene, handle) = scene("attach-driver-killed", &[SLOW_PUBLISH]).await?;
    let mut attacher = leader(&scene).await?;
    scene.attach("data", "data", "node").await?;
    scene.driver.called("ControllerPublishVolume", PATIENCE).await?;
    scene.driver.kill().await?;
    scene.driver.set_flags(&[ATTACHES]);
    scene.driver.start_again().await?;
    attached_once(&scene, &handle).await?;
    scene.detach("data").await?;
    detached_whole(&scene, &handle).await?;
    assert_eq!(scene.course_of(&handle)?, ["ControllerPublishVolume OK", "ControllerUnpublishVolume OK"]);
    assert_eq!(attacher.process().exit_code()?, None, "no restart");
    Ok(())
}

#[tokio::test]
async fn the_driver_is_killed_while_it_unpublishes() -> Result<()> {
    let (mut scene, handle) = scene("detach-driver-killed", &[SLOW_UNPUBLISH]).await?;
    let mut attacher = leader(&scene).await?;
    scene.attach("data", "data", "node").await?;
    attached_once(&scene, &handle).await?;
    scene.detach("data").await?;
    scene.driver.called("ControllerUnpublishVolume", PATIENCE).await?;
    scene.driver.kill().await?;
    scene.driver.set_flags(&[ATTACHES]);
    scene.driver.start_again().await?;
    detached_whole(&scene, &handle).await?;
    assert_eq!(attacher.process().exit_code()?, None, "no restart");
    Ok(())
}
