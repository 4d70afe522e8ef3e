//! The attacher or the driver dies in the middle of a call, while a pod waits for the volume or has just left it.

use anyhow::{Context as _, Result};
use e2e::pod::Created;
use e2e::scene::PATIENCE;
use e2e::site::{CAPABILITIES, NODE};
use e2e::{Pod, Site, eventually};
use kube::ResourceExt as _;
use serde_json::json;

/// Calls show in the driver's log when they arrive.
const TELLS: &str = "--log-level=debug";
/// The driver has done it, and nobody hears of it.
const PUBLISHED_UNHEARD: &str = "--fault=ControllerPublishVolume:answer-delay=5s,times=1";
/// The driver has not begun.
const SLOW_TO_PUBLISH: &str = "--fault=ControllerPublishVolume:delay=5s,times=1";
const UNPUBLISHED_UNHEARD: &str = "--fault=ControllerUnpublishVolume:answer-delay=5s,times=1";
const SLOW_TO_UNPUBLISH: &str = "--fault=ControllerUnpublishVolume:delay=5s,times=1";

/// Soon free when its holder is killed.
const SHORT_LEASE: [&str; 3] = [
    "--leader-election-lease-duration=4s",
    "--leader-election-renew-deadline=3s",
    "--leader-election-retry-period=500ms",
];

/// Steps of a pod that stays until it is deleted.
const WRITES: [&str; 5] = ["write", "/data/file", "text", "then", "pause"];

/// A site with a claim, whose driver has a fault.
async fn site(purpose: &str, fault: &str) -> Result<Option<Site>> {
    let Some(mut site) = Site::start(purpose, &[TELLS, fault]).await? else { return Ok(None) };
    site.stop_attacher().await?;
    site.start_attacher_with(&SHORT_LEASE).await?;
    site.claim("data", &json!({})).await?;
    Ok(Some(site))
}

async fn writer(site: &Site) -> Result<Created> {
    Pod::new("writer").claim("data", "/data").runs(&WRITES).create(&site.client, &site.namespace).await
}

/// What the driver has published is what the attachments say: this volume, at the node, and nothing else.
async fn attached_once(site: &Site) -> Result<()> {
    let volume = site.bound("data").await?;
    let attachments = site.attachments(&volume).await?;
    assert_eq!(attachments.len(), 1, "{attachments:#?}");
    let status = attachments[0].status.as_ref().context("a status")?;
    assert!(status.attached && status.attach_error.is_none(), "{status:?}");
    assert_eq!(site.driver.published_to(&site.handle(&volume).await?)?, [NODE]);
    assert!(site.driver.calls("ControllerPublishVolume")?.iter().all(|call| call.request["node_id"] == NODE));
    Ok(())
}

/// Waits until nothing is attached, and checks that the driver knows of nothing either.
async fn detached_whole(site: &Site) -> Result<()> {
    let volume = site.bound("data").await?;
    site.detached(&volume, PATIENCE).await?;
    assert_eq!(site.driver.published_to(&site.handle(&volume).await?)?, [""; 0]);
    let calls = site.driver.calls("ControllerUnpublishVolume")?;
    assert!(calls.iter().all(|call| call.request["node_id"] == NODE), "{calls:#?}");
    let unstaged = site.driver.calls("NodeUnstageVolume")?.into_iter().next().context("it was unstaged")?;
    assert!(calls.iter().all(|call| call.started() >= unstaged.ended()), "detached while in use: {calls:#?}");
    Ok(())
}

/// The volume can be had again, with what is in it, and goes without a trace.
async fn read_by_another(site: &Site) -> Result<()> {
    let reader = Pod::new("reader").claim("data", "/data").runs(&["read", "/data/file", "then", "pause"]);
    let reader = reader.create(&site.client, &site.namespace).await?;
    reader.told("text").await?;
    attached_once(site).await?;
    reader.delete().await?;
    detached_whole(site).await?;
    let volume = site.bound("data").await?;
    site.delete_claim("data").await?;
    site.gone(&volume).await
}

