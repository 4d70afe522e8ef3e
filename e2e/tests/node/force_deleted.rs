//! Objects are taken away by force while a volume is attached and mounted.

use anyhow::{Context as _, Result};
use e2e::pod::Created;
use e2e::scene::PATIENCE;
use e2e::site::{CAPABILITIES, NODE};
use e2e::{Pod, Site, eventually};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

/// Steps of a pod that stays until it is deleted.
const WRITES: [&str; 5] = ["write", "/data/file", "text", "then", "pause"];

/// A pod that has written to its claim, and the claim's volume.
async fn writer(site: &Site) -> Result<(Created, String)> {
    site.claim("data", &json!({})).await?;
    let writer = Pod::new("writer").claim("data", "/data").runs(&WRITES);
    let writer = writer.create(&site.client, &site.namespace).await?;
    writer.running().await?;
    Ok((writer, site.bound("data").await?))
}

async fn read_by_another(site: &Site) -> Result<()> {
    let reader = Pod::new("reader").claim("data", "/data").runs(&["read", "/data/file"]);
    let reader = reader.create(&site.client, &site.namespace).await?;
    assert_eq!(reader.succeeded().await?, "text");
    reader.delete().await
}

/// The driver was asked once to publish and once to unpublish, at the same node, and the latter when the volume was not used
/// there any more.
fn detached_once(site: &Site) -> Result<()> {
    assert_eq!(site.codes("ControllerPublishVolume")?, ["OK"]);
    assert_eq!(site.codes("ControllerUnpublishVolume")?, ["OK"]);
    let unpublished = site.driver.calls("ControllerUnpublishVolume")?;
    assert_eq!(unpublished[0].request["node_id"], NODE);
    let unstaged = site.driver.calls("NodeUnstageVolume")?.pop().context("it was unstaged")?;
    assert!(unpublished[0].started() >= unstaged.ended(), "detached while in use");
    Ok(())
}

#[tokio::test]
async fn a_pod_deleted_by_force_lets_go_of_its_volume() -> Result<()> {
    let Some(site) = Site::start("forced", &[]).await? else { return Ok(()) };
    let (writer, volume) = writer(&site).await?;
    assert!(!site.volume_mounts()?.is_empty());
    writer.force_delete().await?;
    site.detached(&volume, PATIENCE).await?;
    site.unmounted().await?;
    detached_once(&site)?;
    read_by_another(&site).await?;
    site.detached(&volume, PATIENCE).await?;
    site.delete_claim("data").await?;
    site.gone(&volume).await
}

#[tokio::test]
async fn a_pod_deleted_by_force_while_the_kubelet_is_away_keeps_its_volume_until_it_is_back() -> Result<()> {
    let Some(mut site) = Site::start_alone("forced-away", &[]).await? else { return Ok(()) };
    let (writer, volume) = writer(&site).await?;
    site.place_alone()?.node.stop_kubelet().await?;
    writer.force_delete().await?;
    writer.gone().await?;
    site.place_alone()?.node.start_kubelet().await?;
    site.detached(&volume, PATIENCE).await?;
    detached_once(&site)?;
    site.unmounted().await?;
    read_by_another(&site).await
}

/// Takes the Node away, and waits until its `CSINode`, which it owns, has gone as well.
async fn delete_node(site: &Site) -> Result<()> {
    let nodes: Api<Node> = Api::all(site.client.clone());
    nodes.delete(NODE, &DeleteParams::default()).await?;
    eventually::gone(&nodes, NODE, PATIENCE).await?;
    eventually::gone(&Api::<CSINode>::all(site.client.clone()), NODE, PATIENCE).await
}

#[tokio::test]
async fn d2_a_volume_is_detached_from_a_node_that_is_gone() -> Result<()> {
    let Some(mut site) = Site::start_alone("node-gone", &[]).await? else { return Ok(()) };
    let (writer, volume) = writer(&site).await?;
    delete_node(&site).await?;
    writer.delete().await?;
    site.unmounted().await?;
    // Nobody says any more that the volume is not in use, so Kubernetes waits for minutes. A person does not.
    delete_attachment(&site, &volume).await?;
    site.detached(&volume, PATIENCE).await?;
    detached_once(&site)?;
    assert_eq!(site.driver.published_to(&site.handle(&volume).await?)?, [""; 0]);

    let node = &mut site.place_alone()?.node;
    node.stop_kubelet().await?;
    node.start_kubelet().await?;
    site.registered().await?;
    read_by_another(&site).await
}

#[tokio::test]
async fn d2_a_node_that_comes_back_with_another_id_is_detached_by_the_id_of_the_publish() -> Result<()> {
    let Some(mut site) = Site::start_alone("node-back", &[]).await? else { return Ok(()) };
    let (writer, volume) = writer(&site).await?;
    delete_node(&site).await?;
    writer.delete().await?;
    site.unmounted().await?;
    site.stop_registrar().await?;
    let node = &mut site.place_alone()?.node;
    node.stop_kubelet().await?;
    node.start_kubelet().await?;
    // Kubernetes knows then that the volume is not in use. The node has no entry for the driver.
    site.detached(&volume, PATIENCE).await?;
    detached_once(&site)?;

    site.scene.driver.stop().await?;
    site.scene.driver.set_flags(&[CAPABILITIES, "--node-id=another"]);
    site.scene.driver.start_again().await?;
    site.start_registrar()?;
    site.registered().await?;
    read_by_another(&site).await?;
    site.detached(&volume, PATIENCE).await?;
    for rpc in ["ControllerPublishVolume", "ControllerUnpublishVolume"] {
        let calls = site.driver.calls(rpc)?;
        let nodes: Vec<_> = calls.iter().filter_map(|call| call.request["node_id"].as_str()).collect();
        assert_eq!(nodes, [NODE, "another"], "{rpc}");
    }
    Ok(())
}

#[tokio::test]
async fn d4_a_volume_whose_object_was_taken_away_is_detached() -> Result<()> {
    let Some(site) = Site::start("volume-gone", &[]).await? else { return Ok(()) };
    let (writer, volume) = writer(&site).await?;
    let handle = site.handle(&volume).await?;
    let held = site.volumes().get(&volume).await?;
    assert!(held.finalizers().iter().any(|one| one.starts_with("external-attacher/")), "{:?}", held.finalizers());
    site.volumes().delete(&volume, &DeleteParams::default()).await?;
    let without = json!({ "metadata": { "finalizers": null } });
    site.volumes().patch(&volume, &PatchParams::default(), &Patch::Merge(&without)).await?;
    eventually::gone(&site.volumes(), &volume, PATIENCE).await?;

    writer.delete().await?;
    site.unmounted().await?;
    // Kubernetes looks only once a minute for pods that are gone and whose volumes it cannot find.
    delete_attachment(&site, &volume).await?;
    site.detached(&volume, PATIENCE).await?;
    detached_once(&site)?;
    assert_eq!(site.driver.published_to(&handle)?, [""; 0]);
    Ok(())
}

/// Asks for a detach by hand. Kubernetes may have been quicker.
async fn delete_attachment(site: &Site, volume: &str) -> Result<()> {
    let attachments: Api<VolumeAttachment> = Api::all(site.client.clone());
    for attachment in site.attachments(volume).await? {
        match attachments.delete(&attachment.name_any(), &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error).context("cannot delete the attachment"),
        }
    }
    Ok(())
}
