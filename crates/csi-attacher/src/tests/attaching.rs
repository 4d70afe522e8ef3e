//! Attaching under way: one call that succeeds, whatever the caches show, and an error that does not stay.

use std::time::Duration;

use csi_proto::csi::v1::{ControllerPublishVolumeRequest, ControllerPublishVolumeResponse};
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Outcome, Release, Rpc, Step};
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::json;
use tonic::Code;

use super::objects::{attached, attachment, attachment_of, node, volume, volume_named, with};
use super::scene::{Scene, config};

/// The Go attacher publishes many of them twice, because its own writes wake it up before its cache has them.
#[tokio::test(start_paused = true)]
async fn one_publish_and_one_unpublish_for_each_of_a_hundred() {
    let scene = Scene::start().await;
    scene.driver.script_always(Rpc::ControllerPublishVolume, || Step::answer().after(Duration::from_millis(50)));
    let names: Vec<String> = (0..100).map(|number| format!("va-{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let volume = format!("volume-{number}");
        scene.add_volume(volume_named(&volume, &volume));
        scene.add_attachment(attachment_of(name, &volume, "node1"));
    }
    for name in &names {
        scene.attached(name).await;
    }
    scene.pass(Duration::from_mins(30)).await;
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), 100);
    for name in &names {
        scene.delete_attachment(name);
    }
    for name in &names {
        scene.gone(name).await;
    }
    scene.pass(Duration::from_mins(30)).await;
    assert_eq!((scene.count(Rpc::ControllerPublishVolume), scene.count(Rpc::ControllerUnpublishVolume)), (100, 100));
    assert!(scene.term().caches.interners.names.len() < 300, "names of what is gone do not pile up");
}

/// The watch is silent: everything after the first event is known from the API server's answers alone.
#[tokio::test(start_paused = true)]
async fn a_cache_that_stands_still_repeats_nothing_and_leaves_no_error() {
    let scene = Scene::start().await;
    scene.pass(Duration::from_millis(100)).await;
    let release = Release::new();
    let failing = Step::fail(Code::Internal, "no").held_by(&release);
    scene.driver.script(Rpc::ControllerPublishVolume, failing);
    scene.add_attachment(attachment());
    scene.driver.wait_for_calls(Rpc::ControllerPublishVolume, 1).await;
    scene.api.react(Matcher::of("watch", "volumeattachments"), Reaction::Hang);
    scene.api.break_watches();
    scene.api.react(Matcher::of("list", "volumeattachments"), Reaction::Hang);
    scene.pass(Duration::from_millis(100)).await;
    release.release();
    let found = scene.attached("pv1-node1").await;
    assert_eq!(found["status"], json!({ "attached": true }), "the error is gone");
    scene.pass(Duration::from_secs(20)).await;
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), 2);
    assert_eq!(scene.writes(), ["hold", "attachError", "attached"]);
}

#[tokio::test(start_paused = true)]
async fn the_first_retry_waits_for_the_backoff_as_all_others() {
    let scene = Scene::start().await;
    scene.driver.script_always(Rpc::ControllerPublishVolume, || Step::fail(Code::Internal, "no"));
    scene.add_attachment(attachment());
    let calls = scene.driver.wait_for_calls(Rpc::ControllerPublishVolume, 5).await;
    let gaps: Vec<u64> = calls.windows(2).map(|two| (two[1].started - two[0].started).as_secs()).collect();
    assert_eq!(gaps, [1, 2, 4, 8]);
}

