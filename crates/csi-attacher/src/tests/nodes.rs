//! Nodes that come, go, and come back as others.

use std::time::Duration;

use csi_proto::csi::v1::ControllerUnpublishVolumeRequest;
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Release, Rpc, Step};
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use serde_json::json;
use tonic::Code;

use super::objects::{attached, attachment, attachment_of, node, node_without_driver, volume, volume_named, with};
use super::scene::{Config, Scene, config};

async fn without_node() -> Scene {
    let scene = Scene::with(config(), |_| ()).await;
    scene.add_volume(volume());
    scene.add_attachment(attachment());
    scene
}

/// The pod is scheduled before the driver's registrar is done: that is no error.
#[tokio::test(start_paused = true)]
async fn an_attachment_waits_for_its_node_without_an_error() {
    for first in [None, Some(node_without_driver("node1"))] {
        let scene = without_node().await;
        if let Some(node) = first {
            scene.add_node(node);
        }
        scene.pass(Duration::from_secs(8)).await;
        let before = tokio::time::Instant::now();
        scene.api.remove::<CSINode>(None, "node1");
        scene.add_node(node("node1", "nodeID1"));
        scene.attached("pv1-node1").await;
        assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
        assert_eq!(scene.writes(), ["hold", "attached"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stays_away_is_told_once_and_still_waited_for() {
    let scene = without_node().await;
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.writes(), ["attachError"]);
    let request = scene.api.requests().into_iter().rfind(|request| request.subresource == "status").unwrap();
    let error = &request.body["status"]["attachError"];
    assert_eq!(error["message"], "csinode.storage.k8s.io \"node1\" not found");
    let before = tokio::time::Instant::now();
    scene.add_node(node_without_driver("node1"));
    scene.pass(Duration::from_mins(10)).await;
    assert_eq!(scene.writes(), ["attachError"; 2], "another reason is told");
    scene.api.merge::<CSINode>(
        None,
        "node1",
        &json!({ "spec": { "drivers": [{ "name": "csi/test", "nodeID": "n" }] } }),
    );
    scene.attached("pv1-node1").await;
    assert!(before.elapsed() < Duration::from_secs(601));
}

/// The three forms of a node that is not there at detach, and one that came back under another id.
#[tokio::test(start_paused = true)]
async fn d2_a_volume_is_detached_at_the_id_it_was_attached_at() {
    type Act = fn(&Scene);
    let rows: [(&str, Act, &[&str]); 4] = [
        ("the CSINode is gone", |scene| scene.api.remove::<CSINode>(None, "node1"), &["nodeID1"]),
        (
            "the driver's entry is gone",
            |scene| {
                let other = json!({ "spec": { "drivers": [{ "name": "other", "nodeID": "x" }] } });
                scene.api.merge::<CSINode>(None, "node1", &other);
            },
            &["nodeID1"],
        ),
        (
            "the CSINode has no drivers",
            |scene| {
                scene.api.merge::<CSINode>(None, "node1", &json!({ "spec": { "drivers": null } }));
            },
            &["nodeID1"],
        ),
        (
            "the node came back under another id",
            |scene| {
                scene.api.remove::<CSINode>(None, "node1");
                scene.add_node(node("node1", "another"));
            },
            &["nodeID1", "another"],
        ),
    ];
    for (case, act, ids) in rows {
        let scene = Scene::start().await;
        scene.add_attachment(attachment());
        scene.attached("pv1-node1").await;
        act(&scene);
        scene.pass(Duration::from_millis(100)).await;
        scene.delete_attachment("pv1-node1");
        scene.gone("pv1-node1").await;
        assert_eq!(scene.unpublished_at(), ids, "{case}");
        assert!(scene.driver.published_nodes("handle1").is_empty(), "{case}");
        assert!(!scene.writes().contains(&"detachError".to_owned()), "{case}");
    }
}

/// An attachment from before the annotation, whose node is away: as soon as the node is known it can be detached.
#[tokio::test(start_paused = true)]
async fn d2_without_a_noted_id_the_node_must_be_known() {
    let scene = Scene::with(config(), |_| ()).await;
    scene.add_volume(volume());
    let mut old = attached(attachment(), "");
    old["metadata"]["annotations"] = json!(null);
    scene.add_attachment(old);
    scene.delete_attachment("pv1-node1");
    scene.pass(Duration::from_secs(1)).await;
    let found = scene.attachment("pv1-node1").unwrap();
    assert_eq!(found["status"]["detachError"]["message"], "csinode.storage.k8s.io \"node1\" not found");
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0, "no guess");
    scene.add_node(node("node1", "nodeID1"));
    scene.gone("pv1-node1").await;
    assert_eq!(scene.unpublished()[0].node_id, "nodeID1");
}

/// A new version of the driver calls the same machine otherwise, and says OK or NOT_FOUND to ids that it does not know.
#[tokio::test(start_paused = true)]
async fn n12_a_volume_is_detached_at_both_ids_of_its_node() {
    for answer in [Code::Ok, Code::NotFound] {
        let scene = Scene::start().await;
        scene.add_attachment(attached(attachment(), "before"));
        scene.driver.publish("handle1", "nodeID1");
        scene.driver.script_by(move |request: &ControllerUnpublishVolumeRequest| {
            (request.node_id == "before" && answer != Code::Ok).then(|| Step::fail(answer, "no such node"))
        });
        scene.pass(Duration::from_millis(100)).await;
        scene.delete_attachment("pv1-node1");
        scene.gone("pv1-node1").await;
        assert_eq!(scene.unpublished_at(), ["before", "nodeID1"], "{answer:?}");
        assert!(scene.driver.published_nodes("handle1").is_empty(), "{answer:?}");
        assert_eq!(scene.writes(), ["release"], "{answer:?}");
    }
}

/// The driver is updated while the call waits for it: the call goes out at the id that the node had when the detach began.
#[tokio::test(start_paused = true)]
async fn n12_an_id_that_the_node_gets_while_the_detach_waits_is_called_too() {
    let scene = Scene::start().await;
    scene.driver.publish("handle1", "nodeID1");
    scene.add_attachment(attached(attachment(), "nodeID1"));
    scene.pass(Duration::from_millis(100)).await;
    let release = Release::new();
    scene.driver.script(Rpc::ControllerUnpublishVolume, Step::answer().held_by(&release));
    scene.delete_attachment("pv1-node1");
    scene.driver.wait_for_calls(Rpc::ControllerUnpublishVolume, 1).await;
    let renamed = json!({ "spec": { "drivers": [{ "name": "csi/test", "nodeID": "after" }] } });
    scene.api.merge::<CSINode>(None, "node1", &renamed);
    scene.pass(Duration::from_millis(100)).await;
    release.release();
    scene.gone("pv1-node1").await;
    assert_eq!(scene.unpublished_at(), ["nodeID1", "after"]);
}

/// What the driver says of the id that the node had keeps the volume from no detach at the id that the node has.
#[tokio::test(start_paused = true)]
async fn n12_a_failure_at_one_id_holds_up_no_detach_at_the_other() {
    let scene = Scene::start().await;
    scene.driver.publish("handle1", "nodeID1");
    scene.add_attachment(attached(attachment(), "before"));
    scene.driver.script_by(|request: &ControllerUnpublishVolumeRequest| {
        (request.node_id == "before").then(|| Step::fail(Code::InvalidArgument, "no id of this driver"))
    });
    scene.pass(Duration::from_millis(100)).await;
    scene.delete_attachment("pv1-node1");
    scene.pass(Duration::from_secs(10)).await;
    assert!(scene.driver.published_nodes("handle1").is_empty());
    assert!(scene.attachment("pv1-node1").is_some(), "the other id is not done");
}

/// What else the driver may say of the id that the node had, and NOT_FOUND where it is the only one: the volume may be there.
#[tokio::test(start_paused = true)]
async fn n12_only_not_found_of_a_former_id_counts_as_detached() {
    let rows = [
        ("before", Code::Internal, true),
        ("before", Code::Unavailable, true),
        ("nodeID1", Code::NotFound, true),
        ("before", Code::NotFound, false),
    ];
    for (id, code, registered) in rows {
        let scene = Scene::with(config(), |_| ()).await;
        scene.add_volume(volume());
        if registered {
            scene.add_node(node("node1", "nodeID1"));
        }
        scene.add_attachment(attached(attachment(), "before"));
        scene.driver.script_by(move |request: &ControllerUnpublishVolumeRequest| {
            (request.node_id == id).then(|| Step::fail(code, "no"))
        });
        scene.pass(Duration::from_millis(100)).await;
        scene.delete_attachment("pv1-node1");
        scene.pass(Duration::from_mins(1)).await;
        let found = scene.attachment("pv1-node1").expect("the attachment stays");
        assert!(found["status"]["detachError"]["message"].as_str().unwrap().ends_with("desc = no"), "{id} {code:?}");
    }
}

/// A try at the id that the node had before, whatever became of it, holds up no attach at the present one.
#[tokio::test(start_paused = true)]
async fn n12_an_id_that_the_driver_does_not_know_holds_up_no_attach() {
    let scene = Scene::start().await;
    scene.driver.script(Rpc::ControllerUnpublishVolume, Step::fail(Code::NotFound, "no such node"));
    scene.add_attachment(with(attached(attachment(), "before"), json!({ "status": { "attached": false } })));
    scene.attached("pv1-node1").await;
    assert_eq!(
        (scene.unpublished_at(), scene.writes()),
        (vec!["before".to_owned()], ["hold", "attached"].map(String::from).to_vec())
    );
}

/// Two Node names with one id at the driver, such as a machine that was renamed.
async fn shared_id() -> Scene {
    let scene = Scene::start().await;
    scene.add_node(node("node2", "nodeID1"));
    scene.driver.publish("handle1", "nodeID1");
    scene.add_attachment(attached(attachment(), "nodeID1"));
    scene.add_attachment(attached(attachment_of("pv1-node2", "pv1", "node2"), "nodeID1"));
    scene.pass(Duration::from_millis(100)).await;
    scene
}

#[tokio::test(start_paused = true)]
async fn n1_nothing_is_unpublished_where_another_attachment_has_the_volume() {
    let scene = shared_id().await;
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(scene.driver.published_nodes("handle1"), ["nodeID1"]);
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0);
    scene.delete_attachment("pv1-node2");
    scene.gone("pv1-node2").await;
    assert!(scene.driver.published_nodes("handle1").is_empty(), "the last one detaches");
}

/// Neither may leave it to the other.
#[tokio::test(start_paused = true)]
async fn n1_two_that_go_at_the_same_time_leave_nothing_published() {
    let scene = shared_id().await;
    scene.delete_attachment("pv1-node1");
    scene.delete_attachment("pv1-node2");
    scene.gone("pv1-node1").await;
    scene.gone("pv1-node2").await;
    assert!(scene.driver.published_nodes("handle1").is_empty());
}

/// Somebody has taken our finalizer off.
#[tokio::test(start_paused = true)]
async fn n1_another_attachment_counts_when_its_status_alone_says_that_it_is_attached() {
    let scene = shared_id().await;
    let bare = json!({ "metadata": { "finalizers": null } });
    scene.api.merge::<VolumeAttachment>(None, "pv1-node2", &bare);
    scene.pass(Duration::from_millis(100)).await;
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0);
}

