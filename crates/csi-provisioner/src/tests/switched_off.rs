//! What a provisioner does not do: features that are switched off, drivers that cannot, sources that are others' work.

use std::time::Duration;

use csi_proto::csi::v1::plugin_capability::service::Type as PluginService;
use fake_driver::Rpc;
use serde_json::json;

use super::objects::{claim, class, with};
use super::scene::{Scene, flags};
use crate::settings::ProvisioningFlags;

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
