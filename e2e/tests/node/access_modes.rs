//! Who may use a volume, and how.

use anyhow::{Context as _, Result};
use e2e::scene::PATIENCE;
use e2e::site::{CAPABILITIES, NODE};
use e2e::{Pod, Site};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

#[tokio::test]
async fn a_volume_for_one_pod_is_kept_from_a_second() -> Result<()> {
    let capabilities = format!("{CAPABILITIES},SINGLE_NODE_MULTI_WRITER");
    let Some(site) = Site::start("one-pod", &[&capabilities]).await? else { return Ok(()) };
    site.claim("data", &json!({ "accessModes": ["ReadWriteOncePod"] })).await?;
    let pod = |name| Pod::new(name).claim("data", "/data").runs(&["append", "/data/file", name, "then", "pause"]);
    let first = pod("first").create(&site.client, &site.namespace).await?;
    first.running().await?;
    let second = pod("second").create(&site.client, &site.namespace).await?;
    second.event("FailedScheduling", "ReadWriteOncePod").await?;
    // The kubelet is the last to say no, when nobody has asked the scheduler.
    let third = pod("third").field("nodeName", json!(NODE)).create(&site.client, &site.namespace).await?;
    third.event("FailedMount", "ReadWriteOncePod").await?;
    third.delete().await?;
    assert_eq!(site.codes("NodePublishVolume")?, ["OK"], "nobody else has got so far");

    first.delete().await?;
    second.running().await?;
    second.delete().await?;
    let reader = Pod::new("reader").claim("data", "/data").runs(&["read", "/data/file"]);
    let reader = reader.create(&site.client, &site.namespace).await?;
    assert_eq!(reader.succeeded().await?, "firstsecond");
    for rpc in ["CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"] {
        for call in site.driver.calls(rpc)? {
            let capability =
                call.request.get("volume_capability").or_else(|| call.request["volume_capabilities"].get(0));
            let mode = &capability.context("a capability")?["access_mode"]["mode"];
            assert_eq!(mode, "SINGLE_NODE_SINGLE_WRITER", "{rpc}");
        }
    }
    reader.delete().await
}

#[tokio::test]
async fn a_read_only_mount_cannot_be_written() -> Result<()> {
    let Some(site) = Site::start("read-only", &[]).await? else { return Ok(()) };
    site.claim("data", &json!({})).await?;
    let writer = Pod::new("writer").claim("data", "/data").runs(&["write", "/data/file", "text", "then", "pause"]);
    let writer = writer.create(&site.client, &site.namespace).await?;
    writer.running().await?;
    let read_only = json!({ "persistentVolumeClaim": { "claimName": "data", "readOnly": true } });
    let steps = ["read", "/data/file", "then", "write", "/data/file", "changed"];
    for (name, pod) in [
        ("volume", Pod::new("volume").volume(&read_only, "/data")),
        ("mount", Pod::new("mount").claim("data", "/data").read_only()),
    ] {
        let pod = pod.runs(&steps).create(&site.client, &site.namespace).await?;
        let told = pod.failed().await?;
        assert!(told.starts_with("text\n") && told.contains("Read-only file system"), "{name}: {told}");
        pod.delete().await?;
    }
    // Of the first, the driver is told; the second is the runtime's work.
    let published = site.driver.calls("NodePublishVolume")?;
    let read_only: Vec<_> = published.iter().map(|call| call.request["readonly"] == true).collect();
    assert_eq!(read_only, [false, true, false]);
    writer.delete().await?;
    site.unmounted().await
}

#[tokio::test]
async fn a_read_only_volume_is_published_for_reading() -> Result<()> {
    let Some(site) = Site::start("readers", &[]).await? else { return Ok(()) };
    site.claim("data", &json!({})).await?;
    let writer = Pod::new("writer").claim("data", "/data").runs(&["write", "/data/file", "text"]);
    let writer = writer.create(&site.client, &site.namespace).await?;
    writer.succeeded().await?;
    writer.delete().await?;
    let volume = site.bound("data").await?;
    site.detached(&volume, PATIENCE).await?;

    let shared = format!("{}-shared", site.namespace);
    site.volumes().create(&PostParams::default(), &for_reading(&site, &shared, &site.handle(&volume).await?)?).await?;
    let fields = json!({ "accessModes": ["ReadOnlyMany"], "storageClassName": "", "volumeName": shared });
    site.claim("shared", &fields).await?;
    site.bound("shared").await?;
    let source = json!({ "persistentVolumeClaim": { "claimName": "shared", "readOnly": true } });
    let reader = Pod::new("reader").volume(&source, "/data");
    let reader = reader.runs(&["read", "/data/file", "then", "write", "/data/file", "changed"]);
    let reader = reader.create(&site.client, &site.namespace).await?;
    let told = reader.failed().await?;
    assert!(told.starts_with("text\n") && told.contains("Read-only file system"), "{told}");
    reader.delete().await?;
    site.detached(&shared, PATIENCE).await?;

    let published = site.driver.calls("ControllerPublishVolume")?;
    let wanted: Vec<_> = published.iter().map(|call| read_only_and_mode(&call.request)).collect();
    assert_eq!(wanted, [(false, json!("SINGLE_NODE_WRITER")), (true, json!("MULTI_NODE_READER_ONLY"))]);
    assert!(published.iter().all(|call| call.code == "OK"));
    site.delete_claim("shared").await?;
    site.volumes().delete(&shared, &DeleteParams::default()).await?;
    e2e::eventually::gone(&site.volumes(), &shared, PATIENCE).await?;
    site.delete_claim("data").await?;
    site.gone(&volume).await
}

fn read_only_and_mode(request: &Value) -> (bool, Value) {
    (request["readonly"] == true, request["volume_capability"]["access_mode"]["mode"].clone())
}

/// A second object for a volume, which lets nobody write.
fn for_reading(site: &Site, name: &str, handle: &str) -> Result<PersistentVolume> {
    let csi = json!({ "driver": site.driver.name(), "volumeHandle": handle, "readOnly": true });
    let claim = json!({ "namespace": site.namespace, "name": "shared" });
    let spec = json!({ "accessModes": ["ReadOnlyMany"], "capacity": { "storage": "1Mi" }, "csi": csi,
        "claimRef": claim, "persistentVolumeReclaimPolicy": "Retain" });
    Ok(serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec }))?)
}
