//! Which segments there are, as nodes come, change and go.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use serde_json::{Value, json};

use super::super::objects::DRIVER;
use super::super::scene::Scene;
use super::pool::{Pool, add_class, add_csi_node, add_node, add_zone, all, flags, late, scene};
use crate::capacity::segments::of_cluster;

/// With one class, so that each segment has one object.
async fn start(prepare: impl FnOnce(&fake_apiserver::FakeApiServer)) -> Scene {
    scene(flags(), &Pool::default(), |api| {
        add_class(api, late("fast", 1));
        prepare(api);
    })
    .await
}

/// What the objects select, as `key=value` pairs.
fn selected(scene: &Scene) -> Vec<String> {
    let mut all: Vec<_> = all(&scene.api)
        .into_iter()
        .map(|object| {
            let labels = object.node_topology.and_then(|topology| topology.match_labels).unwrap_or_default();
            labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
        })
        .collect();
    all.sort();
    all
}

async fn becomes(scene: &Scene, expected: &[&str]) {
    scene.pass(Duration::from_secs(5)).await;
    assert_eq!(selected(scene), expected);
}

struct Row {
    name: &'static str,
    nodes: &'static [(&'static str, &'static [(&'static str, &'static str)])],
    csi_nodes: &'static [(&'static str, &'static [&'static str])],
    segments: &'static [&'static str],
}

const A: &[(&str, &str)] = &[("zone", "a")];
const B: &[(&str, &str)] = &[("zone", "b")];
const A_R: &[(&str, &str)] = &[("zone", "a"), ("rack", "r")];
const ZONE: &[&str] = &["zone"];

const ROWS: [Row; 11] = [
    Row { name: "one node", nodes: &[("n1", A)], csi_nodes: &[("n1", ZONE)], segments: &["zone=a"] },
    Row { name: "no CSINode", nodes: &[("n1", A)], csi_nodes: &[], segments: &[] },
    Row { name: "no Node", nodes: &[], csi_nodes: &[("n1", ZONE)], segments: &[] },
    Row { name: "no label", nodes: &[("n1", &[])], csi_nodes: &[("n1", ZONE)], segments: &[] },
    Row {
        name: "two nodes",
        nodes: &[("n1", A), ("n2", B)],
        csi_nodes: &[("n1", ZONE), ("n2", ZONE)],
        segments: &["zone=a", "zone=b"],
    },
    Row {
        name: "two nodes with one value",
        nodes: &[("n1", A), ("n2", A)],
        csi_nodes: &[("n1", ZONE), ("n2", ZONE)],
        segments: &["zone=a"],
    },
    Row {
        name: "different sets of keys",
        nodes: &[("n1", A_R), ("n2", A_R)],
        csi_nodes: &[("n1", ZONE), ("n2", &["zone", "rack"])],
        segments: &["rack=r,zone=a", "zone=a"],
    },
    Row {
        name: "partially equal",
        nodes: &[("n1", A_R), ("n2", &[("zone", "a"), ("rack", "s")])],
        csi_nodes: &[("n1", &["zone", "rack"]), ("n2", &["zone", "rack"])],
        segments: &["rack=r,zone=a", "rack=s,zone=a"],
    },
    Row {
        name: "keys in another order",
        nodes: &[("n1", A_R), ("n2", A_R)],
        csi_nodes: &[("n1", &["zone", "rack"]), ("n2", &["rack", "zone"])],
        segments: &["rack=r,zone=a"],
    },
    Row { name: "no keys", nodes: &[("n1", A)], csi_nodes: &[("n1", &[])], segments: &[""] },
    Row {
        name: "one node lacks a label",
        nodes: &[("n1", A), ("n2", A_R)],
        csi_nodes: &[("n1", &["zone", "rack"]), ("n2", &["zone", "rack"])],
        segments: &["rack=r,zone=a"],
    },
];

