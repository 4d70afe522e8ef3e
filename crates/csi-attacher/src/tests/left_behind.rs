//! Attachments that vanish while their volume is being published: nobody else would detach it.

use std::time::Duration;

use fake_apiserver::{Matcher, Reaction};
use fake_driver::{Outcome, Release, Rpc, Step};
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use tonic::Code;

use super::objects::{attached, attachment, attachment_of, node};
use super::scene::Scene;

/// Deleted by force (finalizers stripped) while the call is on its way.
async fn vanishes_during(scene: &Scene, step: Step, release: &Release) {
    scene.driver.script(Rpc::ControllerPublishVolume, step);
    scene.add_attachment(attachment());
    scene.driver.wait_for_calls(Rpc::ControllerPublishVolume, 1).await;
    scene.api.remove::<VolumeAttachment>(None, "pv1-node1");
    scene.pass(Duration::from_secs(1)).await;
    release.release();
}

/// Published, or perhaps published: the answer is an error, or does not come.
#[tokio::test(start_paused = true)]
async fn a_volume_published_for_an_attachment_that_vanished_is_unpublished() {
    type Make = fn(&Release) -> Step;
    let rows: [(&str, Make); 3] = [
        ("answered", |release| Step::answer().answer_held_by(release)),
        ("failed", |release| Step::work_then_fail(Code::Internal, "no").answer_held_by(release)),
        ("not answered", |_| Step::answer().answered_after(Duration::from_mins(1))),
    ];
    for (case, step) in rows {
        let scene = Scene::start().await;
        let release = Release::new();
        vanishes_during(&scene, step(&release), &release).await;
        scene.pass(Duration::from_mins(1)).await;
        assert!(scene.driver.published_nodes("handle1").is_empty(), "{case}");
        let unpublished = scene.unpublished();
        assert_eq!(unpublished.len(), 1, "{case}");
        assert_eq!((unpublished[0].volume_id.as_str(), unpublished[0].node_id.as_str()), ("handle1", "nodeID1"));
        assert_eq!(scene.term().left_behind.len(), 0, "{case}");
        assert_eq!(scene.count(Rpc::ControllerPublishVolume), 1, "{case}");
    }
}

/// At the second try, when our finalizer is on already and nothing but the end of the attachment is heard.
#[tokio::test(start_paused = true)]
async fn it_is_unpublished_after_a_later_try_too() {
    let scene = Scene::start().await;
    let release = Release::new();
    scene.driver.script(Rpc::ControllerPublishVolume, Step::fail(Code::Internal, "no"));
    scene.driver.script(Rpc::ControllerPublishVolume, Step::answer().answer_held_by(&release));
    scene.add_attachment(attachment());
    scene.driver.wait_for_calls(Rpc::ControllerPublishVolume, 2).await;
    scene.api.remove::<VolumeAttachment>(None, "pv1-node1");
    scene.pass(Duration::from_secs(1)).await;
    release.release();
    scene.pass(Duration::from_secs(1)).await;
    assert!(scene.driver.published_nodes("handle1").is_empty());
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 1);
}

