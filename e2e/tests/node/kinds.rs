//! Volumes of every kind reach their pods.

use std::fs;

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
    let holder = Pod::new("holder").block("data", "/dev/data").create(&site.client, &site.namespace).await?;
    holder.running().await?;
    assert_eq!(loop_devices(&site)?.len(), 1);
    holder.delete().await?;
    let volume = site.bound("data").await?;
    site.detached(&volume, PATIENCE).await?;
    site.unmounted().await?;
    assert_eq!(loop_devices(&site)?, [""; 0]);
    site.delete_claim("data").await?;
    site.gone(&volume).await
}

/// Files of the driver that are attached to loop devices.
fn loop_devices(site: &Site) -> Result<Vec<String>> {
    let state = site.driver.state_directory().to_string_lossy().into_owned();
    let mut files = Vec::new();
    for device in fs::read_dir("/sys/block")? {
        // Only a device that is attached has it.
        let file = fs::read_to_string(device?.path().join("loop/backing_file")).unwrap_or_default();
        files.extend(file.contains(&state).then_some(file));
    }
    Ok(files)
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
    let steps = ["write", "/scratch/file", "text", "then", "read", "/scratch/file", "then", "pause"];
    let pod = Pod::new("pod").inline(site.driver.name(), &[], "/scratch").runs(&steps);
    let pod = pod.create(&site.client, &site.namespace).await?;
    pod.running().await?;
    let volumes = || Ok::<_, anyhow::Error>(fs::read_dir(site.driver.state_directory().join("ephemeral"))?.count());
    assert_eq!(volumes()?, 1);
    pod.delete().await?;
    site.unmounted().await?;
    assert_eq!(volumes()?, 0, "its content goes with it");
    assert_eq!(site.codes("NodePublishVolume")?, ["OK"]);
    assert_eq!(site.codes("NodeUnpublishVolume")?, ["OK"]);
    assert_eq!(site.codes("ControllerPublishVolume")?, [""; 0]);
    Ok(())
}
