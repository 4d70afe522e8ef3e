//! Writes whose answer is lost, late or an error: the calls are not repeated, and nothing wrong stays.

use std::collections::BTreeMap;
use std::time::Duration;

use csi_proto::csi::v1::{ControllerPublishVolumeRequest, ControllerPublishVolumeResponse};
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Outcome, Rpc, Step};
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::json;
use tonic::Code;

use super::objects::{FINALIZER, attached, attachment, volume, with};
use super::scene::{Scene, config};

fn successful(scene: &Scene, rpc: Rpc) -> usize {
    scene.driver.calls_of(rpc).iter().filter(|call| call.outcome == Outcome::Answered).count()
}

fn context(pairs: &[(&str, &str)]) -> Step {
    let publish_context: BTreeMap<String, String> = pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    Step::respond(move |_: &ControllerPublishVolumeRequest| Ok(ControllerPublishVolumeResponse { publish_context }))
}

/// No watch of these objects says anything for a while.
async fn silence(scene: &Scene, resource: &str) {
    for verb in ["watch", "list"] {
        scene.api.react(Matcher::of(verb, resource).times(4), Reaction::Hang);
    }
    scene.api.break_watches();
    scene.pass(Duration::from_millis(10)).await;
}

/// Every patch of a whole life, in each of the ways in which it can go wrong, with watches that tell and watches that
/// say nothing for a while.
#[tokio::test(start_paused = true)]
async fn whatever_patch_goes_wrong_each_call_succeeds_once_and_nothing_is_left() {
    let lives = [
        ("hold", Matcher::of("patch", "volumeattachments").subresource("").once()),
        ("attached", Matcher::of("patch", "volumeattachments").subresource("status").after(1).once()),
        ("attachError", Matcher::of("patch", "volumeattachments").subresource("status").once()),
        ("release", Matcher::of("patch", "volumeattachments").subresource("").after(1).once()),
        ("protect", Matcher::of("patch", "persistentvolumes").once()),
        ("unprotect", Matcher::of("patch", "persistentvolumes").after(1).once()),
    ];
    let ways = [
        Reaction::LoseAnswer,
        Reaction::Refuse(Status::internal_error("etcd")),
        Reaction::BreakConnection,
        Reaction::DelayAnswer(Duration::from_secs(5)),
    ];
    for (patch, matcher) in &lives {
        for way in &ways {
            for silent in [false, true] {
                let case = format!("{patch}, {way:?}, silent: {silent}");
                let scene = Scene::with(config(), |_| ()).await;
                scene.add_volume(with(
                    volume(),
                    json!({ "metadata": { "finalizers": ["kubernetes.io/pv-protection"] } }),
                ));
                scene.add_node(super::objects::node("node1", "nodeID1"));
                scene.pass(Duration::from_millis(100)).await;
                let fails = Step::fail(Code::Internal, "no").after(Duration::from_millis(50));
                scene.driver.script(Rpc::ControllerPublishVolume, fails);
                scene.api.react(matcher.clone(), way.clone());
                if silent {
                    silence(&scene, "persistentvolumes").await;
                }
                scene.add_attachment(attachment());
                scene.pass(Duration::from_millis(10)).await;
                if silent {
                    silence(&scene, "volumeattachments").await;
                }
                let found = scene.attached("pv1-node1").await;
                scene.pass(Duration::from_mins(2)).await;
                assert_eq!(found["status"], json!({ "attached": true }), "{case}");
                assert_eq!(successful(&scene, Rpc::ControllerPublishVolume), 1, "{case}");
                scene.delete_attachment("pv1-node1");
                scene.gone("pv1-node1").await;
                scene.pass(Duration::from_mins(2)).await;
                assert_eq!(successful(&scene, Rpc::ControllerUnpublishVolume), 1, "{case}");
                scene.api.delete::<PersistentVolume>(None, "pv1");
                scene.pass(Duration::from_mins(1)).await;
                let left = scene.api.get_json::<PersistentVolume>(None, "pv1").unwrap();
                assert_eq!(left["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]), "{case}");
            }
        }
    }
}

/// The finalizer is appended twice when the answer to the first patch is lost and the watch is silent: both go.
#[tokio::test(start_paused = true)]
async fn a_finalizer_that_is_on_a_volume_twice_comes_off_twice() {
    let scene = Scene::with(config(), |_| ()).await;
    scene.add_volume(with(volume(), json!({ "metadata": { "finalizers": [FINALIZER, "other", FINALIZER] } })));
    scene.pass(Duration::from_millis(100)).await;
    scene.api.delete::<PersistentVolume>(None, "pv1");
    scene.pass(Duration::from_secs(1)).await;
    let left = scene.api.get_json::<PersistentVolume>(None, "pv1").unwrap();
    assert_eq!(left["metadata"]["finalizers"], json!(["other"]));
}

/// The status is saved and its answer lost. What the driver said is of no use once somebody takes the mark away.
#[tokio::test(start_paused = true)]
async fn what_a_driver_said_is_not_said_again_of_a_later_state() {
    let scene = Scene::start().await;
    scene.driver.script(Rpc::ControllerPublishVolume, context(&[("dev", "sda")]));
    let status = Matcher::of("patch", "volumeattachments").subresource("status");
    scene.api.react(status.once(), Reaction::LoseAnswer);
    scene.add_attachment(attachment());
    scene.attached("pv1-node1").await;
    scene.pass(Duration::from_mins(1)).await;
    scene.driver.script(Rpc::ControllerPublishVolume, context(&[("dev", "sdb")]));
    scene.api.merge::<VolumeAttachment>(
        None,
        "pv1-node1",
        &json!({ "status": { "attached": false, "attachmentMetadata": null } }),
    );
    let found = scene.attached("pv1-node1").await;
    assert_eq!(found["status"]["attachmentMetadata"], json!({ "dev": "sdb" }));
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), 2);
}