/// Their calls would overtake each other at the driver.
#[tokio::test(start_paused = true)]
async fn n1_an_attach_waits_for_the_detach_of_another_attachment_at_the_same_id() {
    let scene = Scene::start().await;
    scene.add_node(node("node2", "nodeID1"));
    scene.add_attachment(attached(attachment(), "nodeID1"));
    scene.pass(Duration::from_millis(100)).await;
    let release = Release::new();
    scene.driver.script(Rpc::ControllerUnpublishVolume, Step::answer().held_by(&release));
    scene.delete_attachment("pv1-node1");
    scene.driver.wait_for_calls(Rpc::ControllerUnpublishVolume, 1).await;
    scene.add_attachment(attachment_of("pv1-node2", "pv1", "node2"));
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), 0);
    release.release();
    scene.attached("pv1-node2").await;
    assert_eq!(scene.driver.published_nodes("handle1"), ["nodeID1"]);
    assert_eq!(scene.term().call_turns.len(), 0);
}

/// The node of the other attachment has the id by now, and had another when the volume was attached there.
#[tokio::test(start_paused = true)]
async fn n1_the_present_id_of_another_attachments_node_counts_too() {
    let scene = shared_id().await;
    scene.api.remove::<VolumeAttachment>(None, "pv1-node2");
    scene.add_attachment(attached(attachment_of("pv1-node2", "pv1", "node2"), "before"));
    scene.pass(Duration::from_millis(100)).await;
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    assert_eq!(scene.driver.published_nodes("handle1"), ["nodeID1"]);
}

