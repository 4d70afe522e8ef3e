//! Volumes grow and change their class on a real node: what the resizer begins, the kubelet finishes.

use anyhow::Result;
use e2e::resize_scene::{FILE_SYSTEM_RESIZE_PENDING, allocated, capacity, has_condition, resize_status};
use e2e::scene::PATIENCE;
use e2e::{Pod, Site, eventually};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimStatus};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

/// All of a driver whose file systems are grown by the node.
const CAPABILITIES: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,PUBLISH_UNPUBLISH_VOLUME,\
    STAGE_UNSTAGE_VOLUME,EXPAND_VOLUME,NODE_EXPAND_VOLUME,MODIFY_VOLUME";
/// The smallest file system that the driver makes; and what it is to have.
const BEFORE: &str = "300Mi";
const AFTER: &str = "400Mi";

/// A site whose volumes have file systems of their own, with a claim.
async fn site(purpose: &str, flags: &[&str], fields: &Value) -> Result<Option<Site>> {
    let flags: Vec<_> = [CAPABILITIES].iter().chain(flags).copied().collect();
    let Some(mut site) = Site::start(purpose, &flags).await? else { return Ok(None) };
    site.start_resizer().await?;
    let block = fields["volumeMode"] == "Block";
    let parameters = if block { json!({}) } else { json!({ "backing": "image" }) };
    site.add_class(&json!({ "allowVolumeExpansion": true, "parameters": parameters })).await?;
    let mut spec = json!({ "resources": { "requests": { "storage": BEFORE } } });
    for (key, value) in fields.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    site.claim("data", &spec).await?;
    site.bound("data").await?;
    Ok(Some(site))
}

async fn ask(site: &Site, spec: &Value) -> Result<()> {
    site.claims().patch("data", &PatchParams::default(), &Patch::Merge(json!({ "spec": spec }))).await?;
    Ok(())
}

async fn ask_size(site: &Site, size: &str) -> Result<()> {
    ask(site, &json!({ "resources": { "requests": { "storage": size } } })).await
}

async fn status(
    site: &Site,
    what: &str,
    condition: impl Fn(&PersistentVolumeClaimStatus) -> bool,
) -> Result<PersistentVolumeClaim> {
    let is = |claim: &PersistentVolumeClaim| claim.status.as_ref().is_some_and(&condition);
    eventually::object(&site.claims(), "data", what, PATIENCE * 2, is).await
}

/// Waits until the claim says that all is done, also by the node.
async fn has(site: &Site, size: &str) -> Result<()> {
    let done = |status: &PersistentVolumeClaimStatus| {
        let conditions = status.conditions.as_ref().is_none_or(Vec::is_empty);
        capacity(status) == Some(size) && resize_status(status).is_none() && conditions
    };
    status(site, "grown", done).await?;
    Ok(())
}

/// The same under a running pod. Its kubelet looks at the volumes of a pod when the pod changes, and else about once a minute.
async fn has_under(site: &Site, pod: &str, size: &str) -> Result<()> {
    let waits = |status: &PersistentVolumeClaimStatus| {
        has_condition(status, FILE_SYSTEM_RESIZE_PENDING) || capacity(status) == Some(size)
    };
    status(site, "grown by the driver", waits).await?;
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(site.client.clone(), &site.namespace);
    let change = Patch::Merge(json!({ "metadata": { "annotations": { "outrigger.dev/looked-at": "again" } } }));
    pods.patch(pod, &PatchParams::default(), &change).await?;
    has(site, size).await
}

async fn gone(site: &Site) -> Result<()> {
    let volume = site.bound("data").await?;
    site.detached(&volume, PATIENCE).await?;
    site.unmounted().await?;
    site.delete_claim("data").await?;
    site.gone(&volume).await
}

#[tokio::test]
async fn a_file_system_grows_under_a_running_pod() -> Result<()> {
    let Some(site) = site("grow-online", &[], &json!({})).await? else { return Ok(()) };
    // More than the whole volume has at first: there is room when it has grown.
    let steps = ["write", "/data/file", "text", "then", "fill", "/data/more", "300", "then", "read", "/data/file"];
    let steps: Vec<_> = steps.into_iter().chain(["then", "pause"]).collect();
    let pod = Pod::new("user").claim("data", "/data").runs(&steps);
    let pod = pod.create(&site.client, &site.namespace).await?;
    pod.running().await?;
    ask_size(&site, AFTER).await?;
    has_under(&site, "user", AFTER).await?;
    pod.told("text").await?;
    assert_eq!(site.codes("ControllerExpandVolume")?, ["OK"]);
    assert!(site.codes("NodeExpandVolume")?.iter().all(|code| code == "OK"));
    pod.delete().await?;
    gone(&site).await
}

