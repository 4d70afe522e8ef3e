//! What is asked for and not built: one clear Warning, and nothing is created.

use std::time::Duration;

use csi_proto::csi::v1::plugin_capability::service::Type as PluginService;
use fake_driver::{Identity, Rpc};
use serde_json::{Value, json};

use super::objects::{claim, class, with};
use super::scene::{Scene, flags};
use crate::settings::ProvisioningFlags;

/// The claim, a change of it, and what the one event must say.
async fn refused(change: Value, identity: impl FnOnce(&mut Identity), expected: &str) {
    let scene = Scene::with(flags(), identity).await;
    let ours = json!({ "provisioner": scene.driver_name() });
    scene.add_class(with(class("fast", json!({})), &ours));
    scene.add_claim(with(claim("data", "fast"), &change));
    let text = scene.event("ProvisioningFailed").await;
    assert!(text.contains(expected) && text.contains("not supported by this csi-provisioner yet"), "{text}");
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.events("ProvisioningFailed").len(), 1);
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
    assert!(scene.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_migrated_claim() {
    let migrated = json!({ "metadata": { "annotations": {
        "volume.kubernetes.io/storage-provisioner": "kubernetes.io/aws-ebs",
        "volume.beta.kubernetes.io/storage-provisioner": "kubernetes.io/aws-ebs",
        "pv.kubernetes.io/migrated-to": "ebs.csi.aws.com" } } });
    refused(migrated, |driver| driver.name = "ebs.csi.aws.com".to_owned(), "in-tree plugin").await;
}

#[tokio::test(start_paused = true)]
async fn a_foreign_source_is_left_to_its_populator() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    let source =
        json!({ "spec": { "dataSourceRef": { "apiGroup": "example.com", "kind": "MyPopulator", "name": "p" } } });
    scene.add_claim(with(claim("data", "fast"), &source));
    assert!(scene.event("Provisioning").await.contains("external populator"));
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.events("Provisioning").len(), 1, "told once, not at every look");
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
    assert!(scene.events("ProvisioningFailed").is_empty());
}

#[tokio::test(start_paused = true)]
async fn with_the_gates_off_topology_and_attributes_classes_are_ignored() {
    let off = ProvisioningFlags { topology_gate: false, attributes_class_gate: false, ..flags() };
    let scene =
        Scene::with(off, |driver| driver.plugin_capabilities.push(PluginService::VolumeAccessibilityConstraints)).await;
    scene.add_class(class("fast", json!({})));
    let uid = scene.add_claim(with(claim("data", "fast"), &json!({ "spec": { "volumeAttributesClassName": "gold" } })));
    let volume = scene.volume(&format!("pvc-{uid}")).await;
    assert!(volume["spec"]["nodeAffinity"].is_null());
    assert!(volume["spec"]["volumeAttributesClassName"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_driver_without_dynamic_provisioning_is_named() {
    let scene = Scene::with(flags(), |driver| driver.controller_capabilities.clear()).await;
    scene.add_class(class("fast", json!({})));
    scene.add_claim(claim("data", "fast"));
    assert!(scene.event("ProvisioningFailed").await.contains("CREATE_DELETE_VOLUME"));
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
}
