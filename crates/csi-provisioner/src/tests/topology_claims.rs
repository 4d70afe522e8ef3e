//! What is asked of the driver for claims in a cluster, from the first call to the last repetition.

use std::time::Duration;

use csi_proto::csi::v1::{CreateVolumeRequest, CreateVolumeResponse, Topology, Volume};
use fake_apiserver::{FakeApiServer, Matcher, Reaction};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use serde_json::json;
use storage_kube::topology::Segment;
use tonic::Code;

use super::cluster::{
    NodeIs, allowed, create, csi_node_json, distinct, late_class, node, node_json, scene, segments, selected, terms,
};
use super::objects::{claim, class, with};
use super::rescheduling::failed;
use super::scene::{Scene, flags};
use crate::settings::ProvisioningFlags;

const ZONE: &[&str] = &["zone"];
const ZONES: &[NodeIs] = &[
    node("node-0", ZONE, &[("zone", "zone1")]),
    node("node-1", ZONE, &[("zone", "zone2")]),
    node("node-2", ZONE, &[("zone", "zone3")]),
];

/// Where each request so far wanted its volume, in short: requisite and preferred.
fn asked(scene: &Scene) -> Vec<Option<(Vec<Segment>, Vec<Segment>)>> {
    let requests = scene.driver.requests::<CreateVolumeRequest>();
    requests.iter().map(|request| request.accessibility_requirements.as_ref().map(segments)).collect()
}

fn zones(zones: &[&str]) -> Vec<Segment> {
    zones.iter().map(|zone| Segment::from_iter([("zone", *zone)])).collect()
}

fn answer_with(scene: &Scene, place: &'static [(&'static str, &'static str)]) {
    let segments = place.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let respond = move |_: &CreateVolumeRequest| {
        let accessible_topology = vec![Topology { segments }];
        let volume = Volume { volume_id: "handle".to_owned(), accessible_topology, ..Volume::default() };
        Ok(CreateVolumeResponse { volume: Some(volume) })
    };
    scene.driver.script(Rpc::CreateVolume, Step::respond(respond));
}

fn remove_nodes(api: &FakeApiServer, nodes: &[NodeIs]) {
    for node in nodes {
        api.delete::<CSINode>(None, node.name);
        api.delete::<Node>(None, node.name);
    }
}

const ZONE_RACK: &[&str] = &["zone", "rack"];
const TWO: &[NodeIs] = &[
    node("node-0", ZONE_RACK, &[("zone", "zone1"), ("rack", "rack1")]),
    node("node-1", ZONE_RACK, &[("zone", "zone1"), ("rack", "rack2")]),
];

#[tokio::test(start_paused = true)]
async fn the_volume_is_where_the_driver_says() {
    let scene = scene(flags(), TWO).await;
    answer_with(&scene, &[("zone", "zone1"), ("rack", "rack2")]);
    scene.add_class(class("fast", json!({})));
    let uid = scene.add_claim(claim("data", "fast"));
    let volume = scene.volume(&format!("pvc-{uid}")).await;
    let is = |key: &str, value: &str| json!({ "key": key, "operator": "In", "values": [value] });
    let term = json!({ "matchExpressions": [is("rack", "rack2"), is("zone", "zone1")] });
    assert_eq!(volume["spec"]["nodeAffinity"], json!({ "required": { "nodeSelectorTerms": [term] } }));
    let places = terms(&[&[("zone", "zone1"), ("rack", "rack1")], &[("zone", "zone1"), ("rack", "rack2")]]);
    assert_eq!(asked(&scene)[0].as_ref().unwrap().0, places);
}

#[tokio::test(start_paused = true)]
async fn without_any_node_nothing_is_created_and_the_wait_has_a_reason() {
    let bare: Vec<_> = TWO.iter().map(|node| NodeIs { labels: None, ..*node }).collect();
    let scene = scene(flags(), &bare).await;
    scene.add_class(class("fast", json!({})));
    scene.add_claim(claim("data", "fast"));
    assert!(scene.event("ProvisioningFailed").await.contains("no available topology found"));
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
    assert!(scene.writes().is_empty());
}

/// A driver without topology, and the gate turned off: nodes are nobody's business, there or not.
#[tokio::test(start_paused = true)]
async fn where_topology_has_no_say_nodes_do_not_matter() {
    let off = ProvisioningFlags { topology_gate: false, ..flags() };
    for scene in [Scene::start().await, scene(off, &[]).await] {
        answer_with(&scene, &[("zone", "zone1")]);
        scene.add_class(late_class("late"));
        let uid = scene.add_claim(with(claim("data", "late"), &selected("node-9")));
        let volume = scene.volume(&format!("pvc-{uid}")).await;
        assert!(volume["spec"]["nodeAffinity"].is_null());
        assert_eq!(asked(&scene), [None]);
    }
}

