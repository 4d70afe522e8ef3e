//! Nodes that registered different keys, one node alone, and what an aggregate costs.

use std::sync::Arc;

use storage_kube::names::{ClaimName, NodeName};
use storage_kube::topology::Segment;

use super::cluster::{NodeIs, node, segments, terms, view};
use super::objects::DRIVER;
use super::scene::flags;
use crate::records::{CsiNodeRecord, NodeRecord};
use crate::topology::cluster::{ClusterView, NodeFacts};
use crate::topology::error::TopologyError;
use crate::topology::{Requirement, requirement};

const REGION: &[&str] = &["region"];
const REGION_ZONE: &[&str] = &["region", "zone"];

/// Each node counts with the keys that the driver registered there, whatever order the nodes are in.
#[test]
fn a10_nodes_of_different_keys_are_all_there_and_always_the_same() {
    let unregistered = NodeIs { name: "n5", keys: None, labels: Some(&[("region", "r3"), ("zone", "z9")]) };
    let mut nodes = vec![
        node("n1", REGION, &[("region", "r1")]),
        node("n2", REGION, &[("region", "r2"), ("zone", "z2")]),
        node("n3", REGION_ZONE, &[("region", "r1"), ("zone", "z1")]),
        node("n4", REGION_ZONE, &[("zone", "z3"), ("region", "r3")]),
        unregistered,
    ];
    let expected = terms(&[
        &[("region", "r1")],
        &[("region", "r2")],
        &[("region", "r3")],
        &[("region", "r1"), ("zone", "z1")],
        &[("region", "r3"), ("zone", "z3")],
        &[("region", "r3"), ("zone", "z9")],
    ]);
    for _ in 0..nodes.len() {
        nodes.rotate_left(1);
        assert_eq!(*view(&nodes).everywhere().unwrap(), *expected);
    }
}

/// Where another node is selected, its keys are what places are told by, as in the Go provisioner.
#[test]
fn the_keys_of_the_selected_node_decide_for_all() {
    let nodes = [
        node("n1", REGION, &[("region", "r1"), ("zone", "z1")]),
        node("n2", REGION_ZONE, &[("region", "r2"), ("zone", "z2")]),
    ];
    let cases = [
        ("n1", terms(&[&[("region", "r1")], &[("region", "r2")]])),
        ("n2", terms(&[&[("region", "r2"), ("zone", "z2")], &[("region", "r1"), ("zone", "z1")]])),
    ];
    assert_eq!(cases.len(), 2);
    for (selected, expected) in cases {
        let node = NodeName::from(selected);
        let asked = requirement(&flags(), &ClaimName::from("data"), Some(&node), &[], &view(&nodes)).unwrap().unwrap();
        assert_eq!(segments(&(&asked).into()).1, expected, "{selected}");
    }
}

#[test]
fn why_nothing_is_known_of_any_node_is_told_apart() {
    let none = view(&[NodeIs { name: "n1", keys: None, labels: Some(&[("zone", "z1")]) }]);
    assert_eq!(none.everywhere(), Err(TopologyError::NoKeysAnywhere { driver: DRIVER.to_owned() }));
    let unlabelled = view(&[node("n1", REGION, &[("zone", "z1")])]);
    assert_eq!(unlabelled.everywhere(), Err(TopologyError::NoLabelsAnywhere { driver: DRIVER.to_owned() }));
}

/// What a provisioner that serves one node sees of the cluster.
#[test]
fn a_cluster_may_be_one_node() {
    let segment = Segment::from_iter([("zone", "z1"), ("host", "n1")]);
    let cluster = ClusterView::of_node(DRIVER, NodeName::from("n1"), &segment);
    assert_eq!(cluster.place(&NodeName::from("n1")).unwrap().segment, segment);
    assert!(cluster.place(&NodeName::from("n2")).unwrap_err().needs_another_node());
    assert_eq!(*cluster.everywhere().unwrap(), [segment]);
    let nowhere = ClusterView::of_node(DRIVER, NodeName::from("n1"), &Segment::default());
    assert!(matches!(nowhere.place(&NodeName::from("n1")), Err(TopologyError::NoKeys { .. })));
}

fn large(nodes: u32) -> ClusterView {
    let keys: Box<[Arc<str>]> = ["region".into(), "zone".into()].into();
    let driver = Arc::new(CsiNodeRecord::Registered(keys));
    let facts = (0..nodes).map(|number| {
        let label = |key: &str, value: String| (Arc::from(key), Arc::from(value.as_str()));
        let labels: NodeRecord = (0..25)
            .map(|other| label(&format!("label-{other}"), other.to_string()))
            .chain([label("region", (number % 3).to_string()), label("zone", (number % 9).to_string())])
            .collect();
        let facts = NodeFacts { driver: Some(Arc::clone(&driver)), labels: Some(Arc::new(labels)) };
        (NodeName::from(format!("node-{number:05}")), facts)
    });
    ClusterView::of_nodes(DRIVER, facts)
}

/// The nodes are looked at once, not once for each claim, and their places are kept once.
#[test]
fn a_thousand_claims_in_a_cluster_of_5000_nodes_cost_one_look_at_the_nodes() {
    let cluster = large(5000);
    let selected = NodeName::from("node-04711");
    for node in [None, Some(&selected)] {
        let ask = |number: u32| {
            let claim = ClaimName::from(format!("data-web-{number}"));
            requirement(&flags(), &claim, node, &[], &cluster).unwrap().unwrap()
        };
        let place = |asked: &Requirement| std::ptr::from_ref(asked.requisite().next().unwrap());
        let first = ask(0);
        assert_eq!(first.requisite().count(), 9);
        for number in 1..1000 {
            assert!(std::ptr::eq(place(&ask(number)), place(&first)));
        }
        cluster.changed();
        assert!(!std::ptr::eq(place(&ask(0)), place(&first)), "a change of a node ends it");
    }
}
