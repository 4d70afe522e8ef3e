//! Nodes that come, go, and come back as others.

use std::time::Duration;

use fake_driver::Rpc;
use k8s_openapi::api::storage::v1::CSINode;
use serde_json::json;

use super::objects::{attached, attachment, node, node_without_driver, volume};
use super::scene::{Scene, config};

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
    let rows: [(&str, Act); 4] = [
        ("the CSINode is gone", |scene| scene.api.remove::<CSINode>(None, "node1")),
        ("the driver's entry is gone", |scene| {
            scene.api.merge::<CSINode>(
                None,
                "node1",
                &json!({ "spec": { "drivers": [{ "name": "other", "nodeID": "x" }] } }),
            );
        }),
        ("the CSINode has no drivers", |scene| {
            scene.api.merge::<CSINode>(None, "node1", &json!({ "spec": { "drivers": null } }));
        }),
        ("the node came back under another id", |scene| {
            scene.api.remove::<CSINode>(None, "node1");
            scene.add_node(node("node1", "another"));
        }),
    ];
    for (case, act) in rows {
        let scene = Scene::start().await;
        scene.add_attachment(attachment());
        scene.attached("pv1-node1").await;
        act(&scene);
        scene.pass(Duration::from_millis(100)).await;
        scene.delete_attachment("pv1-node1");
        scene.gone("pv1-node1").await;
        assert_eq!(scene.unpublished().len(), 1, "{case}");
        assert_eq!(scene.unpublished()[0].node_id, "nodeID1", "{case}");
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
