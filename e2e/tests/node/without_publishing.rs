//! Drivers whose volumes are not published by a controller.

use anyhow::{Context as _, Result};
use e2e::scene::PATIENCE;
use e2e::{Pod, Site};
use kube::ResourceExt as _;
use serde_json::json;

const CAPABILITIES: &str =
    "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,LIST_VOLUMES,GET_VOLUME,STAGE_UNSTAGE_VOLUME";
const STEPS: [&str; 8] = ["write", "/data/file", "text", "then", "read", "/data/file", "then", "pause"];

/// `attachRequired: true`, which is what Kubernetes assumes of a driver, although there is nothing to attach.
#[tokio::test]
async fn an_attachment_without_publishing_is_attached_at_once() -> Result<()> {
    let Some(site) = Site::start("trivial", &[CAPABILITIES]).await? else { return Ok(()) };
    site.claim("data", &json!({})).await?;
    let pod = Pod::new("pod").claim("data", "/data").runs(&STEPS).create(&site.client, &site.namespace).await?;
    pod.running().await?;
    let volume = site.bound("data").await?;
    let attachments = site.attachments(&volume).await?;
    assert_eq!(attachments.len(), 1);
    assert!(attachments[0].status.as_ref().context("a status")?.attached);
    assert_eq!(attachments[0].finalizers(), [""; 0], "nothing has to be undone");
    let object = site.volumes().get(&volume).await?;
    let held = object.finalizers().iter().any(|finalizer| finalizer.starts_with("external-attacher/"));
    assert!(!held, "{:?}", object.finalizers());
    pod.delete().await?;
    site.detached(&volume, PATIENCE).await?;
    nothing_left(&site, &volume).await
}

#[tokio::test]
async fn without_attaching_there_is_no_attachment() -> Result<()> {
    let Some(site) = Site::start("unattached", &[CAPABILITIES]).await? else { return Ok(()) };
    site.create_csi_driver(&json!({ "attachRequired": false })).await?;
    site.claim("data", &json!({})).await?;
    let pod = Pod::new("pod").claim("data", "/data").runs(&STEPS).create(&site.client, &site.namespace).await?;
    pod.running().await?;
    let volume = site.bound("data").await?;
    assert_eq!(site.attachments(&volume).await?.len(), 0);
    pod.delete().await?;
    assert_eq!(site.attachments(&volume).await?.len(), 0);
    nothing_left(&site, &volume).await
}

async fn nothing_left(site: &Site, volume: &str) -> Result<()> {
    site.unmounted().await?;
    for rpc in ["ControllerPublishVolume", "ControllerUnpublishVolume"] {
        assert_eq!(site.codes(rpc)?, [""; 0], "{rpc}");
    }
    assert_eq!(site.codes("NodePublishVolume")?, ["OK"]);
    site.delete_claim("data").await?;
    site.gone(volume).await
}
