//! Mount volumes with a file system of their own.

use anyhow::Result;
use e2e::scene::PATIENCE;
use e2e::site::GROWING;
use e2e::{Pod, Site};
use serde_json::json;

#[tokio::test]
async fn a_pod_sees_the_size_of_its_volume_and_keeps_its_files() -> Result<()> {
    const SIZE: u64 = 300 << 20;
    let Some(site) = Site::start("image", &[GROWING]).await? else { return Ok(()) };
    site.add_growing_class().await?;
    site.claim("data", &json!({ "resources": { "requests": { "storage": "300Mi" } } })).await?;
    let steps = ["write", "/data/file", "text", "then", "mount", "/data", "then", "pause"];
    let writer = Pod::new("writer").claim("data", "/data").runs(&steps);
    let writer = writer.create(&site.client, &site.namespace).await?;
    writer.running().await?;
    let volume = site.bound("data").await?;
    let size = site.file_system_size(&writer, &volume)?;
    assert!(size <= SIZE && size > SIZE - (100 << 20), "{size}");
    assert!(writer.log().await?.starts_with("xfs "), "{}", writer.log().await?);
    let handle = site.handle(&volume).await?;
    assert_eq!(site.driver.record(&handle)?.expect("a record")["capacity_bytes"], SIZE);
    writer.delete().await?;
    let reader = Pod::new("reader").claim("data", "/data").runs(&["read", "/data/file"]);
    let reader = reader.create(&site.client, &site.namespace).await?;
    assert_eq!(reader.succeeded().await?, "text");
    reader.delete().await?;
    site.detached(&volume, PATIENCE).await?;
    site.unmounted().await?;
    site.delete_claim("data").await?;
    site.gone(&volume).await
}

#[tokio::test]
async fn a_pod_tells_the_size_of_its_device() -> Result<()> {
    let Some(site) = Site::start("size", &[]).await? else { return Ok(()) };
    site.claim("data", &json!({ "volumeMode": "Block" })).await?;
    let pod = Pod::new("pod").block("data", "/dev/data").runs(&["size", "/dev/data"]);
    let pod = pod.create(&site.client, &site.namespace).await?;
    assert_eq!(pod.succeeded().await?, (1 << 20).to_string());
    let volume = site.bound("data").await?;
    pod.delete().await?;
    site.detached(&volume, PATIENCE).await?;
    site.delete_claim("data").await?;
    site.gone(&volume).await
}