/// The answer to the error's patch is lost, but the error is saved.
#[tokio::test(start_paused = true)]
async fn an_error_whose_patch_had_no_answer_is_cleared_too() {
    let scene = Scene::start().await;
    scene.pass(Duration::from_millis(100)).await;
    scene.driver.script(Rpc::ControllerPublishVolume, Step::fail(Code::Internal, "no"));
    let status = Matcher::of("patch", "volumeattachments").subresource("status");
    scene.api.react(status.once(), Reaction::LoseAnswer);
    scene.add_attachment(attachment());
    let found = scene.attached("pv1-node1").await;
    assert_eq!(found["status"], json!({ "attached": true }));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_cannot_be_saved_does_not_repeat_the_call_and_keeps_the_context() {
    let scene = Scene::start().await;
    scene.driver.script(
        Rpc::ControllerPublishVolume,
        Step::respond(|_: &ControllerPublishVolumeRequest| {
            Ok(ControllerPublishVolumeResponse { publish_context: [("dev".to_owned(), "sda".to_owned())].into() })
        }),
    );
    let status = Matcher::of("patch", "volumeattachments").subresource("status");
    scene.api.react(status.times(3), Reaction::Refuse(Status::internal_error("etcd")));
    scene.add_attachment(attachment());
    let found = scene.attached("pv1-node1").await;
    assert_eq!(found["status"]["attachmentMetadata"], json!({ "dev": "sda" }));
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), 1);
}

/// Names are made from volume, driver and node, so the next one is called the same.
#[tokio::test(start_paused = true)]
async fn an_attachment_made_anew_under_the_name_inherits_nothing() {
    let scene = Scene::start().await;
    let status = Matcher::of("patch", "volumeattachments").subresource("status");
    scene.api.react(status.clone(), Reaction::Refuse(Status::internal_error("etcd")));
    scene.add_attachment(attachment());
    scene.driver.wait_for_ended_calls(Rpc::ControllerPublishVolume, 1).await;
    scene.pass(Duration::from_millis(100)).await;
    scene.api.remove::<VolumeAttachment>(None, "pv1-node1");
    scene.add_attachment(attachment());
    scene.api.clear_reactions();
    scene.attached("pv1-node1").await;
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), 2, "the new one is published for itself");
}

/// The patch is on its way when the attachment is replaced: it must not touch the new one.
#[tokio::test(start_paused = true)]
async fn a_status_for_an_attachment_that_was_replaced_is_not_written_to_the_new_one() {
    let scene = Scene::start().await;
    let release = Release::new();
    scene.driver.script(Rpc::ControllerPublishVolume, Step::answer().answer_held_by(&release));
    scene.add_attachment(attachment());
    scene.driver.wait_for_calls(Rpc::ControllerPublishVolume, 1).await;
    scene.driver.script_always(Rpc::ControllerPublishVolume, Step::hang);
    scene.api.remove::<VolumeAttachment>(None, "pv1-node1");
    scene.add_attachment(attachment());
    release.release();
    scene.pass(Duration::from_secs(5)).await;
    let found = scene.attachment("pv1-node1").unwrap();
    assert_eq!(found["status"]["attached"], false);
}

#[tokio::test(start_paused = true)]
async fn another_finalizer_that_appears_under_way_is_kept() {
    let scene = Scene::start().await;
    scene.pass(Duration::from_millis(100)).await;
    // The watch is late, so the list in the cache lacks it.
    scene.add_attachment(attachment());
    scene.api.merge::<VolumeAttachment>(None, "pv1-node1", &json!({ "metadata": { "finalizers": ["other/one"] } }));
    let found = scene.attached("pv1-node1").await;
    assert_eq!(found["metadata"]["finalizers"], json!(["other/one", super::objects::FINALIZER]));
}

/// The cache of attachments is ahead of that of volumes.
#[tokio::test(start_paused = true)]
async fn a_volume_that_the_cache_does_not_have_yet_is_asked_for() {
    let scene = Scene::with(config(), |_| ()).await;
    scene.add_node(node("node1", "nodeID1"));
    scene.pass(Duration::from_millis(100)).await;
    scene.api.react(Matcher::of("watch", "persistentvolumes"), Reaction::Hang);
    scene.api.react(Matcher::of("list", "persistentvolumes"), Reaction::Hang);
    scene.api.break_watches();
    scene.add_volume(volume());
    scene.add_attachment(attachment());
    scene.attached("pv1-node1").await;
    assert_eq!(scene.writes(), ["hold", "attached"], "no error in between");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_appears_ends_the_wait_of_its_attachments() {
    let scene = Scene::with(config(), |_| ()).await;
    scene.add_node(node("node1", "nodeID1"));
    scene.add_attachment(attachment());
    scene.pass(Duration::from_mins(20)).await;
    let before = tokio::time::Instant::now();
    scene.add_volume(volume());
    scene.attached("pv1-node1").await;
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_attachment_deleted_while_its_call_waits_for_the_driver_is_not_published() {
    let scene = Scene::start().await;
    scene.pass(Duration::from_millis(100)).await;
    scene.driver.stop().await;
    scene.add_attachment(attachment());
    scene.pass(Duration::from_secs(2)).await;
    scene.delete_attachment("pv1-node1");
    scene.pass(Duration::from_secs(1)).await;
    scene.driver.start_again().await;
    scene.gone("pv1-node1").await;
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), 0);
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 1, "our finalizer was on: the driver is told in any case");
}

