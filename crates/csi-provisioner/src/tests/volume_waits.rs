//! Volumes that are deleted too early, or given up: they go where they can, and else say what they wait for.

use std::time::Duration;

use fake_driver::Rpc;
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};

use super::node_deployment::node;
use super::objects::{claim, class, volume, with};
use super::scene::Scene;

/// A volume whose only finalizer left is ours, as the protection controller leaves what no claim uses.
fn own_finalizer(volume: Value) -> Value {
    with(volume, &json!({ "metadata": { "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"] } }))
}

/// How often it was told, in events that may each count several.
fn told(scene: &Scene, reason: &str, about: &str) -> i32 {
    let events = scene.api.list::<Event>();
    let of = events.iter().filter(|event| event.reason.as_deref() == Some(reason));
    of.filter(|event| event.involved_object.kind.as_deref() == Some(about)).filter_map(|event| event.count).sum()
}

#[tokio::test(start_paused = true)]
async fn l3_a_deleted_volume_that_nobody_can_use_any_more_is_reclaimed() {
    let cases = [
        ("failed", volume("pv", "h", "Failed", "Delete")),
        ("available", with(volume("pv", "h", "Available", "Delete"), &json!({ "spec": { "claimRef": null } }))),
        ("new", with(volume("pv", "h", "Pending", "Delete"), &json!({ "spec": { "claimRef": null } }))),
    ];
    assert_eq!(cases.len(), 3);
    for (case, object) in cases {
        let scene = Scene::start().await;
        scene.add_volume(own_finalizer(object));
        scene.pass(Duration::from_mins(20)).await;
        assert_eq!(scene.count(Rpc::DeleteVolume), 0, "{case}: it is not deleted yet");
        scene.api.delete::<PersistentVolume>(None, "pv");
        scene.volume_gone("pv").await;
        scene.pass(Duration::from_mins(20)).await;
        assert_eq!(scene.count(Rpc::DeleteVolume), 1, "{case}");
        assert!(scene.driver.volumes().is_empty());
    }
}

/// Somebody removed `spec.claimRef` from a deleted volume in use: it is Available until its claim is bound to it again.
#[tokio::test(start_paused = true)]
async fn l3_an_available_volume_that_a_bound_claim_names_is_not_deleted_at_the_driver() {
    let scene = Scene::start().await;
    let bound = json!({ "spec": { "volumeName": "pv" }, "status": { "phase": "Bound" } });
    scene.add_claim(with(claim("data", "fast"), &bound));
    let available = with(volume("pv", "h", "Available", "Delete"), &json!({ "spec": { "claimRef": null } }));
    scene.add_volume(own_finalizer(available));
    scene.api.delete::<PersistentVolume>(None, "pv");
    let text = scene.event("VolumeFailedDelete").await;
    assert!(text.contains("pv is named by claim shop/data"), "{text}");
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
    scene.api.remove::<PersistentVolumeClaim>(Some("shop"), "data");
    scene.volume_gone("pv").await;
}

#[tokio::test(start_paused = true)]
async fn l3_a_volume_that_is_not_reclaimed_says_why_as_long_as_that_lasts() {
    let bare = json!({ "metadata": { "finalizers": ["kubernetes.io/pv-protection"] } });
    let reserved = json!({ "spec": { "claimRef": { "uid": null } } });
    let cases = [
        ("Bound", json!({}), true, "VolumeDelete", "goes when claim shop/gone is deleted too"),
        ("Bound", bare.clone(), true, "VolumeDelete", "is not asked to delete volume h"),
        ("Released", bare.clone(), true, "VolumeDelete", "is not asked to delete volume h"),
        ("Failed", json!({}), false, "VolumeFailedDelete", "Delete the persistentvolume to have it deleted"),
        ("Failed", bare, false, "VolumeFailedDelete", "stays at the CSI driver when the persistentvolume is deleted"),
        ("Available", reserved, true, "VolumeFailedDelete", "remove spec.claimRef"),
        ("Available", json!({}), true, "VolumeFailedDelete", "delete the claim"),
        ("Unheard", json!({}), true, "VolumeFailedDelete", "unknown to this release"),
    ];
    assert_eq!(cases.len(), 8);
    for (phase, change, deleted, reason, text) in cases {
        let scene = Scene::start().await;
        // A released one is kept until it is deleted.
        let policy = if phase == "Released" { "Retain" } else { "Delete" };
        scene.add_volume(with(volume("pv", "h", phase, policy), &change));
        if deleted {
            scene.api.delete::<PersistentVolume>(None, "pv");
        }
        if phase == "Released" {
            let policy = json!({ "spec": { "persistentVolumeReclaimPolicy": "Delete" } });
            scene.api.merge::<PersistentVolume>(None, "pv", &policy);
        }
        let said = scene.event(reason).await;
        assert!(said.contains(text) && said.contains("persistentvolume pv"), "{phase}: {said}");
        let before = told(&scene, reason, "PersistentVolume");
        scene.pass(Duration::from_hours(1)).await;
        assert!(told(&scene, reason, "PersistentVolume") >= before + 3, "{phase}: an event is kept for an hour");
        assert_eq!(scene.count(Rpc::DeleteVolume), 0, "{phase}");
    }
}