/// The rows of the table "Cache": a first call whose outcome is unknown, then Node and CSINode are gone.
#[tokio::test(start_paused = true)]
async fn a7_a_repeated_request_is_the_first_one_when_the_nodes_are_gone() {
    let strict = || ProvisioningFlags { strict_topology: true, ..flags() };
    let two_zones = || json!({ "allowedTopologies": allowed(&[&[("zone", &["zone1", "zone2"])]]) });
    let all = &["zone1", "zone2", "zone3"][..];
    let cases = [
        ("delayed, node-0", flags(), Some("node-0"), json!({}), all, &["zone1", "zone2", "zone3"][..]),
        ("delayed, node-1", flags(), Some("node-1"), json!({}), all, &["zone2", "zone3", "zone1"]),
        ("delayed, allowed", flags(), Some("node-0"), two_zones(), &["zone1", "zone2"], &["zone1", "zone2"]),
        ("strict", strict(), Some("node-0"), json!({}), &["zone1"], &["zone1"]),
        ("strict, allowed", strict(), Some("node-0"), two_zones(), &["zone1"], &["zone1"]),
        ("immediate", flags(), None, json!({}), all, &["zone3", "zone1", "zone2"]),
        ("immediate, allowed", flags(), None, two_zones(), &["zone1", "zone2"], &["zone1", "zone2"]),
    ];
    assert_eq!(cases.len(), 7);
    for (case, flags, node, change, requisite, preferred) in cases {
        let scene = scene(flags, ZONES).await;
        let base = if node.is_some() { late_class("late") } else { class("late", json!({})) };
        scene.add_class(with(base, &change));
        for _ in 0..3 {
            scene.driver.script(Rpc::CreateVolume, Step::work_then_fail(Code::DeadlineExceeded, "slow"));
        }
        let selection = node.map_or(json!({}), selected);
        let uid = scene.add_claim(with(claim("testpvc", "late"), &selection));
        scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
        remove_nodes(&scene.api, ZONES);
        scene.volume(&format!("pvc-{uid}")).await;
        let requests = scene.driver.requests::<CreateVolumeRequest>();
        assert_eq!(requests.len(), 4, "{case}");
        assert!(requests.iter().all(|request| *request == requests[0]), "{case}");
        assert_eq!(asked(&scene)[0], Some((zones(requisite), zones(preferred))), "{case}");
        assert!(scene.events("ProvisioningFailed").iter().all(|text| text.contains("slow")), "{case}");
    }
}

/// Labels, keys and class may also be others than before.
#[tokio::test(start_paused = true)]
async fn a7_a_repeated_request_is_the_first_one_whatever_the_nodes_become() {
    let scene = scene(flags(), ZONES).await;
    scene.add_class(late_class("late"));
    for _ in 0..3 {
        scene.driver.script(Rpc::CreateVolume, Step::work_then_fail(Code::Aborted, "pending"));
    }
    let uid = scene.add_claim(with(claim("data", "late"), &selected("node-1")));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.api.merge::<Node>(None, "node-1", &json!({ "metadata": { "labels": { "zone": "zone9", "rack": "r" } } }));
    let keys =
        json!({ "spec": { "drivers": [{ "name": scene.driver_name(), "nodeID": "x", "topologyKeys": ["rack"] }] } });
    scene.api.merge::<CSINode>(None, "node-1", &keys);
    create(&scene.api, &[node("node-9", ZONE, &[("zone", "zone0")])]);
    scene.api.delete::<StorageClass>(None, "late");
    scene.add_class(with(late_class("late"), &json!({ "allowedTopologies": allowed(&[&[("zone", &["zone7"])]]) })));
    scene.volume(&format!("pvc-{uid}")).await;
    let requests = scene.driver.requests::<CreateVolumeRequest>();
    assert_eq!(requests.len(), 4);
    assert!(requests.iter().all(|request| *request == requests[0]));
}

/// The claim is deleted too: the volume still gets its object, which is then reclaimed.
#[tokio::test(start_paused = true)]
async fn a7_nodes_and_claim_gone_leave_no_volume_behind() {
    let scene = scene(flags(), ZONES).await;
    scene.add_class(late_class("late"));
    for _ in 0..5 {
        scene.driver.script(Rpc::CreateVolume, Step::work_then_fail(Code::DeadlineExceeded, "slow"));
    }
    let uid = scene.add_claim(with(claim("data", "late"), &selected("node-1")));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    remove_nodes(&scene.api, ZONES);
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 2).await;
    let object = scene.api.get_json::<PersistentVolumeClaim>("shop", "data").unwrap();
    let annotations = &object["metadata"]["annotations"];
    assert_eq!(annotations["volume.kubernetes.io/selected-node"], "node-1", "kept while the outcome is unknown");
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    let name = format!("pvc-{uid}");
    scene.volume(&name).await;
    scene.release(&name);
    scene.volume_gone(&name).await;
    assert!(scene.driver.volumes().is_empty());
    assert!(!scene.writes().contains(&"update persistentvolumeclaims".to_owned()));
}

