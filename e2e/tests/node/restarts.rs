//! One process of the node ends while a volume is in use, and comes back.

use anyhow::Result;
use e2e::{Pod, Site};
use serde_json::json;

use crate::csi_node::{Entry, socket_file};

#[tokio::test]
async fn a_restarted_kubelet_goes_on_where_the_last_one_was() -> Result<()> {
    let Some(mut site) = Site::start_alone("kubelet", &[]).await? else { return Ok(()) };
    site.claim("data", &json!({})).await?;
    let pod = Pod::new("pod").claim("data", "/data").field("restartPolicy", json!("Always"));
    let pod = pod.runs(&["append", "/data/starts", "x", "then", "pause"]).create(&site.client, &site.namespace).await?;
    pod.running().await?;

    let (mut entry, socket) = (Entry::follow(&site, site.driver.name()).await?, socket_file(&site)?);
    let node = &mut site.place_alone()?.node;
    node.stop_kubelet().await?;
    node.start_kubelet().await?;
    // It asks all sockets that it finds; ours stay as they are.
    site.registered_times(2).await?;
    let node = &mut site.place_alone()?.node;
    node.kill_kubelet().await?;
    assert_eq!(node.kill_containers(pod.uid())?, 1, "pods go on without a kubelet");
    node.start_kubelet().await?;
    site.registered_times(3).await?;
    pod.restarted(1).await?;
    let new = Pod::new("new").claim("data", "/data").runs(&["read", "/data/starts"]);
    let new = new.create(&site.client, &site.namespace).await?;
    assert!(new.succeeded().await?.starts_with('x'));
    assert_eq!(socket_file(&site)?, socket);
    assert_eq!(entry.history().await?, [site.node().name()]);
    new.delete().await?;
    pod.delete().await?;
    // A new kubelet does not know what the last one had staged, and stages it again.
    assert!(site.codes("NodeStageVolume")?.iter().all(|code| code == "OK"));
    assert_eq!(site.codes("ControllerPublishVolume")?, ["OK"]);
    site.unmounted().await?;
    Ok(())
}
