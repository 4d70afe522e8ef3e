//! What the status says of an attach, and what it does not say any more.

use csi_proto::csi::v1::{ControllerPublishVolumeRequest, ControllerPublishVolumeResponse};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;
use tonic::Code;

use super::objects::{attached, attachment, node, secret, volume, with};
use super::scene::{Scene, config};

/// Kubelet takes a pod for one above the limit of its node by the code alone.
#[tokio::test(start_paused = true)]
async fn n13_an_error_without_a_code_does_not_keep_that_of_the_one_before() {
    let scene = Scene::with(config(), |_| ()).await;
    let secret_ref =
        json!({ "spec": { "csi": { "controllerPublishSecretRef": { "namespace": "default", "name": "s" } } } });
    scene.add_volume(with(volume(), secret_ref));
    scene.add_node(node("node1", "nodeID1"));
    scene.add_secret(secret("s", json!({})));
    scene.driver.script(Rpc::ControllerPublishVolume, Step::fail(Code::ResourceExhausted, "full"));
    scene.add_attachment(attachment());
    scene.status("pv1-node1", |status| status["attachError"]["errorCode"] == 8).await;
    scene.api.delete::<Secret>(Some("default"), "s");
    let says = |text: &'static str| {
        move |status: &serde_json::Value| {
            status["attachError"]["message"].as_str().is_some_and(|message| message.contains(text))
        }
    };
    let found = scene.status("pv1-node1", says("failed to load secret")).await;
    assert!(found["status"]["attachError"].get("errorCode").is_none(), "{found}");
}

/// A merge patch keeps the keys that it does not name.
#[tokio::test(start_paused = true)]
async fn n14_the_status_has_exactly_the_last_publish_context() {
    let rows = [(&["dev", "new"][..], json!({ "dev": "sdb", "new": "sdb" })), (&[], json!(null))];
    for (keys, expected) in rows {
        let scene = Scene::start().await;
        scene.driver.script(
            Rpc::ControllerPublishVolume,
            Step::respond(move |_: &ControllerPublishVolumeRequest| {
                let publish_context = keys.iter().map(|&key| (key.to_owned(), "sdb".to_owned())).collect();
                Ok(ControllerPublishVolumeResponse { publish_context })
            }),
        );
        let left = json!({ "attached": false, "attachmentMetadata": { "dev": "sda", "old": "x" } });
        scene.add_attachment(with(attached(attachment(), "nodeID1"), json!({ "status": left })));
        let found = scene.attached("pv1-node1").await;
        assert_eq!(found["status"]["attachmentMetadata"], expected);
        assert_eq!(scene.writes(), ["attached"]);
    }
}