/// After a final answer the next request is made of the nodes as they are.
#[tokio::test(start_paused = true)]
async fn a_final_answer_ends_what_was_remembered_of_the_nodes() {
    let scene = scene(flags(), ZONES).await;
    scene.add_class(late_class("late"));
    scene.driver.script(Rpc::CreateVolume, Step::fail(Code::Internal, "no"));
    let uid = scene.add_claim(with(claim("data", "late"), &selected("node-1")));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    remove_nodes(&scene.api, &ZONES[2..]);
    scene.volume(&format!("pvc-{uid}")).await;
    let asked = asked(&scene);
    assert_eq!(asked[0].as_ref().unwrap().1, zones(&["zone2", "zone3", "zone1"]));
    assert_eq!(asked[1].as_ref().unwrap().1, zones(&["zone2", "zone1"]));
}

const FOUR_KEYS: &[&str] = &["region", "zone", "rack", "host"];

/// The rows of the table "Label fallback".
#[tokio::test(start_paused = true)]
async fn a_label_that_is_missing_is_named_and_its_arrival_ends_the_wait() {
    let nodes = [node("node-0", FOUR_KEYS, &[("region", "r"), ("zone", "z"), ("rack", "k")])];
    let scene = scene(flags(), &nodes).await;
    scene.add_class(late_class("late"));
    let uid = scene.add_claim(with(claim("data", "late"), &selected("node-0")));
    let text = scene.event("ProvisioningFailed").await;
    assert!(text.contains("node labels") && text.contains("topology keys") && text.contains("host"), "{text}");
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
    let before = tokio::time::Instant::now();
    scene.api.merge::<Node>(None, "node-0", &json!({ "metadata": { "labels": { "host": "h" } } }));
    scene.volume(&format!("pvc-{uid}")).await;
    assert!(before.elapsed() < Duration::from_secs(1), "not only by backoff");
    let place = terms(&[&[("region", "r"), ("zone", "z"), ("rack", "k"), ("host", "h")]]);
    assert_eq!(asked(&scene), [Some((place.clone(), place))]);
}

/// The node plugin comes after the claims, and its Node or its CSINode last.
#[tokio::test(start_paused = true)]
async fn claims_that_wait_for_the_first_node_are_woken_by_it() {
    for csi_node_last in [true, false] {
        let scene = scene(flags(), &[]).await;
        scene.add_class(class("fast", json!({})));
        let uid = scene.add_claim(claim("data", "fast"));
        scene.pass(Duration::from_hours(1)).await;
        assert!(scene.event("ProvisioningFailed").await.contains("registered on no node with topology keys"));
        let (node, csi_node) = (node_json(&ZONES[0]).unwrap(), csi_node_json(&ZONES[0]).unwrap());
        if csi_node_last {
            scene.api.create_json::<Node>(node);
        } else {
            scene.api.create_json::<CSINode>(csi_node.clone());
        }
        scene.pass(Duration::from_secs(1)).await;
        assert_eq!(scene.count(Rpc::CreateVolume), 0);
        let before = tokio::time::Instant::now();
        if csi_node_last {
            scene.api.create_json::<CSINode>(csi_node);
        } else {
            scene.api.create_json::<Node>(node_json(&ZONES[0]).unwrap());
        }
        scene.volume(&format!("pvc-{uid}")).await;
        assert!(before.elapsed() < Duration::from_secs(1), "not only by backoff, CSINode last: {csi_node_last}");
    }
}

/// Heartbeats, other drivers and other nodes are no reason to ask again.
#[tokio::test(start_paused = true)]
async fn a_node_that_changes_nothing_keeps_the_backoff() {
    let nodes = [node("node-0", &[], &[("zone", "z")]), node("node-1", ZONE, &[("zone", "z")])];
    let scene = scene(flags(), &nodes).await;
    scene.add_class(late_class("late"));
    scene.add_claim(with(claim("data", "late"), &selected("node-0")));
    scene.pass(Duration::from_mins(10)).await;
    let before = failed(&scene);
    for round in 0..100 {
        scene.api.merge::<Node>(None, "node-0", &json!({ "status": { "phase": round.to_string() } }));
        scene.api.merge::<Node>(None, "node-1", &json!({ "metadata": { "labels": { "round": round.to_string() } } }));
        scene.pass(Duration::from_millis(10)).await;
    }
    assert!(failed(&scene) <= before + 1);
}

