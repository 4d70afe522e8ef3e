//! What the metrics count: the rows of the provisioning library's main table.

use std::time::Duration;

use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::{Value, json};
use tonic::Code;

use super::objects::{claim, class, volume, with};
use super::scene::{Scene, flags};
use crate::settings::ProvisioningFlags;

/// The value of a series, 0 while there is none.
pub(super) fn counted(scene: &Scene, family: &str, labels: &str) -> u64 {
    let text = prometheus::TextEncoder::new().encode_to_string(&scene.registry.gather()).unwrap();
    let series = format!("{family}{{{labels}}} ");
    text.lines().find_map(|line| line.strip_prefix(&series)).map_or(0, |value| value.parse().unwrap())
}

fn provisioned(scene: &Scene, class: &str, source: &str) -> [u64; 3] {
    let labels = format!("class=\"{class}\",source=\"{source}\"");
    ["provision_total", "provision_failed_total", "provision_duration_seconds_count"]
        .map(|name| counted(scene, &format!("controller_persistentvolumeclaim_{name}"), &labels))
}

fn deleted(scene: &Scene, class: &str) -> [u64; 3] {
    ["delete_total", "delete_failed_total", "delete_duration_seconds_count"]
        .map(|name| counted(scene, &format!("controller_persistentvolume_{name}"), &format!("class=\"{class}\"")))
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_left_alone_counts_as_failed_once() {
    let foreign = || with(class("fast", json!({})), &json!({ "provisioner": "other" }));
    let ours = || class("fast", json!({}));
    let source =
        |kind: &str| json!({ "spec": { "dataSource": { "apiGroup": "example.com", "kind": kind, "name": "p" } } });
    let cases = [
        ("class of another provisioner", foreign(), json!({}), ""),
        ("populator", ours(), source("MyPopulator"), "MyPopulator"),
    ];
    assert_eq!(cases.len(), 2);
    for (case, class, change, source) in cases {
        let scene = Scene::start().await;
        scene.add_class(class);
        scene.pass(Duration::from_secs(1)).await;
        scene.add_claim(with(claim("data", "fast"), &change));
        scene.pass(Duration::from_mins(10)).await;
        assert_eq!(provisioned(&scene, "fast", source), [0, 1, 0], "{case}");
        assert_eq!(scene.count(Rpc::CreateVolume), 0, "{case}");
        assert!(scene.writes().is_empty(), "{case}");
    }
}

/// Two claims, of which one is for another provisioner.
#[tokio::test(start_paused = true)]
async fn a_claim_of_another_provisioner_counts_as_nothing() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    let foreign = json!({ "metadata": { "annotations": {
        "volume.kubernetes.io/storage-provisioner": "other", "volume.beta.kubernetes.io/storage-provisioner": "other" } } });
    scene.add_claim(with(claim("foreign", "fast"), &foreign));
    let uid = scene.add_claim(claim("ours", "fast"));
    scene.volume(&format!("pvc-{uid}")).await;
    scene.pass(Duration::from_mins(10)).await;
    assert_eq!(scene.api.list::<PersistentVolume>().len(), 1);
    assert_eq!(provisioned(&scene, "fast", ""), [1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_class_is_missing_counts_each_try_as_failed() {
    let scene = Scene::start().await;
    scene.add_claim(claim("data", "fast"));
    scene.pass(Duration::from_millis(500)).await;
    assert_eq!(provisioned(&scene, "fast", ""), [0, 1, 0]);
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(provisioned(&scene, "fast", ""), [0, 2, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_volume_exists_under_either_name_is_not_provisioned() {
    for prefix in ["pvc", "vol"] {
        let scene = Scene::with(ProvisioningFlags { volume_name_prefix: "vol".to_owned(), ..flags() }, |_| ()).await;
        scene.add_class(class("fast", json!({})));
        scene.driver.script(Rpc::CreateVolume, Step::fail(Code::Internal, "no"));
        let uid = scene.add_claim(claim("data", "fast"));
        scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
        let ours = json!({ "spec": { "claimRef": { "uid": uid } } });
        scene.add_volume(with(volume(&format!("{prefix}-{uid}"), "h", "Bound", "Delete"), &ours));
        scene.pass(Duration::from_mins(10)).await;
        assert_eq!(scene.count(Rpc::CreateVolume), 1, "{prefix}");
        assert_eq!(provisioned(&scene, "fast", ""), [0, 2, 0], "the failed try, and the one that was not made");
        assert_eq!(scene.events("ProvisioningFailed").len(), 1, "{prefix}: no event for that");
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_whose_object_is_saved_late_counts_as_provisioned() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    let refused = Reaction::Refuse(Status::internal_error("etcd is busy"));
    scene.api.react(Matcher::of("create", "persistentvolumes").times(2), refused);
    let uid = scene.add_claim(claim("data", "fast"));
    scene.volume(&format!("pvc-{uid}")).await;
    assert_eq!(provisioned(&scene, "fast", ""), [1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn reclaims_are_counted_by_class() {
    let scene = Scene::start().await;
    let no_class = json!({ "spec": { "storageClassName": null } });
    let foreign = json!({ "metadata": { "annotations": { "pv.kubernetes.io/provisioned-by": "other" } } });
    scene.driver.script(Rpc::DeleteVolume, Step::fail(Code::Internal, "no"));
    scene.add_volume(with(volume("ours", "h1", "Released", "Delete"), &no_class));
    scene.add_volume(with(with(volume("foreign", "h2", "Released", "Delete"), &no_class), &foreign));
    scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, 1).await;
    scene.pass(Duration::from_millis(10)).await;
    assert_eq!(deleted(&scene, ""), [0, 1, 0], "failed at the driver");
    assert!(scene.api.get_json::<PersistentVolume>(None, "ours").is_some(), "the object is kept");

    let busy = || Reaction::Refuse(Status::internal_error("busy"));
    scene.api.react(Matcher::of("delete", "persistentvolumes").once(), busy());
    scene.api.react(Matcher::of("patch", "persistentvolumes").once(), busy());
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(
        deleted(&scene, ""),
        [1, 3, 1],
        "failed at the API server too, with the object and the finalizer, then done"
    );
    assert_eq!(scene.count(Rpc::DeleteVolume), 2);
    let left: Vec<Value> =
        ["ours", "foreign"].iter().filter_map(|name| scene.api.get_json::<PersistentVolume>(None, name)).collect();
    let kept = |object: &Value| object["metadata"]["deletionTimestamp"].is_null();
    assert_eq!(left.iter().filter(|object| kept(object)).count(), 1, "the foreign one is not touched");
}

/// The label says what the field says; the annotation decides what the class is.
#[tokio::test(start_paused = true)]
async fn l15_reclaims_are_counted_by_the_class_in_the_spec() {
    let scene = Scene::start().await;
    let beta = json!({ "metadata": { "annotations": { "volume.beta.kubernetes.io/storage-class": "slow" } } });
    scene.driver.script(Rpc::DeleteVolume, Step::fail(Code::Internal, "no"));
    scene.add_volume(with(volume("pv", "h", "Released", "Delete"), &beta));
    scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, 2).await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(deleted(&scene, "fast"), [1, 1, 1]);
    assert_eq!(deleted(&scene, "slow"), [0, 0, 0]);
}