/// The CSINode changes while the call waits for its turn: it is published where the node is by then.
#[tokio::test(start_paused = true)]
async fn n3_the_node_id_is_looked_at_again_at_the_moment_of_the_call() {
    let scene = Scene::with(Config { worker_threads: 1, ..config() }, |_| ()).await;
    scene.add_volume(volume());
    scene.add_volume(volume_named("pv2", "handle2"));
    scene.add_node(node("node1", "a"));
    let release = Release::new();
    scene.driver.script(Rpc::ControllerPublishVolume, Step::answer().held_by(&release));
    scene.add_attachment(attachment());
    scene.driver.wait_for_calls(Rpc::ControllerPublishVolume, 1).await;
    scene.add_attachment(attachment_of("pv2-node1", "pv2", "node1"));
    scene.pass(Duration::from_secs(1)).await;
    let renamed = json!({ "spec": { "drivers": [{ "name": "csi/test", "nodeID": "b" }] } });
    scene.api.merge::<CSINode>(None, "node1", &renamed);
    scene.pass(Duration::from_millis(100)).await;
    let before = tokio::time::Instant::now();
    release.release();
    let found = scene.attached("pv2-node1").await;
    assert!(before.elapsed() < Duration::from_secs(1), "no backoff: {:?}", before.elapsed());
    assert_eq!(found["metadata"]["annotations"]["csi.alpha.kubernetes.io/node-id"], "b");
    let at: Vec<_> = scene.published().into_iter().map(|call| (call.volume_id, call.node_id)).collect();
    assert_eq!(at, [("handle1", "a"), ("handle2", "b")].map(|(volume, node)| (volume.to_owned(), node.to_owned())));
    assert!(!scene.writes().contains(&"attachError".to_owned()), "{:?}", scene.writes());
}