/// A repair brought another publish context, and the API server is away when it is to be saved.
#[tokio::test(start_paused = true)]
async fn a_changed_publish_context_is_saved_when_that_fails_at_first() {
    for refused in
        [Matcher::of("patch", "volumeattachments").times(3), Matcher::of("get", "volumeattachments").times(3)]
    {
        let scene = Scene::listing().await;
        let before = json!({ "status": { "attachmentMetadata": { "dev": "sda" } } });
        scene.add_attachment(with(attached(attachment(), "nodeID1"), before));
        scene.driver.script(Rpc::ControllerPublishVolume, context(&[("dev", "sdb")]));
        scene.api.react(refused, Reaction::Refuse(Status::internal_error("etcd")));
        scene.pass(Duration::from_secs(65)).await;
        scene.driver.wait_for_calls(Rpc::ControllerPublishVolume, 1).await;
        scene.driver.publish("handle1", "nodeID1");
        scene.pass(Duration::from_mins(10)).await;
        let found = scene.attachment("pv1-node1").unwrap();
        assert_eq!(found["status"], json!({ "attached": true, "attachmentMetadata": { "dev": "sdb" } }));
        assert_eq!(scene.count(Rpc::ControllerPublishVolume), 1);
        assert_eq!(scene.term().remembered.len(), 0);
    }
}

/// Others hold the attachment: that it is detached must be said, however often it takes.
#[tokio::test(start_paused = true)]
async fn a_detach_whose_status_cannot_be_saved_at_first_is_said_in_the_end() {
    let scene = Scene::start().await;
    let held = json!({ "metadata": { "finalizers": [FINALIZER, "z/last"] }, "status": { "attachmentMetadata": { "a": "b" } } });
    scene.add_attachment(with(attached(attachment(), "nodeID1"), held));
    scene.pass(Duration::from_millis(100)).await;
    let status = Matcher::of("patch", "volumeattachments").subresource("status");
    scene.api.react(status.times(3), Reaction::Refuse(Status::internal_error("etcd")));
    scene.delete_attachment("pv1-node1");
    let found = scene.status("pv1-node1", |status| status["attached"] == false).await;
    assert_eq!(found["status"], json!({ "attached": false }));
    assert_eq!(found["metadata"]["finalizers"], json!(["z/last"]));
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 1);
    assert_eq!(scene.writes(), ["release", "detached", "detached", "detached", "detached"]);
}

/// More than the API server takes: it would refuse the status for ever, and nobody would know why.
#[tokio::test(start_paused = true)]
async fn a_publish_context_that_is_too_large_is_told() {
    let scene = Scene::start().await;
    let large = |size: usize| {
        let value = "x".repeat(size - 3);
        Step::respond(move |_: &ControllerPublishVolumeRequest| {
            Ok(ControllerPublishVolumeResponse { publish_context: [("key".to_owned(), value)].into() })
        })
    };
    scene.driver.script(Rpc::ControllerPublishVolume, large((256 << 10) + 1));
    scene.driver.script(Rpc::ControllerPublishVolume, large(256 << 10));
    scene.add_attachment(attachment());
    let found = scene.status("pv1-node1", |status| status.get("attachError").is_some()).await;
    let message = found["status"]["attachError"]["message"].as_str().unwrap();
    assert!(message.contains("262145") && message.contains("262144"), "{message}");
    let found = scene.attached("pv1-node1").await;
    assert_eq!(found["status"]["attachmentMetadata"]["key"].as_str().unwrap().len(), (256 << 10) - 3);
    assert!(found["status"].get("attachError").is_none());
}

/// It was attached in between: the same reason is news again.
#[tokio::test(start_paused = true)]
async fn an_error_that_comes_back_after_a_success_is_told_again() {
    let scene = Scene::start().await;
    let told = |status: &serde_json::Value| status.get("attachError").is_some();
    scene.api.remove::<k8s_openapi::api::storage::v1::CSINode>(None, "node1");
    scene.add_attachment(attachment());
    scene.status("pv1-node1", told).await;
    scene.add_node(super::objects::node("node1", "nodeID1"));
    scene.attached("pv1-node1").await;
    scene.api.remove::<k8s_openapi::api::storage::v1::CSINode>(None, "node1");
    scene.pass(Duration::from_secs(1)).await;
    scene.api.merge::<VolumeAttachment>(None, "pv1-node1", &json!({ "status": { "attached": false } }));
    scene.status("pv1-node1", told).await;
}

/// An error that is told once is told again after another one.
#[tokio::test(start_paused = true)]
async fn an_error_that_comes_back_is_told_again() {
    let scene = Scene::start().await;
    let (gone, back) = (
        || scene.api.remove::<k8s_openapi::api::storage::v1::CSINode>(None, "node1"),
        || {
            scene.add_node(super::objects::node("node1", "nodeID1"));
        },
    );
    gone();
    scene.driver.script_always(Rpc::ControllerPublishVolume, || Step::fail(Code::Internal, "no"));
    scene.add_attachment(attachment());
    let message = |text: &'static str| {
        let scene = &scene;
        async move {
            scene
                .status("pv1-node1", |status| {
                    status["attachError"]["message"].as_str().is_some_and(|message| message.contains(text))
                })
                .await
        }
    };
    message("not found").await;
    back();
    message("desc = no").await;
    gone();
    message("not found").await;
}