/// No pod has it: the claim says that the node is waited for, and the next pod finds all of it.
#[tokio::test]
async fn a_file_system_that_nobody_uses_has_grown_when_its_next_pod_starts() -> Result<()> {
    let Some(site) = site("grow-offline", &[], &json!({})).await? else { return Ok(()) };
    let writer = Pod::new("writer").claim("data", "/data").runs(&["write", "/data/file", "text"]);
    let writer = writer.create(&site.client, &site.namespace).await?;
    writer.succeeded().await?;
    writer.delete().await?;
    let volume = site.bound("data").await?;
    site.detached(&volume, PATIENCE).await?;
    ask_size(&site, AFTER).await?;
    let waits = |status: &PersistentVolumeClaimStatus| has_condition(status, FILE_SYSTEM_RESIZE_PENDING);
    let claim = status(&site, "waiting for the node", waits).await?;
    assert_eq!(claim.status.as_ref().and_then(capacity), Some(BEFORE));
    let steps = ["fill", "/data/more", "300", "then", "read", "/data/file"];
    let reader = Pod::new("reader").claim("data", "/data").runs(&steps);
    let reader = reader.create(&site.client, &site.namespace).await?;
    assert_eq!(reader.succeeded().await?, "text");
    has(&site, AFTER).await?;
    reader.delete().await?;
    assert_eq!(site.codes("ControllerExpandVolume")?, ["OK"]);
    gone(&site).await
}

#[tokio::test]
async fn a_block_device_grows_under_a_running_pod() -> Result<()> {
    let block = json!({ "volumeMode": "Block" });
    let Some(site) = site("grow-block", &[], &block).await? else { return Ok(()) };
    let user = Pod::new("user").block("data", "/dev/data").create(&site.client, &site.namespace).await?;
    user.running().await?;
    ask_size(&site, AFTER).await?;
    has_under(&site, "user", AFTER).await?;
    let reader = Pod::new("reader").block("data", "/dev/data").runs(&["size", "/dev/data"]);
    let reader = reader.create(&site.client, &site.namespace).await?;
    assert_eq!(reader.succeeded().await?, (400 << 20).to_string());
    reader.delete().await?;
    user.delete().await?;
    gone(&site).await
}

/// A size that the driver refuses may be lowered while a pod runs; the smaller one is had.
#[tokio::test]
async fn g1_a_refused_size_is_lowered_under_a_running_pod() -> Result<()> {
    let limit = format!("--max-volume-size={}", 500 << 20);
    let Some(site) = site("grow-refused", &[&limit], &json!({})).await? else { return Ok(()) };
    let user = Pod::new("user").claim("data", "/data").runs(&["fill", "/data/more", "300", "then", "pause"]);
    let user = user.create(&site.client, &site.namespace).await?;
    user.running().await?;
    ask_size(&site, "1Gi").await?;
    let refused = |status: &PersistentVolumeClaimStatus| resize_status(status) == Some("ControllerResizeInfeasible");
    status(&site, "refused", refused).await?;
    ask_size(&site, AFTER).await?;
    has_under(&site, "user", AFTER).await?;
    let claim = site.claims().get("data").await?;
    assert_eq!(claim.status.as_ref().and_then(allocated), Some(AFTER), "no more than it has is counted");
    user.delete().await?;
    gone(&site).await
}

#[tokio::test]
async fn a_volume_changes_its_class_under_a_running_pod() -> Result<()> {
    let Some(site) = site("change-class", &[], &json!({})).await? else { return Ok(()) };
    let name = format!("gold-{}", site.class);
    site.cluster()
        .create(&json!({ "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
            "metadata": { "name": name }, "driverName": site.driver.name(), "parameters": { "iops": "700" } }))
        .await?;
    let user = Pod::new("user").claim("data", "/data").create(&site.client, &site.namespace).await?;
    user.running().await?;
    ask(&site, &json!({ "volumeAttributesClassName": name })).await?;
    let done = |status: &PersistentVolumeClaimStatus| {
        let current = status.current_volume_attributes_class_name.as_ref();
        status.modify_volume_status.is_none() && current == Some(&name)
    };
    status(&site, "of its class", done).await?;
    let calls = site.driver.calls("ControllerModifyVolume")?;
    let asked: Vec<_> = calls.iter().map(|call| (&*call.code, call.request["mutable_parameters"].clone())).collect();
    assert_eq!(asked, [("OK", json!({ "iops": "700" }))]);
    user.delete().await?;
    gone(&site).await
}