#[tokio::test]
async fn the_pod_runs_when_the_attacher_is_killed_while_the_driver_publishes() -> Result<()> {
    for fault in [PUBLISHED_UNHEARD, SLOW_TO_PUBLISH] {
        let Some(mut site) = site("publish-killed", fault).await? else { return Ok(()) };
        let writer = writer(&site).await?;
        site.scene.driver.called("ControllerPublishVolume", PATIENCE).await?;
        site.kill_attacher().await?;
        if fault == PUBLISHED_UNHEARD {
            let volume = site.bound("data").await?;
            let published = site.driver.published_to(&site.handle(&volume).await?)?;
            assert_eq!(published, [NODE], "the driver has done it, and no attachment says so");
        }
        site.start_attacher_with(&SHORT_LEASE).await?;
        writer.running().await?;
        attached_once(&site).await?;
        writer.delete().await?;
        detached_whole(&site).await?;
        read_by_another(&site).await?;
        assert_eq!(site.codes("ControllerUnpublishVolume")?, ["OK", "OK"], "once for each pod");
    }
    Ok(())
}

#[tokio::test]
async fn the_volume_is_detached_when_the_attacher_is_killed_while_the_driver_unpublishes() -> Result<()> {
    for fault in [UNPUBLISHED_UNHEARD, SLOW_TO_UNPUBLISH] {
        let Some(mut site) = site("unpublish-killed", fault).await? else { return Ok(()) };
        let writer = writer(&site).await?;
        writer.running().await?;
        attached_once(&site).await?;
        writer.delete().await?;
        site.scene.driver.called("ControllerUnpublishVolume", PATIENCE).await?;
        site.kill_attacher().await?;
        let volume = site.bound("data").await?;
        let attachments = site.attachments(&volume).await?;
        assert!(!attachments[0].finalizers().is_empty(), "it stays until the driver has said that it is detached");
        site.start_attacher_with(&SHORT_LEASE).await?;
        detached_whole(&site).await?;
        // The driver ends what it has begun for the one that was killed, and would take the volume from the next pod.
        eventually("both calls to have ended", PATIENCE, async || {
            Ok((site.codes("ControllerUnpublishVolume")?.len() == 2).then_some(()))
        })
        .await?;
        read_by_another(&site).await?;
        assert_eq!(site.codes("ControllerPublishVolume")?, ["OK", "OK"], "once for each pod");
    }
    Ok(())
}

#[tokio::test]
async fn the_pod_runs_when_the_driver_is_killed_while_it_publishes() -> Result<()> {
    let Some(mut site) = site("publish-died", PUBLISHED_UNHEARD).await? else { return Ok(()) };
    let writer = writer(&site).await?;
    site.scene.driver.called("ControllerPublishVolume", PATIENCE).await?;
    restart_driver(&mut site).await?;
    writer.running().await?;
    attached_once(&site).await?;
    writer.delete().await?;
    detached_whole(&site).await?;
    read_by_another(&site).await?;
    assert_eq!(site.codes("ControllerPublishVolume")?, ["OK", "OK"]);
    assert_eq!(site.codes("ControllerUnpublishVolume")?, ["OK", "OK"]);
    Ok(())
}

#[tokio::test]
async fn the_volume_is_detached_when_the_driver_is_killed_while_it_unpublishes() -> Result<()> {
    let Some(mut site) = site("unpublish-died", UNPUBLISHED_UNHEARD).await? else { return Ok(()) };
    let writer = writer(&site).await?;
    writer.running().await?;
    writer.delete().await?;
    site.scene.driver.called("ControllerUnpublishVolume", PATIENCE).await?;
    restart_driver(&mut site).await?;
    detached_whole(&site).await?;
    read_by_another(&site).await?;
    assert_eq!(site.codes("ControllerUnpublishVolume")?, ["OK", "OK"]);
    Ok(())
}

/// Kills the driver, and starts it without its fault. Nothing else is restarted.
async fn restart_driver(site: &mut Site) -> Result<()> {
    site.scene.driver.kill().await?;
    let node_id = format!("--node-id={NODE}");
    site.scene.driver.set_flags(&[CAPABILITIES, &node_id]);
    site.scene.driver.start_again().await?;
    let attacher = site.attacher().context("the attacher")?;
    assert_eq!(attacher.process().exit_code()?, None, "it stays when its driver goes");
    Ok(())
}