/// Nodes come up by the dozen before the first of them has the driver.
#[tokio::test(start_paused = true)]
async fn nodes_without_the_driver_wake_no_claim() {
    let scene = scene(flags(), &[]).await;
    scene.add_class(class("late", json!({})));
    scene.add_claim(claim("data", "late"));
    scene.pass(Duration::from_mins(10)).await;
    let before = failed(&scene);
    for number in 0..100 {
        let name = format!("node-{number}");
        scene.api.create_json::<Node>(json!({ "metadata": { "name": name, "labels": { "zone": "z" } } }));
        scene.api.create_json::<CSINode>(json!({ "metadata": { "name": name }, "spec": { "drivers": [] } }));
        scene.pass(Duration::from_millis(10)).await;
    }
    assert!(failed(&scene) <= before + 1);
}

/// A hundred claims, and again in another process: one set of places, none of them missing.
#[tokio::test(start_paused = true)]
async fn a10_a_hundred_claims_get_the_same_places_in_every_process() {
    const NODES: &[NodeIs] = &[
        node("node-0", &["region"], &[("region", "r1")]),
        node("node-1", &["region", "zone"], &[("region", "r1"), ("zone", "z1")]),
        node("node-2", &["zone", "region"], &[("region", "r2"), ("zone", "z2")]),
    ];
    let mut requisites = Vec::new();
    for _ in 0..2 {
        let scene = scene(flags(), NODES).await;
        scene.add_class(class("fast", json!({})));
        for number in 0..100 {
            scene.add_claim(claim(&format!("data-{number}"), "fast"));
        }
        scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 100).await;
        requisites.extend(asked(&scene).into_iter().map(|asked| asked.unwrap().0));
    }
    let all = terms(&[&[("region", "r1")], &[("region", "r1"), ("zone", "z1")], &[("region", "r2"), ("zone", "z2")]]);
    assert_eq!(distinct(requisites), [(all, 200)].into());
}

/// A node that old schedulers chose counts, although it does not end the wait for the first consumer.
#[tokio::test(start_paused = true)]
async fn a_node_selected_under_the_alpha_annotation_is_the_selected_one() {
    let scene = scene(flags(), ZONES).await;
    scene.add_class(class("fast", json!({})));
    let alpha = json!({ "metadata": { "annotations": { "volume.alpha.kubernetes.io/selected-node": "node-1" } } });
    let uid = scene.add_claim(with(claim("data", "fast"), &alpha));
    scene.volume(&format!("pvc-{uid}")).await;
    assert_eq!(asked(&scene)[0].as_ref().unwrap().1, zones(&["zone2", "zone3", "zone1"]));
}

/// The watch of the nodes is behind: what is decided is decided on what is known, and is right once they are known.
#[tokio::test(start_paused = true)]
async fn work_starts_when_the_nodes_are_known() {
    let slow = |api: &FakeApiServer| {
        create(api, ZONES);
        api.react(Matcher::of("watch", "nodes"), Reaction::Delay(Duration::from_secs(20)));
        api.create_json::<StorageClass>(class("fast", json!({})));
        api.create_json::<PersistentVolumeClaim>(claim("data", "fast"));
    };
    let scene = Scene::configured(|_| (), super::cluster::topology_driver, slow).await;
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    assert_eq!(asked(&scene)[0].as_ref().unwrap().0, zones(&["zone1", "zone2", "zone3"]));
    assert_eq!(scene.events("ProvisioningFailed"), Vec::<String>::new());
}

#[test]
fn a_claim_waits_for_its_node_or_for_any() {
    use crate::claim::awaiting_nodes::{Awaited, AwaitingNodes};
    use storage_kube::names::{ClaimUid, NodeName};
    let waiting = AwaitingNodes::default();
    let [one, two, three, four] = ["1", "2", "3", "4"].map(ClaimUid::from);
    waiting.wait(&one, Awaited::AnyNode);
    waiting.wait(&two, Awaited::Node(NodeName::from("a")));
    waiting.wait(&three, Awaited::Node(NodeName::from("b")));
    waiting.wait(&four, Awaited::KeysOf(NodeName::from("d")));
    assert_eq!(waiting.take(&NodeName::from("a"), false, false), [two]);
    assert!(waiting.for_several());
    assert_eq!(waiting.take(&NodeName::from("c"), true, false), [one]);
    assert!(waiting.for_several());
    assert_eq!(waiting.take(&NodeName::from("c"), true, true), [four]);
    assert!(!waiting.for_several());
    waiting.forget(&three);
    assert_eq!(waiting.len(), 0);
    assert_eq!(waiting.take(&NodeName::from("b"), true, true), Vec::<ClaimUid>::new());
}