/// The watch tells of it only after the status has met nothing.
#[tokio::test(start_paused = true)]
async fn it_is_unpublished_when_the_watch_is_late_too() {
    let scene = Scene::start().await;
    let release = Release::new();
    scene.driver.script(Rpc::ControllerPublishVolume, Step::answer().answer_held_by(&release));
    scene.add_attachment(attachment());
    scene.driver.wait_for_calls(Rpc::ControllerPublishVolume, 1).await;
    scene.api.react(Matcher::of("watch", "volumeattachments"), Reaction::Hang);
    scene.api.react(Matcher::of("list", "volumeattachments"), Reaction::Hang);
    scene.api.break_watches();
    scene.pass(Duration::from_secs(1)).await;
    scene.api.remove::<VolumeAttachment>(None, "pv1-node1");
    release.release();
    scene.pass(Duration::from_secs(5)).await;
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0, "not known yet");
    scene.api.clear_reactions();
    scene.api.break_watches();
    scene.pass(Duration::from_mins(5)).await;
    assert!(scene.driver.published_nodes("handle1").is_empty());
    assert_eq!((scene.count(Rpc::ControllerUnpublishVolume), scene.term().left_behind.len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn unpublishing_it_is_tried_until_it_succeeds() {
    let scene = Scene::start().await;
    let release = Release::new();
    for _ in 0..3 {
        scene.driver.script(Rpc::ControllerUnpublishVolume, Step::fail(Code::Aborted, "busy"));
    }
    vanishes_during(&scene, Step::answer().answer_held_by(&release), &release).await;
    scene.pass(Duration::from_mins(1)).await;
    assert!(scene.driver.published_nodes("handle1").is_empty());
    let gaps: Vec<u64> = scene
        .driver
        .calls_of(Rpc::ControllerUnpublishVolume)
        .windows(2)
        .map(|two| (two[1].started - two[0].started).as_secs())
        .collect();
    assert_eq!(gaps, [1, 2, 4]);
    assert!(scene.writes().iter().all(|write| write == "hold" || write == "attached"), "{:?}", scene.writes());
}

/// Made anew under the name: it has the volume at the same node, and detaches it when its time comes.
#[tokio::test(start_paused = true)]
async fn an_attachment_made_anew_meanwhile_keeps_the_volume() {
    let scene = Scene::start().await;
    let release = Release::new();
    scene.driver.script(Rpc::ControllerPublishVolume, Step::answer().answer_held_by(&release));
    scene.add_attachment(attachment());
    scene.driver.wait_for_calls(Rpc::ControllerPublishVolume, 1).await;
    scene.api.remove::<VolumeAttachment>(None, "pv1-node1");
    scene.add_attachment(attachment());
    scene.pass(Duration::from_secs(1)).await;
    release.release();
    scene.attached("pv1-node1").await;
    scene.pass(Duration::from_mins(10)).await;
    assert_eq!(scene.driver.published_nodes("handle1"), ["nodeID1"]);
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0);
    assert_eq!(scene.term().left_behind.len(), 0);
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    assert!(scene.driver.published_nodes("handle1").is_empty());
}

/// Made anew while the call that undoes the first waits for the driver.
#[tokio::test(start_paused = true)]
async fn nothing_is_undone_for_an_attachment_that_is_there_again_when_the_driver_is() {
    let scene = Scene::start().await;
    let release = Release::new();
    vanishes_during(&scene, Step::answer().answer_held_by(&release), &release).await;
    scene.driver.script(Rpc::ControllerUnpublishVolume, Step::hang());
    scene.driver.wait_for_calls(Rpc::ControllerUnpublishVolume, 1).await;
    scene.driver.stop().await;
    scene.pass(Duration::from_secs(5)).await;
    scene.add_attachment(attachment());
    scene.pass(Duration::from_secs(1)).await;
    scene.driver.start_again().await;
    scene.attached("pv1-node1").await;
    scene.pass(Duration::from_mins(10)).await;
    assert_eq!((scene.count(Rpc::ControllerUnpublishVolume), scene.term().left_behind.len()), (1, 0));
    assert_eq!(scene.driver.published_nodes("handle1"), ["nodeID1"]);
}

/// The one made anew never comes to publish anything: when it goes, the volume of the first is still there.
#[tokio::test(start_paused = true)]
async fn one_made_anew_that_goes_without_publishing_leaves_nothing_behind() {
    let scene = Scene::start().await;
    let release = Release::new();
    scene.driver.script(Rpc::ControllerPublishVolume, Step::answer().answer_held_by(&release));
    scene.add_attachment(attachment());
    scene.driver.wait_for_calls(Rpc::ControllerPublishVolume, 1).await;
    scene.api.remove::<VolumeAttachment>(None, "pv1-node1");
    scene.api.remove::<CSINode>(None, "node1");
    scene.add_attachment(attachment());
    scene.pass(Duration::from_secs(1)).await;
    release.release();
    scene.pass(Duration::from_secs(5)).await;
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0, "the one made anew may want it");
    scene.delete_attachment("pv1-node1");
    scene.pass(Duration::from_secs(5)).await;
    assert!(scene.driver.published_nodes("handle1").is_empty());
}

