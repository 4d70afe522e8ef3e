//! What a term remembers goes when it is not needed, whichever comes first: an answer or the watch's word of it.

use std::time::Duration;

use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use serde_json::json;
use tonic::Code;

use super::objects::{attachment, attachment_of, secret, volume, volume_named, with};
use super::scene::{Scene, config};

fn remembered(scene: &Scene) -> [usize; 4] {
    let term = scene.term();
    [term.remembered.len(), term.waiting_for_node.len(), term.own_patches.len(), term.left_behind.len()]
}

/// The watch is faster than every answer: the attachment and the volume are gone when the last answer comes.
#[tokio::test(start_paused = true)]
async fn answers_that_come_after_the_end_of_an_object_are_not_kept() {
    let scene = Scene::start().await;
    let late = || Reaction::DelayAnswer(Duration::from_millis(200));
    scene.api.react(Matcher::of("patch", "volumeattachments"), late());
    scene.api.react(Matcher::of("patch", "persistentvolumes"), late());
    for number in 0..10 {
        let name = format!("volume-{number}");
        let bare = json!({ "metadata": { "finalizers": ["kubernetes.io/pv-protection"] } });
        scene.add_volume(with(volume_named(&name, &name), bare));
        scene.add_attachment(attachment_of(&name, &name, "node1"));
        scene.attached(&name).await;
    }
    for number in 0..10 {
        scene.delete_attachment(&format!("volume-{number}"));
        scene.gone(&format!("volume-{number}")).await;
    }
    for number in 0..10 {
        let name = format!("volume-{number}");
        scene.api.delete::<PersistentVolume>(None, &name);
        scene.api.merge::<PersistentVolume>(
            None,
            &name,
            &json!({ "metadata": { "finalizers": [super::objects::FINALIZER] } }),
        );
    }
    scene.pass(Duration::from_secs(30)).await;
    assert_eq!(scene.api.list::<PersistentVolume>().len(), 1, "pv1");
    assert_eq!(remembered(&scene), [0; 4]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_remembered_of_an_attachment_whose_errors_were_told() {
    let scene = Scene::start().await;
    scene.driver.script(Rpc::ControllerPublishVolume, Step::fail(Code::Internal, "no"));
    scene.api.react(Matcher::of("patch", "volumeattachments").once(), Reaction::LoseAnswer);
    scene.add_attachment(attachment());
    scene.attached("pv1-node1").await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(remembered(&scene), [0; 4]);
}

/// It is gone before its run comes to ask for the node.
#[tokio::test(start_paused = true)]
async fn an_attachment_that_vanishes_is_not_waiting_for_its_node() {
    let scene = Scene::start().await;
    scene.api.remove::<CSINode>(None, "node1");
    let reference =
        json!({ "spec": { "csi": { "controllerPublishSecretRef": { "namespace": "default", "name": "secret" } } } });
    scene.add_secret(secret("secret", json!({})));
    scene.add_volume(with(volume_named("pv2", "handle2"), reference));
    scene.pass(Duration::from_millis(100)).await;
    scene.api.react(Matcher::of("get", "secrets"), Reaction::DelayAnswer(Duration::from_secs(2)));
    scene.add_attachment(attachment_of("va", "pv2", "node1"));
    scene.pass(Duration::from_secs(1)).await;
    scene.api.remove::<VolumeAttachment>(None, "va");
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(remembered(&scene), [0; 4]);
    // One whose node comes.
    scene.add_attachment(attachment_of("comes", "pv1", "node2"));
    scene.pass(Duration::from_secs(30)).await;
    assert_eq!(remembered(&scene)[1], 1);
    scene.add_node(super::objects::node("node2", "nodeID2"));
    scene.attached("comes").await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(remembered(&scene), [0; 4]);
    // One that is waited for and then deleted.
    scene.add_attachment(attachment());
    scene.pass(Duration::from_secs(30)).await;
    assert_eq!(remembered(&scene)[1], 1);
    scene.delete_attachment("pv1-node1");
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(remembered(&scene), [0; 4]);
}

/// The volume's object is gone before the watch of attachments has told of our finalizer.
#[tokio::test(start_paused = true)]
async fn d4_a_volume_that_vanishes_while_it_is_published_is_known_when_it_is_detached() {
    let scene = Scene::start().await;
    scene.pass(Duration::from_millis(100)).await;
    let release = fake_driver::Release::new();
    scene.driver.script(Rpc::ControllerPublishVolume, Step::answer().answer_held_by(&release));
    scene.api.react(Matcher::of("patch", "volumeattachments").once(), Reaction::Delay(Duration::from_secs(1)));
    scene.add_attachment(attachment());
    scene.pass(Duration::from_millis(500)).await;
    scene.api.remove::<PersistentVolume>(None, "pv1");
    scene.driver.wait_for_calls(Rpc::ControllerPublishVolume, 1).await;
    release.release();
    let found = scene.attached("pv1-node1").await;
    let uid = storage_kube::uid::Uid::from(found["metadata"]["uid"].as_str().unwrap());
    let term = scene.term();
    let kept = &term.caches.kept_volumes;
    assert!(kept.get(&uid).is_some());
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    assert_eq!(scene.unpublished()[0].volume_id, "handle1");
    scene.pass(Duration::from_secs(1)).await;
    assert!(kept.get(&uid).is_none(), "as long as its attachment is there, and no longer");
}

/// Held for one volume, and another has its name by now: neither may be left published.
#[tokio::test(start_paused = true)]
async fn d4_a_volume_made_anew_with_another_handle_is_not_attached_for_one_that_may_be_published() {
    let scene = Scene::start().await;
    scene.driver.script(Rpc::ControllerPublishVolume, Step::work_then_fail(Code::Internal, "no"));
    scene.add_attachment(attachment());
    scene.driver.wait_for_ended_calls(Rpc::ControllerPublishVolume, 1).await;
    scene.api.remove::<PersistentVolume>(None, "pv1");
    scene.pass(Duration::from_millis(100)).await;
    scene.add_volume(with(volume(), json!({ "spec": { "csi": { "volumeHandle": "another" } } })));
    scene.pass(Duration::from_mins(1)).await;
    let found = scene.attachment("pv1-node1").unwrap();
    let message = found["status"]["attachError"]["message"].as_str().unwrap();
    assert!(message.contains("\"pv1\" was made anew"), "{message}");
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    assert!(scene.driver.published_nodes("handle1").is_empty());
    assert!(scene.driver.published_nodes("another").is_empty());
}

/// Nothing was published yet: the one that has the name is meant.
#[tokio::test(start_paused = true)]
async fn a_volume_made_anew_before_anything_was_published_is_attached() {
    let scene = Scene::start().await;
    scene.api.react(
        Matcher::of("patch", "volumeattachments").subresource("").times(3),
        Reaction::Refuse(Status::internal_error("etcd")),
    );
    scene.add_attachment(attachment());
    scene.pass(Duration::from_secs(2)).await;
    scene.api.remove::<PersistentVolume>(None, "pv1");
    scene.pass(Duration::from_millis(100)).await;
    scene.add_volume(with(volume(), json!({ "spec": { "csi": { "volumeHandle": "another" } } })));
    scene.attached("pv1-node1").await;
    assert_eq!(scene.driver.published_nodes("another"), ["nodeID1"]);
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    assert!(scene.driver.published_nodes("another").is_empty());
}

/// And the same with the handle it had: an object that was only written anew.
#[tokio::test(start_paused = true)]
async fn a_volume_made_anew_with_its_handle_is_attached() {
    let scene = Scene::with(config(), |_| ()).await;
    scene.add_volume(volume());
    scene.add_node(super::objects::node("node1", "nodeID1"));
    scene.driver.script(Rpc::ControllerPublishVolume, Step::fail(Code::Internal, "no"));
    scene.add_attachment(attachment());
    scene.driver.wait_for_ended_calls(Rpc::ControllerPublishVolume, 1).await;
    scene.api.remove::<PersistentVolume>(None, "pv1");
    scene.pass(Duration::from_millis(100)).await;
    scene.add_volume(volume());
    scene.attached("pv1-node1").await;
}
