//! The node loses power with a volume in use.

use anyhow::Result;
use e2e::{Pod, Site, scene::PATIENCE};
use kube::ResourceExt as _;
use serde_json::json;

use crate::csi_node::is_served;

#[tokio::test]
async fn after_a_reboot_the_pod_has_its_volume_again() -> Result<()> {
    let Some(mut site) = Site::start_alone("reboot", &[]).await? else { return Ok(()) };
    site.claim("data", &json!({})).await?;
    let pod = Pod::new("writer").claim("data", "/data").field("restartPolicy", json!("Always"));
    let pod = pod.runs(&["append", "/data/starts", "x", "then", "pause"]).create(&site.client, &site.namespace).await?;
    pod.running().await?;
    assert!(!site.volume_mounts()?.is_empty());
    let volume = site.bound("data").await?;
    let attached = site.attachments(&volume).await?;
    site.reboot().await?;
    assert!(is_served(&site));

    pod.restarted(1).await?;
    let reader =
        Pod::new("reader").claim("data", "/data").runs(&["await", "/data/starts", "then", "read", "/data/starts"]);
    let reader = reader.create(&site.client, &site.namespace).await?;
    assert_eq!(reader.succeeded().await?, "xx");

    let still_attached = site.attachments(&volume).await?;
    assert_eq!(still_attached.len(), 1);
    assert_eq!(still_attached[0].uid(), attached[0].uid());
    assert!(still_attached[0].status.as_ref().unwrap().attached);
    assert_eq!(site.codes("ControllerPublishVolume")?, ["OK"]);
    assert_eq!(site.codes("ControllerUnpublishVolume")?, [""; 0]);
    reader.delete().await?;
    pod.delete().await?;
    site.detached(&volume, PATIENCE).await?;
    assert_eq!(site.codes("ControllerUnpublishVolume")?, ["OK"]);
    assert_eq!(site.volume_mounts()?, [""; 0]);
    Ok(())
}