/// Two nodes under one id: the volume is not torn from the other attachment.
#[tokio::test(start_paused = true)]
async fn a_volume_that_another_attachment_has_at_the_same_id_stays() {
    let scene = Scene::start().await;
    scene.add_node(node("node2", "nodeID1"));
    scene.driver.publish("handle1", "nodeID1");
    scene.add_attachment(attached(attachment_of("other", "pv1", "node2"), "nodeID1"));
    let release = Release::new();
    vanishes_during(&scene, Step::answer().answer_held_by(&release), &release).await;
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(scene.driver.published_nodes("handle1"), ["nodeID1"]);
    assert_eq!((scene.count(Rpc::ControllerUnpublishVolume), scene.term().left_behind.len()), (0, 0));
}

/// What was attached is in use as far as anybody knows: who strips its finalizers takes it over.
#[tokio::test(start_paused = true)]
async fn an_attached_volume_whose_attachment_vanishes_is_left_alone() {
    let scene = Scene::start().await;
    scene.add_attachment(attachment());
    scene.attached("pv1-node1").await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.term().left_behind.len(), 0);
    scene.api.remove::<VolumeAttachment>(None, "pv1-node1");
    scene.pass(Duration::from_mins(10)).await;
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0);
    assert_eq!(scene.driver.published_nodes("handle1"), ["nodeID1"]);
}

/// The status is saved, and only the answer to it is lost.
#[tokio::test(start_paused = true)]
async fn an_attached_volume_is_left_alone_when_only_the_answer_to_its_status_was_lost() {
    let scene = Scene::start().await;
    let status = Matcher::of("patch", "volumeattachments").subresource("status");
    scene.api.react(status.once(), Reaction::LoseAnswer);
    scene.add_attachment(attachment());
    scene.attached("pv1-node1").await;
    scene.pass(Duration::from_millis(100)).await;
    scene.api.remove::<VolumeAttachment>(None, "pv1-node1");
    scene.pass(Duration::from_mins(10)).await;
    assert_eq!((scene.count(Rpc::ControllerUnpublishVolume), scene.term().left_behind.len()), (0, 0));
}

/// A call that was refused before it was sent has published nothing.
#[tokio::test(start_paused = true)]
async fn nothing_is_unpublished_for_a_call_that_was_not_sent() {
    let scene = Scene::start().await;
    scene.pass(Duration::from_millis(100)).await;
    scene.driver.stop().await;
    scene.add_attachment(attachment());
    scene.pass(Duration::from_secs(2)).await;
    scene.api.remove::<VolumeAttachment>(None, "pv1-node1");
    scene.pass(Duration::from_mins(1)).await;
    scene.driver.start_again().await;
    scene.pass(Duration::from_mins(10)).await;
    assert_eq!((scene.count(Rpc::ControllerPublishVolume), scene.count(Rpc::ControllerUnpublishVolume)), (0, 0));
    assert_eq!(scene.term().left_behind.len(), 0);
}

/// Detached before it was ever said to be attached: nothing is left.
#[tokio::test(start_paused = true)]
async fn a_detach_ends_the_care_for_what_may_be_published() {
    let scene = Scene::start().await;
    scene.driver.script_always(Rpc::ControllerPublishVolume, || Step::work_then_fail(Code::Internal, "no"));
    scene.add_attachment(attachment());
    scene.driver.wait_for_ended_calls(Rpc::ControllerPublishVolume, 2).await;
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    scene.pass(Duration::from_mins(1)).await;
    let calls = scene.driver.calls_of(Rpc::ControllerUnpublishVolume);
    assert_eq!(calls.iter().map(|call| &call.outcome).collect::<Vec<_>>(), [&Outcome::Answered]);
    assert_eq!(scene.term().left_behind.len(), 0);
}
