//! Detaching under way.

use std::time::Duration;

use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::json;
use tonic::Code;

use super::objects::{FINALIZER, attached, attachment, node, volume, with};
use super::scene::{Scene, config};

/// Only OK means detached: whatever else the driver answers, the volume may still be there.
#[tokio::test(start_paused = true)]
async fn d9_only_ok_means_detached() {
    let codes: Vec<Code> = (0..=16).map(Code::from).collect();
    assert_eq!(codes.iter().filter(|code| **code != Code::Ok).count(), 16);
    for code in codes {
        let scene = Scene::start().await;
        scene.driver.publish("handle1", "nodeID1");
        if code != Code::Ok {
            scene.driver.script_always(Rpc::ControllerUnpublishVolume, move || Step::fail(code, "mock"));
        }
        scene.add_attachment(attached(attachment(), "nodeID1"));
        scene.pass(Duration::from_millis(100)).await;
        scene.delete_attachment("pv1-node1");
        scene.pass(Duration::from_secs(10)).await;
        match scene.attachment("pv1-node1") {
            None => assert_eq!(code, Code::Ok),
            Some(found) => {
                assert_eq!(found["metadata"]["finalizers"], json!([FINALIZER]), "{code:?}");
                assert_eq!(found["status"]["attached"], true, "{code:?}");
                let message = found["status"]["detachError"]["message"].as_str().unwrap();
                assert!(message.starts_with("rpc error: code = ") && message.ends_with("desc = mock"), "{message}");
                assert_eq!(scene.driver.published_nodes("handle1"), ["nodeID1"], "{code:?}");
            }
        }
    }
}

/// The volume's object is deleted by force while it is attached.
#[tokio::test(start_paused = true)]
async fn d4_a_volume_whose_object_is_gone_is_detached_all_the_same() {
    let scene = Scene::start().await;
    scene.add_attachment(attachment());
    scene.attached("pv1-node1").await;
    scene.pass(Duration::from_millis(100)).await;
    scene.api.remove::<PersistentVolume>(None, "pv1");
    scene.pass(Duration::from_mins(1)).await;
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    let request = &scene.unpublished()[0];
    assert_eq!((request.volume_id.as_str(), request.node_id.as_str()), ("handle1", "nodeID1"));
    assert_eq!(scene.writes().last().unwrap(), "release", "no error on the way");
}

/// A volume made anew under the name is not what was attached.
#[tokio::test(start_paused = true)]
async fn d4_a_volume_made_anew_under_the_name_is_not_taken_for_the_one_attached() {
    let scene = Scene::start().await;
    scene.add_attachment(attachment());
    scene.attached("pv1-node1").await;
    scene.pass(Duration::from_millis(100)).await;
    scene.api.remove::<PersistentVolume>(None, "pv1");
    scene.pass(Duration::from_millis(100)).await;
    scene.add_volume(with(volume(), json!({ "spec": { "csi": { "volumeHandle": "another" } } })));
    scene.pass(Duration::from_millis(100)).await;
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    assert_eq!(scene.unpublished()[0].volume_id, "handle1");
}

/// Gone before this process began: one clear error and a slow retry, until somebody acts.
#[tokio::test(start_paused = true)]
async fn d4_what_nothing_is_known_of_is_told_once_and_tried_slowly() {
    let scene = Scene::with(config(), |_| ()).await;
    scene.add_attachment(attached(attachment(), "nodeID1"));
    scene.delete_attachment("pv1-node1");
    let found = scene.status("pv1-node1", |status| status.get("detachError").is_some()).await;
    let message = found["status"]["detachError"]["message"].as_str().unwrap();
    assert!(message.contains("\"pv1\" not found") && message.contains(FINALIZER), "{message}");
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.writes(), ["detachError"]);
    let tries = scene.api.requests_of(&Matcher::of("get", "persistentvolumes")).len();
    assert!((10..=14).contains(&tries), "each five minutes: {tries}");
    // A volume of the name appears: that is something new.
    scene.add_volume(volume());
    scene.gone("pv1-node1").await;
}

