//! The node loses power with a volume in use.

use anyhow::Result;
use e2e::{Pod, Site};
use serde_json::json;

#[tokio::test]
async fn after_a_reboot_the_pod_has_its_volume_again() -> Result<()> {
    let Some(mut site) = Site::start_alone("reboot", &[]).await? else { return Ok(()) };
    site.claim("data", &json!({})).await?;
    let pod = Pod::new("writer").claim("data", "/data").field("restartPolicy", json!("Always"));
    let pod = pod.runs(&["append", "/data/starts", "x", "then", "pause"]).create(&site.client, &site.namespace).await?;
    pod.running().await?;
    assert!(!site.volume_mounts()?.is_empty());
    site.reboot().await?;

    pod.restarted(1).await?;
    let reader =
        Pod::new("reader").claim("data", "/data").runs(&["await", "/data/starts", "then", "read", "/data/starts"]);
    let reader = reader.create(&site.client, &site.namespace).await?;
    assert_eq!(reader.succeeded().await?, "xx");
    pod.delete().await
}