/// It would be published for one that is gone, and then again for the new one.
#[tokio::test(start_paused = true)]
async fn an_attachment_made_anew_while_its_call_waits_for_the_driver_is_published_once() {
    let scene = Scene::start().await;
    scene.pass(Duration::from_millis(100)).await;
    scene.driver.stop().await;
    scene.add_attachment(attachment());
    scene.pass(Duration::from_secs(2)).await;
    scene.api.remove::<VolumeAttachment>(None, "pv1-node1");
    scene.add_attachment(attachment());
    scene.pass(Duration::from_secs(1)).await;
    scene.driver.start_again().await;
    scene.attached("pv1-node1").await;
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), 1);
}

/// Another process has attached it, for example the next leader.
#[tokio::test(start_paused = true)]
async fn an_attachment_attached_while_its_call_waits_for_the_driver_is_not_published() {
    let scene = Scene::start().await;
    scene.pass(Duration::from_millis(100)).await;
    scene.driver.stop().await;
    scene.add_attachment(attachment());
    scene.pass(Duration::from_secs(2)).await;
    scene.api.merge::<VolumeAttachment>(None, "pv1-node1", &json!({ "status": { "attached": true } }));
    scene.pass(Duration::from_secs(1)).await;
    scene.driver.start_again().await;
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), 0);
}

#[tokio::test(start_paused = true)]
async fn a_term_that_drains_ends_its_calls_and_starts_none() {
    let scene = Scene::with(super::scene::Config { worker_threads: 1, ..config() }, |_| ()).await;
    scene.add_node(node("node1", "nodeID1"));
    for name in ["a", "b"] {
        scene.add_volume(volume_named(name, name));
        scene.add_attachment(attachment_of(name, name, "node1"));
    }
    scene.driver.script(Rpc::ControllerPublishVolume, Step::answer().after(Duration::from_secs(5)));
    scene.driver.wait_for_calls(Rpc::ControllerPublishVolume, 1).await;
    let before = tokio::time::Instant::now();
    let (api, driver) = scene.stop().await;
    assert!(before.elapsed() <= Duration::from_secs(6));
    let calls = driver.calls_of(Rpc::ControllerPublishVolume);
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].outcome, Outcome::Answered);
    let attached = api.list::<VolumeAttachment>().into_iter().filter(|va| va.status.as_ref().unwrap().attached).count();
    assert_eq!(attached, 1, "what has been published is said");
}

/// A call that still waits for the driver is not worth the wait.
#[tokio::test(start_paused = true)]
async fn a_term_that_drains_gives_up_calls_that_wait_for_the_driver() {
    let scene = Scene::start().await;
    scene.pass(Duration::from_millis(100)).await;
    scene.driver.stop().await;
    scene.add_attachment(attachment());
    scene.pass(Duration::from_secs(2)).await;
    let before = tokio::time::Instant::now();
    let (api, _) = scene.stop().await;
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    let found = api.get_json::<VolumeAttachment>(None, "pv1-node1").unwrap();
    assert_eq!(found["status"], json!({ "attached": false }), "that nothing was tried is no error");
}

