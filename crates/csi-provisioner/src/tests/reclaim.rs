//! A released volume goes away, once and only when it may.

use std::time::Duration;

use csi_proto::csi::v1::{DeleteVolumeRequest, controller_service_capability::rpc::Type as ControllerRpc};
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::{Value, json};
use storage_kube::uid::Uid;
use tonic::Code;

use super::objects::{claim, class, secret, volume, with};
use super::scene::{Scene, flags};

/// As the protection controller does when nothing uses a deleted volume.
fn unprotect(scene: &Scene, name: &str) {
    let ours = json!({ "metadata": { "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"] } });
    scene.api.merge::<PersistentVolume>(None, name, &ours);
}

#[tokio::test(start_paused = true)]
async fn one_create_and_one_delete() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    let mut names = Vec::new();
    for n in 0..30 {
        names.push(format!("pvc-{}", scene.add_claim(claim(&format!("c{n}"), "fast"))));
    }
    for name in &names {
        scene.volume(name).await;
    }
    for (n, name) in names.iter().enumerate() {
        scene.bind(&format!("c{n}"), name);
        scene.release(name);
    }
    for name in &names {
        scene.volume_gone(name).await;
    }
    scene.pass(Duration::from_mins(30)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 30);
    assert_eq!(scene.count(Rpc::DeleteVolume), 30);
    assert!(scene.driver.volumes().is_empty());
    let writes = scene.writes();
    for (write, count) in
        [("create persistentvolumes", 30), ("delete persistentvolumes", 30), ("patch persistentvolumes", 30)]
    {
        assert_eq!(writes.iter().filter(|done| *done == write).count(), count, "{write}");
    }
    assert!(scene.events("VolumeFailedDelete").is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_object_goes_only_after_the_driver_has_deleted_the_volume() {
    let scene = Scene::start().await;
    scene.driver.script(Rpc::DeleteVolume, Step::fail(Code::FailedPrecondition, "in use"));
    scene.driver.script(Rpc::DeleteVolume, Step::hang());
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    scene.driver.wait_for_calls(Rpc::DeleteVolume, 2).await;
    assert!(scene.volume("pv").await["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(scene.event("VolumeFailedDelete").await, "rpc error: code = FailedPrecondition desc = in use");
    scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, 3).await;
    unprotect_when_deleting(&scene, "pv").await;
    scene.volume_gone("pv").await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 3);
}

async fn unprotect_when_deleting(scene: &Scene, name: &str) {
    scene
        .api
        .until("deletion", super::scene::PATIENCE, |api| {
            let object = api.get_json::<PersistentVolume>(None, name)?;
            (!object["metadata"]["deletionTimestamp"].is_null()).then_some(())
        })
        .await;
    scene.pass(Duration::from_secs(1)).await;
    if let Some(object) = scene.api.get_json::<PersistentVolume>(None, name) {
        assert_eq!(object["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]), "ours is off");
        scene.api.remove::<PersistentVolume>(None, name);
    }
}

#[tokio::test(start_paused = true)]
async fn volumes_to_keep_are_kept() {
    let scene = Scene::start().await;
    let others = [
        volume("retained", "h1", "Released", "Retain"),
        volume("bound", "h2", "Bound", "Delete"),
        volume("failed", "h3", "Failed", "Delete"),
        volume("available", "h4", "Available", "Delete"),
        with(
            volume("foreign", "h5", "Released", "Delete"),
            &json!({ "metadata": { "annotations": { "pv.kubernetes.io/provisioned-by": "other" } } }),
        ),
    ];
    for other in others {
        scene.add_volume(other);
    }
    scene.pass(Duration::from_mins(40)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
    assert_eq!(scene.api.list::<PersistentVolume>().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn our_finalizer_follows_the_reclaim_policy() {
    let scene = Scene::start().await;
    let bare = json!({ "metadata": { "finalizers": ["kubernetes.io/pv-protection"] } });
    scene.add_volume(with(volume("made-by-hand", "h1", "Bound", "Delete"), &bare));
    scene.add_volume(volume("kept", "h2", "Bound", "Retain"));
    scene.pass(Duration::from_secs(1)).await;
    let finalizers = |object: &Value| object["metadata"]["finalizers"].clone();
    let ours = "external-provisioner.volume.kubernetes.io/finalizer";
    assert_eq!(finalizers(&scene.volume("made-by-hand").await), json!(["kubernetes.io/pv-protection", ours]));
    assert_eq!(finalizers(&scene.volume("kept").await), json!(["kubernetes.io/pv-protection"]));
    let policy = json!({ "spec": { "persistentVolumeReclaimPolicy": "Delete" } });
    scene.api.merge::<PersistentVolume>(None, "kept", &policy);
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(finalizers(&scene.volume("kept").await), json!(["kubernetes.io/pv-protection", ours]));
    assert_eq!(scene.writes().len(), 3, "{:?}", scene.writes());
}

/// Others change a new volume while our write is under way, and the cache shows only their change.
#[tokio::test(start_paused = true)]
async fn a_cache_that_stands_still_repeats_no_finalizer_write() {
    let scene = Scene::start().await;
    scene.api.react(Matcher::of("patch", "persistentvolumes").times(1), Reaction::Delay(Duration::from_secs(1)));
    scene.add_volume(volume("kept", "h", "Bound", "Retain"));
    scene.pass(Duration::from_millis(100)).await;
    let marked = json!({ "metadata": { "annotations": { "example.com/seen": "yes" } } });
    scene.api.merge::<PersistentVolume>(None, "kept", &marked);
    scene.pass(Duration::from_millis(100)).await;
    scene.api.react(Matcher::of("watch", "persistentvolumes"), Reaction::Hang);
    scene.api.break_watches();
    scene.api.react(Matcher::of("list", "persistentvolumes"), Reaction::Hang);
    scene.pass(Duration::from_secs(20)).await;
    assert_eq!(scene.writes(), ["patch persistentvolumes"]);
    assert_eq!(scene.volume("kept").await["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
}

/// An interrupted watch does not show that our write was there for a while.
#[tokio::test(start_paused = true)]
async fn a_finalizer_write_that_was_undone_unseen_is_done_again() {
    let scene = Scene::start().await;
    scene.api.react(Matcher::of("patch", "persistentvolumes").times(1), Reaction::Delay(Duration::from_secs(1)));
    scene.add_volume(volume("kept", "h", "Bound", "Retain"));
    scene.pass(Duration::from_millis(100)).await;
    scene.api.react(Matcher::of("watch", "persistentvolumes"), Reaction::Hang);
    scene.api.break_watches();
    scene.pass(Duration::from_secs(2)).await;
    let both = ["kubernetes.io/pv-protection", "external-provisioner.volume.kubernetes.io/finalizer"];
    scene.api.merge::<PersistentVolume>(None, "kept", &json!({ "metadata": { "finalizers": both } }));
    scene.api.clear_reactions();
    scene.api.compact();
    scene.api.expire_watches();
    scene.pass(Duration::from_mins(30)).await;
    assert_eq!(scene.writes(), ["patch persistentvolumes", "patch persistentvolumes"]);
    assert_eq!(scene.volume("kept").await["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
}

#[tokio::test(start_paused = true)]
async fn a11_a_volume_with_an_attachment_waits_and_goes_when_the_last_one_goes() {
    let scene =
        Scene::with(flags(), |driver| driver.controller_capabilities.push(ControllerRpc::PublishUnpublishVolume)).await;
    scene.add_attachment("a1", "pv");
    scene.add_attachment("a2", "pv");
    scene.pass(Duration::from_secs(1)).await;
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    assert!(scene.event("VolumeDelete").await.contains("still attached"));
    scene.api.delete::<VolumeAttachment>(None, "a1");
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
    let before = tokio::time::Instant::now();
    scene.api.delete::<VolumeAttachment>(None, "a2");
    scene.driver.wait_for_calls(Rpc::DeleteVolume, 1).await;
    assert!(before.elapsed() < Duration::from_secs(1), "the last attachment ends the backoff");
}

#[tokio::test(start_paused = true)]
async fn the_secret_of_the_deletion_is_the_annotated_one_else_the_class_decides() {
    let named = json!({ "metadata": { "annotations": {
        "volume.kubernetes.io/provisioner-deletion-secret-name": "key",
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": "shop" } } });
    let missing = json!({ "metadata": { "annotations": {
        "volume.kubernetes.io/provisioner-deletion-secret-name": "lost",
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": "shop" } } });
    let unannotated = json!({ "metadata": { "annotations": {
        "volume.kubernetes.io/provisioner-deletion-secret-name": null,
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": null } } });
    let no_class = with(unannotated.clone(), &json!({ "spec": { "storageClassName": "gone" } }));
    let by_beta_class = with(
        unannotated.clone(),
        &json!({ "metadata": { "annotations": { "volume.beta.kubernetes.io/storage-class": "fast" } }, "spec": { "storageClassName": null } }),
    );
    let cases = [
        ("annotated", named, true),
        ("annotated with none", json!({}), false),
        ("annotated, the Secret is gone", missing, false),
        ("by the class", unannotated, true),
        ("by the class of the beta annotation", by_beta_class, true),
        ("the class is gone", no_class, false),
    ];
    assert_eq!(cases.len(), 6);
    for (case, change, expected) in cases {
        let scene = Scene::start().await;
        let parameters = json!({
            "csi.storage.k8s.io/provisioner-secret-name": "key",
            "csi.storage.k8s.io/provisioner-secret-namespace": "${pvc.namespace}",
        });
        scene.add_class(class("fast", parameters));
        scene.add_secret(secret("shop", "key", "password", "c2VzYW1l"));
        scene.pass(Duration::from_secs(1)).await;
        scene.add_volume(with(volume("pv", "h", "Released", "Delete"), &change));
        scene.driver.wait_for_calls(Rpc::DeleteVolume, 1).await;
        let request = &scene.driver.requests::<DeleteVolumeRequest>()[0];
        assert_eq!(request.volume_id, "h");
        assert_eq!(request.secrets.get("password").map(String::as_str), expected.then_some("sesame"), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_secret_template_of_the_class_keeps_the_volume() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({ "csi.storage.k8s.io/provisioner-secret-name": "${pvc.name}" })));
    scene.pass(Duration::from_secs(1)).await;
    let unannotated = json!({ "metadata": { "annotations": {
        "volume.kubernetes.io/provisioner-deletion-secret-name": null,
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": null } } });
    scene.add_volume(with(volume("pv", "h", "Released", "Delete"), &unannotated));
    scene.event("VolumeFailedDelete").await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_deleted_does_not_repeat_the_call() {
    let scene = Scene::start().await;
    let refused = Reaction::Refuse(Status::new(500, "InternalError", "etcd is busy"));
    scene.api.react(Matcher::of("delete", "persistentvolumes").times(4), refused.clone());
    scene.api.react(Matcher::of("patch", "persistentvolumes").times(2), refused);
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    unprotect_when_finalizer_is_off(&scene, "pv").await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 1);
    assert!(scene.event("VolumeFailedDelete").await.contains("etcd is busy"));
}

async fn unprotect_when_finalizer_is_off(scene: &Scene, name: &str) {
    scene
        .api
        .until("our finalizer to go", super::scene::PATIENCE, |api| {
            let object = api.get_json::<PersistentVolume>(None, name)?;
            (object["metadata"]["finalizers"] == json!(["kubernetes.io/pv-protection"])).then_some(())
        })
        .await;
    scene.api.remove::<PersistentVolume>(None, name);
}

#[tokio::test(start_paused = true)]
async fn a_volume_deleted_before_its_claim_is_reclaimed() {
    let scene = Scene::start().await;
    scene.add_volume(volume("pv", "h", "Bound", "Delete"));
    scene.pass(Duration::from_secs(1)).await;
    scene.api.delete::<PersistentVolume>(None, "pv");
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0, "the claim still uses it");
    unprotect(&scene, "pv");
    scene.release("pv");
    scene.volume_gone("pv").await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 1);
}

/// The object is replaced by another of its name while the driver deletes the volume.
#[tokio::test(start_paused = true)]
async fn a_volume_object_made_anew_under_the_name_is_not_deleted() {
    let scene = Scene::start().await;
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    scene.api.react(Matcher::of("delete", "persistentvolumes").once(), Reaction::Delay(Duration::from_secs(5)));
    scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, 1).await;
    scene.pass(Duration::from_secs(1)).await;
    scene.api.remove::<PersistentVolume>(None, "pv");
    let new = scene.add_volume(volume("pv", "h2", "Bound", "Retain"));
    scene.pass(Duration::from_mins(20)).await;
    let object = scene.api.get_json::<PersistentVolume>(None, "pv").unwrap();
    assert_eq!(object["metadata"]["uid"], new["metadata"]["uid"]);
    assert!(object["metadata"]["deletionTimestamp"].is_null(), "{object}");
    assert_eq!(scene.count(Rpc::DeleteVolume), 1);
    assert!(scene.events("VolumeFailedDelete").iter().all(|text| !text.contains("could not be deleted")));
}

/// The code is that of a volume made anew under the name; the volume says that it is not.
#[tokio::test(start_paused = true)]
async fn k8_a_deletion_that_a_webhook_refuses_with_a_conflict_is_tried_again_and_the_finalizer_stays_meanwhile() {
    let scene = Scene::start().await;
    let refused = Status::new(409, "Conflict", "admission webhook \"backup.example.com\" denied the request");
    scene.api.react(Matcher::of("delete", "persistentvolumes").times(3), Reaction::Refuse(refused));
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    assert!(scene.event("VolumeFailedDelete").await.contains("backup.example.com"));
    scene.pass(Duration::from_millis(100)).await;
    assert_eq!(scene.writes(), ["delete persistentvolumes"], "no patch of the finalizer");
    unprotect_when_deleting(&scene, "pv").await;
    assert_eq!(scene.writes().iter().filter(|write| *write == "delete persistentvolumes").count(), 4);
    assert_eq!(scene.count(Rpc::DeleteVolume), 1);
}

/// Here the API server answers 422: the UID of an object cannot be changed.
#[tokio::test(start_paused = true)]
async fn k8_a_finalizer_of_a_volume_made_anew_under_the_name_is_no_failure_of_the_one_before() {
    let scene = Scene::start().await;
    scene.api.react(Matcher::of("patch", "persistentvolumes").once(), Reaction::Delay(Duration::from_secs(5)));
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, 1).await;
    scene.pass(Duration::from_secs(1)).await;
    // From here on the watch shows nothing.
    scene.api.react(Matcher::of("watch", "persistentvolumes"), Reaction::Hang);
    scene.api.react(Matcher::of("list", "persistentvolumes"), Reaction::Hang);
    scene.api.break_watches();
    scene.pass(Duration::from_secs(1)).await;
    scene.api.remove::<PersistentVolume>(None, "pv");
    scene.add_volume(volume("pv", "h2", "Bound", "Retain"));
    scene.pass(Duration::from_mins(10)).await;
    assert_eq!(scene.events("VolumeFailedDelete"), Vec::<String>::new());
    assert_eq!(scene.writes(), ["delete persistentvolumes", "patch persistentvolumes"]);
}

#[tokio::test(start_paused = true)]
async fn a_volume_object_that_is_gone_already_is_no_failure() {
    let scene = Scene::start().await;
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    scene.api.react(Matcher::of("delete", "persistentvolumes").once(), Reaction::Delay(Duration::from_secs(5)));
    scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, 1).await;
    scene.pass(Duration::from_secs(1)).await;
    scene.api.remove::<PersistentVolume>(None, "pv");
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.events("VolumeFailedDelete"), Vec::<String>::new());
}

/// The watch is behind the write that has put our finalizer on.
#[tokio::test(start_paused = true)]
async fn l3_a_finalizer_that_the_cache_does_not_show_yet_is_taken_off_as_well() {
    let scene = Scene::start().await;
    let created = scene.api.create_json::<PersistentVolume>(volume("other", "h2", "Bound", "Retain"));
    scene.pass(Duration::from_secs(1)).await;
    let uid = Uid::from(created["metadata"]["uid"].as_str().unwrap());
    scene.term().finalizer_writes.begin(uid, true);
    scene.api.merge::<PersistentVolume>(
        None,
        "other",
        &json!({
            "metadata": { "finalizers": [] },
            "spec": { "persistentVolumeReclaimPolicy": "Delete" },
            "status": { "phase": "Released" },
        }),
    );
    scene.volume_gone("other").await;
    let patches = scene.api.requests_of(&Matcher::of("patch", "persistentvolumes"));
    let removal = "$deleteFromPrimitiveList/finalizers";
    assert!(patches.iter().any(|patch| patch.body["metadata"].get(removal).is_some()), "{patches:?}");
}
