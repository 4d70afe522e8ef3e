//! What other terms and other hands have left in the API.

use std::time::Duration;

use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::Rpc;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;

use super::objects::{claim, class, volume, with};
use super::scene::Scene;

/// As after a change of leaders: the volume is there before this term has seen the claim.
#[tokio::test(start_paused = true)]
async fn a_volume_of_an_earlier_term_that_vanishes_is_made_again_at_once() {
    let scene = Scene::start().await;
    scene.add_class(with(class("late", json!({})), &json!({ "volumeBindingMode": "WaitForFirstConsumer" })));
    let uid = scene.add_claim(claim("data", "late"));
    let name = format!("pvc-{uid}");
    let made = json!({ "metadata": { "name": name }, "spec": { "claimRef": { "name": "data", "uid": uid } } });
    scene.add_volume(with(volume(&name, "h", "Available", "Delete"), &made));
    let node = json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": "n1" } } });
    scene.api.merge::<PersistentVolumeClaim>("shop", "data", &node);
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
    let before = tokio::time::Instant::now();
    scene.api.remove::<PersistentVolume>(None, &name);
    scene.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    assert!(before.elapsed() < Duration::from_mins(1), "after {:?}", before.elapsed());
}

/// Not only by the next resync, which is a quarter of an hour away.
#[tokio::test(start_paused = true)]
async fn a_volume_that_vanishes_before_its_claim_is_bound_is_made_again_at_once() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    let uid = scene.add_claim(claim("data", "fast"));
    let name = format!("pvc-{uid}");
    scene.volume(&name).await;
    scene.pass(Duration::from_secs(1)).await;
    scene.api.remove::<PersistentVolume>(None, &name);
    // Waits for a minute at most.
    scene.driver.wait_for_calls(Rpc::CreateVolume, 2).await;
}

/// A claim that is left alone because its volume's name is taken says so.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_volume_name_is_another_claims_is_told() {
    let scene = Scene::start().await;
    scene.add_class(with(class("late", json!({})), &json!({ "volumeBindingMode": "WaitForFirstConsumer" })));
    let uid = scene.add_claim(claim("data", "late"));
    scene.add_volume(volume(&format!("pvc-{uid}"), "h", "Bound", "Delete"));
    let node = json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": "n1" } } });
    scene.api.merge::<PersistentVolumeClaim>("shop", "data", &node);
    scene.pass(Duration::from_mins(50)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
    assert!(!scene.events("ProvisioningFailed").is_empty(), "it waits for ever without a visible reason");
    // What the event asks for ends the wait.
    let name = format!("pvc-{uid}");
    scene.api.remove::<PersistentVolume>(None, &name);
    let before = tokio::time::Instant::now();
    scene.volume(&name).await;
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_term_lists_everything_once() {
    let scene = Scene::configured(
        |_| (),
        |_| (),
        |api| {
            api.create_json::<StorageClass>(class("fast", json!({})));
            api.create_json::<PersistentVolumeClaim>(claim("data", "fast"));
        },
    )
    .await;
    scene.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    scene.pass(Duration::from_mins(1)).await;
    for resource in ["persistentvolumes", "persistentvolumeclaims", "storageclasses"] {
        assert_eq!(scene.api.requests_of(&Matcher::of("list", resource)).len(), 1, "{resource}");
    }
}

/// Another process may have worked until just now.
#[tokio::test(start_paused = true)]
async fn nothing_is_done_before_everything_is_listed() {
    let scene = Scene::configured(
        |_| (),
        |_| (),
        |api| {
            api.react(
                Matcher::of("list", "persistentvolumes"),
                Reaction::Refuse(Status::internal_error("etcd is busy")),
            );
        },
    )
    .await;
    scene.add_class(class("fast", json!({})));
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.pass(Duration::from_mins(30)).await;
    assert_eq!((scene.count(Rpc::CreateVolume), scene.count(Rpc::DeleteVolume)), (0, 0));
    scene.api.clear_reactions();
    scene.volume(&format!("pvc-{uid}")).await;
}