/// The list of the volume's finalizers is another when the patch arrives.
#[tokio::test(start_paused = true)]
async fn a_volume_whose_finalizers_change_meanwhile_is_protected_all_the_same() {
    for (before, after) in [(json!(null), json!(["a"])), (json!(["a"]), json!(null))] {
        let scene = Scene::with(config(), |_| ()).await;
        scene.add_node(node("node1", "nodeID1"));
        scene.add_volume(with(volume(), json!({ "metadata": { "finalizers": before } })));
        scene.pass(Duration::from_millis(100)).await;
        scene.api.react(Matcher::of("patch", "persistentvolumes").once(), Reaction::Delay(Duration::from_secs(1)));
        scene.add_attachment(attachment());
        scene.pass(Duration::from_millis(500)).await;
        scene.api.merge::<PersistentVolume>(None, "pv1", &json!({ "metadata": { "finalizers": after } }));
        scene.attached("pv1-node1").await;
        assert_eq!(scene.writes(), ["protect", "protect", "hold", "attached"]);
        let found = scene.api.get_json::<PersistentVolume>(None, "pv1").unwrap();
        let expected =
            if after.is_null() { json!([super::objects::FINALIZER]) } else { json!(["a", super::objects::FINALIZER]) };
        assert_eq!(found["metadata"]["finalizers"], expected);
    }
}

/// A volume handed back to another attachment's node must not be torn from it.
#[tokio::test(start_paused = true)]
async fn a_volume_published_at_an_id_the_node_has_lost_is_unpublished_there_first() {
    let scene = Scene::start().await;
    scene.driver.script(Rpc::ControllerPublishVolume, Step::work_then_fail(Code::Internal, "no"));
    scene.add_attachment(attachment());
    scene.driver.wait_for_ended_calls(Rpc::ControllerPublishVolume, 1).await;
    scene.api.merge::<k8s_openapi::api::storage::v1::CSINode>(
        None,
        "node1",
        &json!({ "spec": { "drivers": [{ "name": "csi/test", "nodeID": "new" }] } }),
    );
    let found = scene.attached("pv1-node1").await;
    assert_eq!(found["metadata"]["annotations"]["csi.alpha.kubernetes.io/node-id"], "new");
    assert_eq!(scene.driver.published_nodes("handle1"), ["new"]);
    let order: Vec<Rpc> = scene
        .driver
        .calls()
        .iter()
        .map(|call| call.rpc)
        .filter(|rpc| [Rpc::ControllerPublishVolume, Rpc::ControllerUnpublishVolume].contains(rpc))
        .collect();
    assert_eq!(order, [Rpc::ControllerPublishVolume, Rpc::ControllerUnpublishVolume, Rpc::ControllerPublishVolume]);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_another_attachment_of_the_volume_is_published_at_is_left_alone() {
    let scene = Scene::start().await;
    scene.driver.publish("handle1", "shared");
    scene.add_attachment(attached(attachment_of("other", "pv1", "node2"), "shared"));
    let before = json!({ "status": { "attached": false } });
    scene.add_attachment(with(attached(attachment(), "shared"), before));
    scene.attached("pv1-node1").await;
    assert_eq!(scene.driver.published_nodes("handle1"), ["nodeID1", "shared"]);
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0);
}

/// The other attachment names the id, and was never held: nothing is published for it.
#[tokio::test(start_paused = true)]
async fn an_id_that_another_attachment_only_names_is_left() {
    let scene = Scene::start().await;
    scene.driver.publish("handle1", "shared");
    let never_held = json!({ "metadata": { "finalizers": null }, "status": { "attached": false } });
    scene.add_attachment(with(attached(attachment_of("other", "pv1", "node2"), "shared"), never_held));
    scene.add_attachment(with(attached(attachment(), "shared"), json!({ "status": { "attached": false } })));
    scene.attached("pv1-node1").await;
    assert_eq!(scene.driver.published_nodes("handle1"), ["nodeID1"]);
}

