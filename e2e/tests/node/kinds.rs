//! Volumes of every kind reach their pods.

use anyhow::Result;
use e2e::scene::PATIENCE;
use e2e::{Pod, Site};
use serde_json::json;

#[tokio::test]
async fn a_block_volume_is_a_device_in_the_pod() -> Result<()> {
    let Some(site) = Site::start("block", &[]).await? else { return Ok(()) };
    site.claim("data", &json!({ "volumeMode": "Block" })).await?;
    for (name, steps) in [("writer", vec!["write", "/dev/data", "text"]), ("reader", vec!["read", "/dev/data"])] {
        let pod = Pod::new(name).block("data", "/dev/data").runs(&steps).create(&site.client, &site.namespace).await?;
        let told = pod.succeeded().await?;
        assert_eq!(told, if name == "reader" { "text" } else { "" });
        pod.delete().await?;
    }
    let volume = site.bound("data").await?;
    site.detached(&volume, PATIENCE).await?;
    site.delete_claim("data").await?;
    site.gone(&volume).await
}

#[tokio::test]
async fn a_generic_ephemeral_volume_lives_as_long_as_its_pod() -> Result<()> {
    let Some(site) = Site::start("ephemeral", &[]).await? else { return Ok(()) };
    let steps = ["write", "/scratch/file", "text", "then", "read", "/scratch/file"];
    let pod = Pod::new("pod").ephemeral(&site.class, "1Mi", "/scratch").runs(&steps);
    let pod = pod.create(&site.client, &site.namespace).await?;
    assert_eq!(pod.succeeded().await?, "text");
    let volume = site.bound("pod-volume-0").await?;
    pod.delete().await?;
    site.gone(&volume).await
}

#[tokio::test]
async fn an_inline_volume_needs_neither_claim_nor_attachment() -> Result<()> {
    let Some(site) = Site::start("inline", &[]).await? else { return Ok(()) };
    let steps = ["write", "/scratch/file", "text", "then", "read", "/scratch/file"];
    let pod = Pod::new("pod").inline(site.driver.name(), &[], "/scratch").runs(&steps);
    let pod = pod.create(&site.client, &site.namespace).await?;
    assert_eq!(pod.succeeded().await?, "text");
    pod.delete().await?;
    site.unmounted().await?;
    assert_eq!(site.codes("NodePublishVolume")?, ["OK"]);
    assert_eq!(site.codes("NodeUnpublishVolume")?, ["OK"]);
    assert_eq!(site.codes("ControllerPublishVolume")?, [""; 0]);
    Ok(())
}
