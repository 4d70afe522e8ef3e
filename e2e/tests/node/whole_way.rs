//! A volume's whole way: registered, provisioned, attached, mounted, written, read, detached, deleted.

use anyhow::Result;
use e2e::scene::PATIENCE;
use e2e::{Pod, Site};
use serde_json::json;

#[tokio::test]
async fn a_pod_reads_what_another_wrote_and_nothing_of_the_volume_stays() -> Result<()> {
    let Some(site) = Site::start("whole-way", &[]).await? else { return Ok(()) };
    site.claim("data", &json!({})).await?;
    let writer = Pod::new("writer").claim("data", "/data").runs(&["write", "/data/file", "text", "then", "pause"]);
    let writer = writer.create(&site.client, &site.namespace).await?;
    writer.running().await?;
    let volume = site.bound("data").await?;
    let attachments = site.attachments(&volume).await?;
    assert_eq!(attachments.len(), 1);
    assert_eq!(attachments[0].spec.node_name, site.node().name());
    writer.delete().await?;

    let reader = Pod::new("reader").claim("data", "/data").runs(&["read", "/data/file"]);
    let reader = reader.create(&site.client, &site.namespace).await?;
    assert_eq!(reader.succeeded().await?, "text");
    reader.delete().await?;
    site.detached(&volume, PATIENCE).await?;
    site.unmounted().await?;
    site.delete_claim("data").await?;
    site.gone(&volume).await?;

    for (one, other) in [
        ("CreateVolume", "DeleteVolume"),
        ("ControllerPublishVolume", "ControllerUnpublishVolume"),
        ("NodeStageVolume", "NodeUnstageVolume"),
        ("NodePublishVolume", "NodeUnpublishVolume"),
    ] {
        let (made, unmade) = (site.codes(one)?, site.codes(other)?);
        assert!(!made.is_empty() && made.iter().chain(&unmade).all(|code| code == "OK"), "{one}: {made:?} {unmade:?}");
        assert_eq!(made.len(), unmade.len(), "{other} for each {one}");
    }
    Ok(())
}
