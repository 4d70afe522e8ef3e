//! Volumes are made where their pods can reach them, and a claim whose node cannot have its volume goes back to the scheduler.

use anyhow::Result;
use e2e::eventually;
use e2e::scene::{PATIENCE, Scene};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::CSINode;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const SELECTED: &str = "volume.kubernetes.io/selected-node";

/// A node of the cluster without a kubelet, with the driver registered there.
async fn add_node(scene: &Scene, name: &str, key: &str, zone: &str) -> Result<()> {
    let nodes: Api<Node> = Api::all(scene.client.clone());
    let node = json!({ "metadata": { "name": name, "labels": { key: zone } } });
    nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
    let csi_nodes: Api<CSINode> = Api::all(scene.client.clone());
    let driver = json!({ "name": scene.driver.name(), "nodeID": name, "topologyKeys": [key] });
    let csi_node = json!({ "metadata": { "name": name }, "spec": { "drivers": [driver] } });
    csi_nodes.create(&PostParams::default(), &serde_json::from_value(csi_node)?).await?;
    Ok(())
}

async fn remove_node(scene: &Scene, name: &str) {
    let _ = Api::<CSINode>::all(scene.client.clone()).delete(name, &DeleteParams::default()).await;
    let _ = Api::<Node>::all(scene.client.clone()).delete(name, &DeleteParams::default()).await;
}

/// As the scheduler does.
async fn select(scene: &Scene, claim: &str, node: &str) -> Result<()> {
    let patch = json!({ "metadata": { "annotations": { SELECTED: node } } });
    scene.claims().patch(claim, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

fn selected(claim: &PersistentVolumeClaim) -> Option<&String> {
    claim.metadata.annotations.as_ref().and_then(|annotations| annotations.get(SELECTED))
}

async fn handed_back(scene: &Scene, claim: &str) -> Result<()> {
    let claims = scene.claims();
    let back =
        eventually::object(&claims, claim, "the claim to be handed back", PATIENCE, |claim| selected(claim).is_none());
    back.await.map(drop)
}

fn late() -> Value {
    json!({ "volumeBindingMode": "WaitForFirstConsumer" })
}

#[tokio::test]
async fn a_claim_gets_a_volume_where_its_node_is() -> Result<()> {
    let key = "placed.outrigger.dev/zone";
    let scene = Scene::start("placed", &[&format!("--topology={key}=z2")]).await?;
    scene.add_class(&late()).await?;
    add_node(&scene, "placed-1", key, "z1").await?;
    add_node(&scene, "placed-2", key, "z2").await?;
    let _provisioner = scene.leader().await?;
    scene.claim("data", &json!({})).await?;
    select(&scene, "data", "placed-2").await?;
    let volume = scene.volumes().get(&scene.bound("data").await?).await?;

    let affinity = serde_json::to_value(volume.spec.expect("a volume has a spec").node_affinity)?;
    let term = json!({ "matchExpressions": [{ "key": key, "operator": "In", "values": ["z2"] }] });
    assert_eq!(affinity, json!({ "required": { "nodeSelectorTerms": [term] } }));
    let request = scene.driver.calls("CreateVolume")?.remove(0).request.to_string();
    assert!(request.contains("z1") && request.contains("z2"), "both places are offered: {request}");
    scene.delete_claim("data").await?;
    remove_node(&scene, "placed-1").await;
    remove_node(&scene, "placed-2").await;
    Ok(())
}

/// With the rights of upstream's deployment files: the annotation is taken off by an update, since there is no patch.
#[tokio::test]
async fn a25_a26_a_claim_for_a_node_that_cannot_have_it_goes_back_to_the_scheduler() -> Result<()> {
    let key = "back.outrigger.dev/zone";
    let full = "--fault=CreateVolume:code=RESOURCE_EXHAUSTED,times=1";
    let scene = Scene::start("back", &[&format!("--topology={key}=z1"), full]).await?;
    scene.add_class(&late()).await?;
    add_node(&scene, "back-1", key, "z1").await?;
    let _provisioner = scene.leader().await?;
    scene.claim("data", &json!({})).await?;

    select(&scene, "data", "nowhere").await?;
    handed_back(&scene, "data").await?;
    scene.event("ProvisioningFailed", "node \"nowhere\" was selected for the claim and has no CSINode object").await?;
    assert_eq!(scene.codes("CreateVolume")?, Vec::<String>::new());

    select(&scene, "data", "back-1").await?;
    handed_back(&scene, "data").await?;
    scene.event("ProvisioningFailed", "rpc error: code = ResourceExhausted").await?;

    select(&scene, "data", "back-1").await?;
    scene.bound("data").await?;
    assert_eq!(scene.codes("CreateVolume")?, ["RESOURCE_EXHAUSTED", "OK"]);
    scene.delete_claim("data").await?;
    remove_node(&scene, "back-1").await;
    Ok(())
}

/// A claim that nobody selects a node for, before the driver's first node is there.
#[tokio::test]
async fn a_claim_waits_for_the_first_node_and_is_woken_by_it() -> Result<()> {
    let key = "first.outrigger.dev/zone";
    let scene = Scene::start("first", &[&format!("--topology={key}=z1")]).await?;
    let _provisioner = scene.leader().await?;
    scene.claim("data", &json!({})).await?;
    scene.event("ProvisioningFailed", "no available topology found").await?;
    add_node(&scene, "first-1", key, "z1").await?;
    scene.bound("data").await?;
    assert_eq!(scene.codes("CreateVolume")?, ["OK"]);
    scene.delete_claim("data").await?;
    remove_node(&scene, "first-1").await;
    Ok(())
}
