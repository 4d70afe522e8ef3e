//! Everything that a volume was to be made from is deleted while its first call has no answer: preconditions may block only
//! the first call.

use csi_proto::csi::v1::CreateVolumeRequest;
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Secret};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;
use storage_kube::wire::{VolumeSnapshot, VolumeSnapshotContent};
use tonic::Code;

use super::objects::{class, secret};
use super::scene::{Scene, flags};
use super::source_objects::{
    CLONING, RESTORING, add_snapshot, add_source, claim_finalizers, clone_of, fills, restore, snapshot_finalizers,
};

async fn scene() -> Scene {
    let scene = Scene::with(flags(), fills).await;
    let parameters = json!({
        "csi.storage.k8s.io/provisioner-secret-name": "key",
        "csi.storage.k8s.io/provisioner-secret-namespace": "shop",
    });
    scene.add_class(class("fast", parameters));
    scene.add_secret(secret("shop", "key", "password", "c2VzYW1l"));
    add_snapshot(&scene.api, &json!({}), &json!({}));
    add_source(&scene.api, &json!({}), &json!({}));
    scene.driver.script(Rpc::CreateVolume, Step::work_then_fail(Code::DeadlineExceeded, "slow"));
    for _ in 0..3 {
        scene.driver.script(Rpc::CreateVolume, Step::work_then_fail(Code::Aborted, "operation pending"));
    }
    scene
}

/// Every try asked for the same, and the last one has its volume.
async fn made(scene: &Scene, uid: &str) {
    let volume = scene.volume(&format!("pvc-{uid}")).await;
    assert_eq!(volume["spec"]["claimRef"]["uid"], uid);
    let requests = scene.driver.requests::<CreateVolumeRequest>();
    assert_eq!(requests.len(), 5);
    assert!(requests[0].volume_content_source.is_some());
    assert!(requests.iter().all(|request| *request == requests[0]), "every try sends the same request");
    assert_eq!(scene.driver.volumes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a4_a_restore_goes_on_when_claim_and_snapshot_are_deleted() {
    let scene = scene().await;
    let uid = scene.add_claim(restore("data", "monday"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    scene.api.delete::<VolumeSnapshot>("shop", "monday");
    assert_eq!(snapshot_finalizers(&scene.api, "monday").unwrap(), [RESTORING], "the restore holds its snapshot");
    made(&scene, &uid).await;
    // Nobody needs the snapshot any more, and the volume goes the way of all volumes without a claim.
    scene
        .api
        .until("the snapshot to go", super::scene::PATIENCE, |api| {
            snapshot_finalizers(api, "monday").is_none().then_some(())
        })
        .await;
    scene.release(&format!("pvc-{uid}"));
    scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, 1).await;
    assert!(scene.driver.volumes().is_empty());
}

/// The same with the objects torn away, finalizers or not.
#[tokio::test(start_paused = true)]
async fn a4_a_restore_goes_on_when_everything_it_was_made_from_is_gone() {
    let scene = scene().await;
    let uid = scene.add_claim(restore("data", "monday"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.api.remove::<VolumeSnapshot>("shop", "monday");
    scene.api.remove::<VolumeSnapshotContent>(None, "content-monday");
    scene.api.delete::<StorageClass>(None, "fast");
    scene.api.delete::<Secret>("shop", "key");
    made(&scene, &uid).await;
}

#[tokio::test(start_paused = true)]
async fn a4_a_clone_goes_on_when_claim_and_source_are_deleted() {
    let scene = scene().await;
    let uid = scene.add_claim(clone_of("data", "source"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    scene.api.delete::<PersistentVolumeClaim>("shop", "source");
    assert_eq!(claim_finalizers(&scene.api, "source").unwrap(), [CLONING], "the clone holds its source");
    made(&scene, &uid).await;
    scene
        .api
        .until("the source to go", super::scene::PATIENCE, |api| {
            claim_finalizers(api, "source").is_none().then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a4_a_clone_goes_on_when_everything_it_was_made_from_is_gone() {
    let scene = scene().await;
    let uid = scene.add_claim(clone_of("data", "source"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.api.remove::<PersistentVolumeClaim>("shop", "source");
    scene.api.remove::<PersistentVolume>(None, "pv-source");
    scene.api.delete::<StorageClass>(None, "fast");
    scene.api.delete::<Secret>("shop", "key");
    made(&scene, &uid).await;
}
