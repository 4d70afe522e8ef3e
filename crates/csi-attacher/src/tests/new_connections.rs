//! A driver that was restarted is asked at once for all it has failed to do.

use std::time::Duration;

use fake_driver::{Rpc, Step};
use serde_json::json;
use tokio::time::Instant;
use tonic::Code;

use super::objects::{attached, attachment, node, volume, with};
use super::scene::Scene;

#[tokio::test(start_paused = true)]
async fn n15_a_restarted_driver_is_asked_again_at_once_for_attaches_and_detaches() {
    let scene = Scene::start().await;
    for rpc in [Rpc::ControllerPublishVolume, Rpc::ControllerUnpublishVolume] {
        scene.driver.script_always(rpc, || Step::fail(Code::Internal, "backend is away"));
    }
    scene.add_attachment(attachment());
    scene.add_volume(with(
        volume(),
        json!({ "metadata": { "name": "pv2" }, "spec": { "csi": { "volumeHandle": "h2" } } }),
    ));
    scene.add_node(node("node2", "nodeID2"));
    let second = json!({ "metadata": { "name": "pv2-node2" }, "spec": {
        "nodeName": "node2", "source": { "persistentVolumeName": "pv2" } } });
    scene.add_attachment(attached(with(attachment(), second), "nodeID2"));
    scene.delete_attachment("pv2-node2");
    scene.pass(Duration::from_mins(10)).await;
    scene.driver.stop().await;
    scene.driver.forget_script();
    scene.driver.start_again().await;
    let back = Instant::now();
    scene.attached("pv1-node1").await;
    scene.gone("pv2-node2").await;
    assert!(back.elapsed() < Duration::from_secs(5), "{:?}", back.elapsed());
}
