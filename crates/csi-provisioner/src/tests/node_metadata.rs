//! How nodes are watched.

use std::time::Duration;

use fake_apiserver::Request;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::cluster::{NodeIs, late_class, node, scene, selected};
use super::objects::{claim, with};
use super::scene::{Scene, flags};

const NODES: &[NodeIs] = &[node("n1", &["zone"], &[("zone", "z1")]), node("n2", &["zone"], &[("zone", "z2")])];

fn of_nodes(scene: &Scene) -> Vec<std::sync::Arc<Request>> {
    scene.api.requests().into_iter().filter(|request| request.resource == "nodes").collect()
}

/// Status updates of nodes are the busiest writes of a cluster: a node is never asked for in full, and never by itself.
#[tokio::test(start_paused = true)]
async fn c7_nodes_are_watched_as_metadata_and_never_fetched() {
    let scene = scene(flags(), NODES).await;
    scene.add_class(late_class("late"));
    let uid = scene.add_claim(with(claim("data", "late"), &selected("n2")));
    scene.volume(&format!("pvc-{uid}")).await;
    // Through another list, and heartbeats.
    scene.api.expire_watches();
    for round in 0..50 {
        scene.api.merge::<Node>(None, "n1", &json!({ "status": { "phase": round.to_string() } }));
        scene.pass(Duration::from_secs(10)).await;
    }
    let requests = of_nodes(&scene);
    for request in &requests {
        assert!(["list", "watch"].contains(&request.verb), "{}", request.summary());
        assert!(request.is_metadata_only(), "{}: {}", request.summary(), request.accept);
    }
    assert!(requests.len() < 20, "one watch, not one request for each volume or heartbeat");
}

/// No topology, no watch of the nodes.
#[tokio::test(start_paused = true)]
async fn nodes_are_not_watched_for_a_driver_without_topology() {
    let scene = Scene::start().await;
    scene.pass(Duration::from_mins(1)).await;
    assert!(of_nodes(&scene).is_empty());
}