/// A node id that somebody else has noted: without our finalizer nothing was published there.
#[tokio::test(start_paused = true)]
async fn an_id_on_an_attachment_that_we_never_held_is_only_replaced() {
    let scene = Scene::start().await;
    let noted = json!({ "metadata": { "annotations": { "csi.alpha.kubernetes.io/node-id": "old" } } });
    scene.add_attachment(with(attachment(), noted));
    let found = scene.attached("pv1-node1").await;
    assert_eq!(found["metadata"]["annotations"]["csi.alpha.kubernetes.io/node-id"], "nodeID1");
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0);
}

/// The call fails when its attachment has been replaced: the new one has an attach of its own under way.
#[tokio::test(start_paused = true)]
async fn an_error_is_not_told_of_the_attachment_that_was_made_anew() {
    let scene = Scene::start().await;
    let release = Release::new();
    scene.driver.script(Rpc::ControllerPublishVolume, Step::fail(Code::Internal, "no").held_by(&release));
    scene.add_attachment(attachment());
    scene.driver.wait_for_calls(Rpc::ControllerPublishVolume, 1).await;
    scene.driver.script_always(Rpc::ControllerPublishVolume, Step::hang);
    scene.api.remove::<VolumeAttachment>(None, "pv1-node1");
    scene.add_attachment(attachment());
    scene.pass(Duration::from_millis(100)).await;
    release.release();
    scene.pass(Duration::from_secs(5)).await;
    assert!(!scene.writes().contains(&"attachError".to_owned()), "{:?}", scene.writes());
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_remembered_of_what_the_cache_shows() {
    let scene = Scene::start().await;
    scene.add_attachment(attachment());
    scene.attached("pv1-node1").await;
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    scene.api.delete::<PersistentVolume>(None, "pv1");
    scene.pass(Duration::from_secs(1)).await;
    assert!(scene.api.list::<PersistentVolume>().is_empty(), "the volume is free to go");
}

/// The watches stand still, so only the API server's answers tell that somebody deletes it.
#[tokio::test(start_paused = true)]
async fn an_attachment_that_is_found_deleted_when_it_is_to_be_held_is_not_published() {
    let scene = Scene::start().await;
    scene.pass(Duration::from_millis(100)).await;
    let bare = json!({ "metadata": { "finalizers": ["kubernetes.io/pv-protection"] } });
    scene.api.merge::<PersistentVolume>(None, "pv1", &bare);
    scene.api.react(Matcher::of("patch", "persistentvolumes"), Reaction::Delay(Duration::from_secs(5)));
    scene.add_attachment(with(attachment(), json!({ "metadata": { "finalizers": ["other"] } })));
    scene.pass(Duration::from_secs(1)).await;
    scene.api.react(Matcher::of("watch", "volumeattachments"), Reaction::Hang);
    scene.api.react(Matcher::of("list", "volumeattachments"), Reaction::Hang);
    scene.api.break_watches();
    scene.pass(Duration::from_secs(1)).await;
    scene.delete_attachment("pv1-node1");
    scene.pass(Duration::from_secs(20)).await;
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), 0);
    let found = scene.attachment("pv1-node1").unwrap();
    assert_eq!(found["metadata"]["finalizers"], json!(["other"]));
    assert!(found["status"].get("attachError").is_none(), "{found}");
}

/// Gone between the look and the patch.
#[tokio::test(start_paused = true)]
async fn a_volume_that_vanishes_before_it_is_protected_is_not_published() {
    let scene = Scene::start().await;
    let bare = json!({ "metadata": { "finalizers": ["kubernetes.io/pv-protection"] } });
    scene.api.merge::<PersistentVolume>(None, "pv1", &bare);
    scene.pass(Duration::from_millis(100)).await;
    scene.api.react(Matcher::of("patch", "persistentvolumes"), Reaction::Delay(Duration::from_secs(5)));
    scene.add_attachment(attachment());
    scene.pass(Duration::from_secs(1)).await;
    scene.api.remove::<PersistentVolume>(None, "pv1");
    let found = scene.status("pv1-node1", |status| status.get("attachError").is_some()).await;
    assert_eq!(found["status"]["attachError"]["message"], "persistentvolume \"pv1\" not found");
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), 0);
}
