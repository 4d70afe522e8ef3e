//! What changes while a call waits to be sent.

use std::time::Duration;

use csi_proto::csi::v1::controller_service_capability::rpc::Type as ControllerRpc;
use fake_apiserver::{Matcher, Reaction};
use fake_driver::Rpc;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::json;

use super::objects::{claim, class, secret, volume, with};
use super::scene::{Scene, flags};

/// The administrator keeps a volume while the call that would delete it waits for the driver.
#[tokio::test(start_paused = true)]
async fn a_volume_set_to_retain_while_its_deletion_waits_for_the_driver_is_kept() {
    let scene = Scene::start().await;
    scene.driver.stop().await;
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    scene.pass(Duration::from_secs(2)).await;
    let policy = json!({ "spec": { "persistentVolumeReclaimPolicy": "Retain" } });
    scene.api.merge::<PersistentVolume>(None, "pv", &policy);
    scene.pass(Duration::from_secs(3)).await;
    scene.driver.start_again().await;
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0, "the volume is to be kept, and the cache says so");
}

/// The same while the Secret is being read.
#[tokio::test(start_paused = true)]
async fn a_volume_set_to_retain_while_its_secret_is_read_is_kept() {
    let scene = Scene::start().await;
    let named = json!({ "metadata": { "annotations": {
        "volume.kubernetes.io/provisioner-deletion-secret-name": "key",
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": "shop" } } });
    scene.add_secret(secret("shop", "key", "password", "c2VzYW1l"));
    scene.api.react(Matcher::of("get", "secrets").once(), Reaction::DelayAnswer(Duration::from_secs(20)));
    scene.add_volume(with(volume("pv", "h", "Released", "Delete"), &named));
    scene.pass(Duration::from_secs(2)).await;
    let policy = json!({ "spec": { "persistentVolumeReclaimPolicy": "Retain" } });
    scene.api.merge::<PersistentVolume>(None, "pv", &policy);
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
}

/// An attachment that appears while the call waits for the driver.
#[tokio::test(start_paused = true)]
async fn a_volume_attached_while_its_deletion_waits_for_the_driver_is_not_deleted() {
    let scene = Scene::with(flags(), |driver| {
        driver.controller_capabilities.push(ControllerRpc::PublishUnpublishVolume);
    })
    .await;
    scene.driver.stop().await;
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    scene.pass(Duration::from_secs(2)).await;
    scene.add_attachment("a1", "pv");
    scene.pass(Duration::from_secs(3)).await;
    scene.driver.start_again().await;
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
}

/// Nothing of a first call has been sent: the claim's end must end it.
#[tokio::test(start_paused = true)]
async fn a_claim_deleted_while_its_first_call_waits_for_the_driver_is_not_provisioned() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.stop().await;
    scene.add_claim(claim("data", "fast"));
    scene.pass(Duration::from_secs(2)).await;
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    scene.pass(Duration::from_secs(3)).await;
    scene.driver.start_again().await;
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
}