/// Deleted before it was ever attached: nothing holds it, and nothing is left on the volume.
#[tokio::test(start_paused = true)]
async fn d4_an_attachment_that_was_never_attached_goes_at_once_and_frees_the_volume() {
    let scene = Scene::with(config(), |_| ()).await;
    scene.add_volume(volume());
    scene.add_attachment(attachment());
    scene.pass(Duration::from_secs(30)).await;
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    scene.api.delete::<PersistentVolume>(None, "pv1");
    scene.pass(Duration::from_secs(1)).await;
    assert!(scene.api.list::<PersistentVolume>().is_empty());
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_cannot_be_removed_does_not_repeat_the_call() {
    let scene = Scene::start().await;
    scene.add_attachment(attached(attachment(), "nodeID1"));
    scene.pass(Duration::from_millis(100)).await;
    let patches = Matcher::of("patch", "volumeattachments").subresource("");
    scene.api.react(patches.times(4), Reaction::Refuse(Status::internal_error("etcd")));
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 1);
}

/// Somebody takes a finalizer off while ours is on its way: 409, and another look.
#[tokio::test(start_paused = true)]
async fn a_finalizer_list_that_changed_meanwhile_is_looked_at_again() {
    let scene = Scene::start().await;
    let both = json!({ "metadata": { "finalizers": ["other/one", FINALIZER] } });
    scene.add_attachment(with(attached(attachment(), "nodeID1"), both));
    scene.pass(Duration::from_millis(100)).await;
    let release = fake_driver::Release::new();
    scene.driver.script(Rpc::ControllerUnpublishVolume, Step::answer().held_by(&release));
    scene.delete_attachment("pv1-node1");
    scene.driver.wait_for_calls(Rpc::ControllerUnpublishVolume, 1).await;
    scene.api.merge::<k8s_openapi::api::storage::v1::VolumeAttachment>(
        None,
        "pv1-node1",
        &json!({ "metadata": { "finalizers": [FINALIZER] } }),
    );
    release.release();
    scene.gone("pv1-node1").await;
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 1);
    assert!(!scene.writes().contains(&"detachError".to_owned()), "{:?}", scene.writes());
}

/// A detach under way when the attachment is replaced: the new one may be published at the same node.
#[tokio::test(start_paused = true)]
async fn a_detach_that_waits_for_the_driver_is_given_up_when_the_attachment_is_made_anew() {
    let scene = Scene::start().await;
    scene.add_attachment(attached(attachment(), "nodeID1"));
    scene.pass(Duration::from_millis(100)).await;
    scene.driver.stop().await;
    scene.delete_attachment("pv1-node1");
    scene.pass(Duration::from_secs(2)).await;
    scene.api.remove::<k8s_openapi::api::storage::v1::VolumeAttachment>(None, "pv1-node1");
    scene.add_attachment(attachment());
    scene.pass(Duration::from_secs(1)).await;
    scene.driver.start_again().await;
    scene.attached("pv1-node1").await;
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0);
    assert_eq!(scene.driver.published_nodes("handle1"), ["nodeID1"]);
}

/// An attach that failed may have been done all the same: its attachment is detached like any other.
#[tokio::test(start_paused = true)]
async fn what_may_have_been_attached_is_detached() {
    let scene = Scene::with(config(), |_| ()).await;
    scene.add_volume(volume());
    scene.add_node(node("node1", "nodeID1"));
    scene.driver.script_always(Rpc::ControllerPublishVolume, || Step::work_then_fail(Code::Internal, "no"));
    scene.add_attachment(attachment());
    scene.driver.wait_for_ended_calls(Rpc::ControllerPublishVolume, 2).await;
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    assert!(scene.driver.published_nodes("handle1").is_empty());
}

/// What failed before was another matter.
#[tokio::test(start_paused = true)]
async fn a_deletion_ends_the_backoff_of_the_attach() {
    let scene = Scene::start().await;
    scene.driver.script_always(Rpc::ControllerPublishVolume, || Step::fail(Code::Internal, "no"));
    scene.driver.script(Rpc::ControllerUnpublishVolume, Step::fail(Code::Internal, "no"));
    scene.add_attachment(attachment());
    scene.driver.wait_for_ended_calls(Rpc::ControllerPublishVolume, 6).await;
    scene.pass(Duration::from_secs(1)).await;
    let before = tokio::time::Instant::now();
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    assert!(
        before.elapsed() <= Duration::from_millis(1500),
        "at once, and again after a second: {:?}",
        before.elapsed()
    );
    let name = storage_kube::names::AttachmentName::from("pv1-node1");
    assert_eq!(scene.term().queues.attachments.failures(&name), 0);
}