/// The object outlives our finalizer for a moment, or for as long as the finalizers of others are on it.
#[tokio::test(start_paused = true)]
async fn l3_a_volume_that_was_reclaimed_is_not_told_to_be_kept() {
    let scene = Scene::start().await;
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, 1).await;
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.volume("pv").await["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
    assert!(scene.api.list::<Event>().is_empty());
}

#[tokio::test(start_paused = true)]
async fn l4_a_claim_whose_volume_is_deleted_before_it_is_bound_is_told_and_both_end() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    let uid = scene.add_claim(claim("data", "fast"));
    let name = format!("pvc-{uid}");
    scene.volume(&name).await;
    scene.api.delete::<PersistentVolume>(None, &name);
    let text = scene.event("ProvisioningFailed").await;
    assert!(text.contains(&name) && text.contains("delete the claim"), "{text}");
    assert!(scene.event("VolumeFailedDelete").await.contains("shop/data"));
    let before = told(&scene, "ProvisioningFailed", "PersistentVolumeClaim");
    scene.pass(Duration::from_hours(1)).await;
    assert!(told(&scene, "ProvisioningFailed", "PersistentVolumeClaim") >= before + 3);
    assert_eq!(scene.count(Rpc::DeleteVolume), 0, "the claim is still there");
    assert_eq!(scene.count(Rpc::CreateVolume), 1);

    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    scene.release(&name);
    scene.volume_gone(&name).await;
    scene.pass(Duration::from_mins(20)).await;
    assert!(scene.driver.volumes().is_empty());
    assert_eq!(scene.count(Rpc::CreateVolume), 1);
}

/// The claim has another volume, or is gone and kube-controller-manager has not seen that yet.
#[tokio::test(start_paused = true)]
async fn l4_only_a_claim_that_waits_is_told() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    let uid = scene.add_claim(claim("data", "fast"));
    let name = format!("pvc-{uid}");
    scene.volume(&name).await;
    scene.bind("data", &name);
    scene.pass(Duration::from_secs(1)).await;
    scene.api.delete::<PersistentVolume>(None, &name);
    scene.event("VolumeFailedDelete").await;
    scene.pass(Duration::from_mins(20)).await;
    assert!(scene.events("ProvisioningFailed").is_empty());
}

#[tokio::test(start_paused = true)]
async fn l4_with_node_deployment_the_provisioner_of_the_selected_node_tells_the_claim() {
    for (selected, tells) in [("foo", true), ("bar", false)] {
        let scene = Scene::configured(|settings| settings.node = Some(node("foo")), |_| (), |_| ()).await;
        let chosen = json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": selected } } });
        let uid = scene.add_claim(with(claim("data", "fast"), &chosen));
        let name = format!("pvc-{uid}");
        let reference = json!({ "spec": { "claimRef": { "name": "data", "uid": uid } } });
        scene.add_volume(with(volume(&name, "h", "Pending", "Delete"), &reference));
        scene.api.delete::<PersistentVolume>(None, &name);
        scene.event("VolumeFailedDelete").await;
        scene.pass(Duration::from_mins(20)).await;
        let about_the_volume = scene.events("ProvisioningFailed").iter().any(|text| text.contains("being deleted"));
        assert_eq!(about_the_volume, tells, "{selected}");
    }
}