/// The same for a node that is gone by then: it is waited for.
#[tokio::test(start_paused = true)]
async fn n3_a_call_whose_node_is_gone_meanwhile_is_not_made() {
    let scene = Scene::with(config(), |_| ()).await;
    scene.add_volume(volume());
    scene.add_node(node("node1", "nodeID1"));
    scene.pass(Duration::from_millis(100)).await;
    scene.driver.stop().await;
    scene.add_attachment(attachment());
    scene.pass(Duration::from_secs(2)).await;
    scene.api.remove::<CSINode>(None, "node1");
    scene.driver.start_again().await;
    scene.pass(Duration::from_secs(5)).await;
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), 0);
    scene.add_node(node("node1", "nodeID1"));
    scene.attached("pv1-node1").await;
    assert_eq!(scene.writes(), ["hold", "attached"]);
}

/// A Role without csinodes: what is noted is enough to detach, and the attach says which right is missing.
#[tokio::test(start_paused = true)]
async fn n4_without_the_right_to_nodes_volumes_are_detached_and_attaches_name_the_right() {
    let scene = Scene::without_the_right_to_nodes().await;
    scene.add_volume(volume_named("pv2", "handle2"));
    scene.driver.publish("handle1", "nodeID1");
    scene.add_attachment(attached(attachment(), "nodeID1"));
    scene.delete_attachment("pv1-node1");
    scene.add_attachment(attachment_of("pv2-node1", "pv2", "node1"));
    scene.gone("pv1-node1").await;
    assert!(scene.driver.published_nodes("handle1").is_empty());
    let found = scene.status("pv2-node1", |status| status.get("attachError").is_some()).await;
    let message = found["status"]["attachError"]["message"].as_str().unwrap();
    assert!(message.contains("list and watch csinodes of storage.k8s.io"), "{message}");
    scene.pass(Duration::from_mins(20)).await;
    let told = scene.writes().iter().filter(|write| *write == "attachError").count();
    assert_eq!((told, scene.count(Rpc::ControllerPublishVolume)), (1, 0));
    scene.api.clear_reactions();
    scene.attached("pv2-node1").await;
}

/// A list that fails for another reason is waited for: a node may have another id than the noted one.
#[tokio::test(start_paused = true)]
async fn n4_nodes_that_cannot_be_listed_for_another_reason_are_waited_for() {
    let scene = Scene::prepared(|api, _| {
        api.react(Matcher::of("list", "csinodes"), Reaction::Refuse(Status::internal_error("etcd")));
    })
    .await;
    scene.add_volume(volume());
    scene.add_node(node("node1", "nodeID1"));
    scene.add_attachment(attached(attachment(), "before"));
    scene.delete_attachment("pv1-node1");
    scene.pass(Duration::from_mins(5)).await;
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0);
    scene.api.clear_reactions();
    scene.gone("pv1-node1").await;
    assert_eq!(scene.unpublished_at(), ["before", "nodeID1"]);
}
