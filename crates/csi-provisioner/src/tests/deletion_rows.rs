//! Rows of the Go provisioner's own table for the deletion of volumes.

use std::time::Duration;

use csi_proto::csi::v1::{DeleteVolumeRequest, controller_service_capability::rpc::Type as ControllerRpc};
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use serde_json::{Value, json};
use tonic::Code;

use super::objects::{DRIVER, class, secret, volume, with};
use super::scene::{Scene, flags};

async fn scene_with_attachments() -> Scene {
    Scene::with(flags(), |driver| driver.controller_capabilities.push(ControllerRpc::PublishUnpublishVolume)).await
}

fn attachment(volume: &str, change: &Value) -> Value {
    let plain = json!({
        "metadata": { "name": "a" },
        "spec": { "attacher": DRIVER, "nodeName": "n1", "source": { "persistentVolumeName": volume } },
    });
    with(plain, change)
}

#[tokio::test(start_paused = true)]
async fn a11_any_attachment_of_the_volume_holds_up_its_deletion() {
    let cases = [
        ("attached", "pv", json!({ "status": { "attached": true } }), false, true),
        ("not attached", "pv", json!({ "status": { "attached": false } }), false, true),
        ("deleting", "pv", json!({ "metadata": { "finalizers": ["external-attacher/x"] } }), true, true),
        ("of another volume", "other-pv", json!({ "status": { "attached": true } }), false, false),
        ("of another attacher", "pv", json!({ "spec": { "attacher": "other" } }), false, false),
    ];
    assert_eq!(cases.len(), 5);
    for (case, named, change, deleting, held_up) in cases {
        let scene = scene_with_attachments().await;
        scene.api.create_json::<VolumeAttachment>(attachment(named, &change));
        if deleting {
            scene.api.delete::<VolumeAttachment>(None, "a");
        }
        scene.pass(Duration::from_secs(1)).await;
        scene.add_volume(volume("pv", "h", "Released", "Delete"));
        scene.pass(Duration::from_mins(20)).await;
        assert_eq!(scene.count(Rpc::DeleteVolume), usize::from(!held_up), "{case}");
        assert_eq!(scene.events("VolumeDelete").len(), usize::from(held_up), "{case}");
        assert!(scene.events("VolumeFailedDelete").is_empty(), "{case}: to wait is no failure");
    }
}