#[tokio::test(start_paused = true)]
async fn every_cluster_has_its_segments() {
    for row in ROWS {
        let scene = start(|api| {
            for (node, labels) in row.nodes {
                let labels: serde_json::Map<String, Value> =
                    labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
                add_node(api, node, &Value::Object(labels));
            }
            row.csi_nodes.iter().for_each(|(node, keys)| add_csi_node(api, node, keys));
        })
        .await;
        scene.pass(Duration::from_secs(5)).await;
        assert_eq!(selected(&scene), row.segments, "{}", row.name);
    }
}

#[tokio::test(start_paused = true)]
async fn another_driver_has_no_segments() {
    let scene = start(|api| {
        add_node(api, "n1", &json!({ "zone": "a" }));
        let driver = json!({ "name": "other.csi.example.com", "nodeID": "n1", "topologyKeys": ["zone"] });
        api.create_json::<CSINode>(json!({ "metadata": { "name": "n1" }, "spec": { "drivers": [driver] } }));
    })
    .await;
    becomes(&scene, &[]).await;
    let term = scene.term();
    let nodes = term.caches.nodes.as_ref().unwrap();
    assert!(of_cluster(nodes, &scene.process.capacity.as_ref().unwrap().table).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_segment_goes_with_its_node_its_csi_node_or_its_driver() {
    let scene = start(|api| ["a", "b", "c", "d"].iter().for_each(|zone| add_zone(api, zone))).await;
    becomes(&scene, &["zone=a", "zone=b", "zone=c", "zone=d"]).await;
    scene.api.remove::<Node>(None, "a");
    becomes(&scene, &["zone=b", "zone=c", "zone=d"]).await;
    scene.api.remove::<CSINode>(None, "b");
    becomes(&scene, &["zone=c", "zone=d"]).await;
    scene.api.merge::<CSINode>(None, "c", &json!({ "spec": { "drivers": [] } }));
    becomes(&scene, &["zone=d"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_comes_needs_its_key_and_its_label() {
    let scene = start(|api| {
        add_node(api, "n1", &json!({}));
        api.create_json::<CSINode>(json!({ "metadata": { "name": "n1" }, "spec": { "drivers": [] } }));
        add_node(api, "n2", &json!({}));
        api.create_json::<CSINode>(json!({ "metadata": { "name": "n2" }, "spec": { "drivers": [] } }));
    })
    .await;
    let drivers = json!({ "spec": { "drivers": [{ "name": DRIVER, "nodeID": "n", "topologyKeys": ["zone"] }] } });
    becomes(&scene, &[]).await;
    scene.api.merge::<CSINode>(None, "n1", &drivers);
    scene.api.merge::<Node>(None, "n2", &json!({ "metadata": { "labels": { "zone": "b" } } }));
    becomes(&scene, &[]).await;
    scene.api.merge::<Node>(None, "n1", &json!({ "metadata": { "labels": { "zone": "a" } } }));
    becomes(&scene, &["zone=a"]).await;
    scene.api.merge::<CSINode>(None, "n2", &drivers);
    becomes(&scene, &["zone=a", "zone=b"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_other_half_of_a_node_may_come_later() {
    let scene = start(|api| {
        add_node(api, "n1", &json!({ "zone": "a" }));
        add_csi_node(api, "n2", &["zone"]);
    })
    .await;
    becomes(&scene, &[]).await;
    add_csi_node(&scene.api, "n1", &["zone"]);
    add_node(&scene.api, "n2", &json!({ "zone": "b" }));
    becomes(&scene, &["zone=a", "zone=b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_label_that_matters_to_nobody_changes_nothing() {
    let scene = start(|api| add_zone(api, "a")).await;
    becomes(&scene, &["zone=a"]).await;
    let calls = scene.count(fake_driver::Rpc::GetCapacity);
    scene.api.merge::<Node>(None, "a", &json!({ "metadata": { "labels": { "disk": "ssd" } } }));
    becomes(&scene, &["zone=a"]).await;
    assert_eq!(scene.count(fake_driver::Rpc::GetCapacity), calls);
}