/// What `secrets` the driver gets, for each state of annotations, class and Secret.
#[tokio::test(start_paused = true)]
async fn the_secret_of_the_deletion_survives_what_became_of_the_class() {
    let named = || {
        json!({ "metadata": { "annotations": {
        "volume.kubernetes.io/provisioner-deletion-secret-name": "key",
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": "shop" } } })
    };
    let no_class_name = || json!({ "spec": { "storageClassName": null } });
    let unannotated = json!({ "metadata": { "annotations": {
        "volume.kubernetes.io/provisioner-deletion-secret-name": null,
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": null } } });
    let class_naming = |secret: &str| {
        class(
            "fast",
            json!({ "csi.storage.k8s.io/provisioner-secret-name": secret, "csi.storage.k8s.io/provisioner-secret-namespace": "shop" }),
        )
    };
    let cases = [
        ("no class name, claim named, not annotated", with(unannotated.clone(), &no_class_name()), None, None),
        (
            "not annotated, class of another provisioner",
            unannotated,
            Some(with(class_naming("key"), &json!({ "provisioner": "other" }))),
            Some("c2VzYW1l"),
        ),
        ("annotated with none, class there", json!({}), Some(class_naming("key")), None),
        ("annotated with none, no class", no_class_name(), None, None),
        ("annotated, class there", named(), Some(class_naming("key")), Some("c2VzYW1l")),
        ("annotated, class gone", named(), None, Some("c2VzYW1l")),
        ("annotated, class names another Secret", named(), Some(class_naming("other")), Some("c2VzYW1l")),
    ];
    assert_eq!(cases.len(), 7);
    for (case, change, class, expected) in cases {
        let scene = Scene::start().await;
        if let Some(class) = class {
            scene.api.create_json::<StorageClass>(class);
        }
        scene.add_secret(secret("shop", "key", "password", "c2VzYW1l"));
        scene.add_secret(secret("shop", "other", "password", "bm8="));
        scene.pass(Duration::from_secs(1)).await;
        scene.add_volume(with(volume("pv", "h", "Released", "Delete"), &change));
        scene.driver.wait_for_calls(Rpc::DeleteVolume, 1).await;
        let request = &scene.driver.requests::<DeleteVolumeRequest>()[0];
        let password = request.secrets.get("password").map(String::as_str);
        assert_eq!(password, expected.map(|_| "sesame"), "{case}");
        assert_eq!(request.volume_id, "h", "{case}");
    }
}

/// Dynamic, made by hand for the driver, and in-tree taken over: all are protected while they are in use.
#[tokio::test(start_paused = true)]
async fn bound_volumes_of_every_origin_get_our_finalizer() {
    let ebs = "ebs.csi.aws.com";
    let origin = |by: Option<&str>, to: Option<&str>, spec: Value| {
        let annotations = json!({ "pv.kubernetes.io/provisioned-by": by, "pv.kubernetes.io/migrated-to": to });
        json!({ "metadata": { "annotations": annotations, "finalizers": ["kubernetes.io/pv-protection"] }, "spec": spec })
    };
    let csi = json!({ "csi": { "driver": ebs } });
    let in_tree = json!({ "csi": null, "awsElasticBlockStore": { "volumeID": "vol-1" } });
    let cases = [
        ("dynamic", origin(Some(ebs), None, csi.clone())),
        ("static", origin(None, None, csi)),
        ("static-in-tree", origin(None, Some(ebs), in_tree)),
    ];
    assert_eq!(cases.len(), 3);
    let scene = Scene::with(flags(), |driver| driver.name = ebs.to_owned()).await;
    for (name, change) in cases {
        scene.add_volume(with(volume(name, name, "Bound", "Delete"), &change));
        scene.pass(Duration::from_secs(1)).await;
        let finalizers = &scene.volume(name).await["metadata"]["finalizers"];
        let expected = json!(["kubernetes.io/pv-protection", "external-provisioner.volume.kubernetes.io/finalizer"]);
        assert_eq!(*finalizers, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_cannot_be_put_on_is_tried_again_and_is_no_failed_deletion() {
    let scene = Scene::start().await;
    scene
        .api
        .react(Matcher::of("patch", "persistentvolumes").times(3), Reaction::Refuse(Status::internal_error("busy")));
    let bare = json!({ "metadata": { "finalizers": ["kubernetes.io/pv-protection"] } });
    scene.add_volume(with(volume("pv", "h", "Bound", "Delete"), &bare));
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(scene.volume("pv").await["metadata"]["finalizers"].as_array().unwrap().len(), 2);
    assert_eq!(scene.writes().len(), 4);
    assert!(scene.events("VolumeFailedDelete").is_empty(), "nothing was to be deleted");
}

#[tokio::test(start_paused = true)]
async fn a_volume_of_another_driver_is_not_deleted_although_its_annotation_names_us() {
    let scene = Scene::start().await;
    let other = json!({ "spec": { "csi": { "driver": "other", "volumeHandle": "h" } } });
    scene.add_volume(with(volume("pv", "h", "Released", "Delete"), &other));
    let text = scene.event("VolumeFailedDelete").await;
    assert!(text.contains("belongs to CSI driver other"), "{text}");
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
    assert!(scene.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_object_is_deleted_by_its_uid_and_one_that_is_gone_is_success() {
    let scene = Scene::start().await;
    let refused = Reaction::Refuse(Status::new(404, "NotFound", "persistentvolumes \"pv\" not found"));
    scene.api.react(Matcher::of("delete", "persistentvolumes").once(), refused);
    let made = scene.add_volume(volume("pv", "h", "Released", "Delete"));
    scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, 1).await;
    scene.pass(Duration::from_mins(20)).await;
    let deletes = scene.api.requests_of(&Matcher::of("delete", "persistentvolumes"));
    assert_eq!(deletes.len(), 1, "not asked again");
    assert_eq!(deletes[0].body["preconditions"]["uid"], made["metadata"]["uid"]);
    assert_eq!(scene.count(Rpc::DeleteVolume), 1);
    assert!(scene.events("VolumeFailedDelete").is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_object_made_anew_under_the_name_is_not_deleted() {
    let scene = Scene::start().await;
    let delayed = Reaction::Delay(Duration::from_secs(5));
    scene.api.react(Matcher::of("delete", "persistentvolumes").once(), delayed);
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, 1).await;
    scene.pass(Duration::from_secs(1)).await;
    scene.api.remove::<PersistentVolume>(None, "pv");
    let anew = scene.add_volume(volume("pv", "h2", "Bound", "Delete"));
    scene.pass(Duration::from_mins(20)).await;
    let kept = scene.volume("pv").await;
    assert_eq!(kept["metadata"]["uid"], anew["metadata"]["uid"]);
    assert!(kept["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(scene.count(Rpc::DeleteVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn an_update_of_a_volume_that_changes_nothing_keeps_its_backoff() {
    let scene = Scene::start().await;
    scene.driver.script_always(Rpc::DeleteVolume, || Step::fail(Code::Internal, "no"));
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    for round in 0..100 {
        let change = json!({ "metadata": { "labels": { "round": round.to_string() } } });
        scene.api.merge::<PersistentVolume>(None, "pv", &change);
        scene.pass(Duration::from_secs(1)).await;
    }
    assert_eq!(scene.count(Rpc::DeleteVolume), 7, "after 0, 1, 3, 7, 15, 31 and 63 seconds");
}
