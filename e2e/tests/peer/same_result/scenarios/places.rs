//! Nodes in three zones, of which the driver serves two, and volumes that are wanted in some of them.

use serde_json::{Value, json};

use super::{Course, QUICK, Scenario, Setup, bound, setup};

/// Each site has label keys of its own: values are gathered from all nodes that have them.
const DRIVER: &[&str] = &["--topology=SITE/zone=a", "--known-topology=SITE/zone=b"];

const STRICT_ONCE: &[&str] = &["--retry-interval-start=1h", "--retry-interval-max=2h", "--strict-topology"];

pub(super) fn setups() -> Vec<Setup> {
    let places = |name, flags, scenarios| Setup {
        driver: DRIVER,
        flags,
        objects: ["a", "b", "c"].iter().flat_map(|zone| node(zone)).collect(),
        ..setup(name, scenarios)
    };
    vec![
        places("places", &[QUICK], anywhere_of_the_cluster()),
        places("strict-places", &[QUICK, "--strict-topology"], only_at_the_node()),
        // How often it is tried before its claim is deleted would be chance.
        places("not-allowed", STRICT_ONCE, vec![not_allowed()]),
        places("no-hurry", &[QUICK, "--immediate-topology=false"], without_an_immediate_place()),
        places(
            "no-places",
            &[QUICK, "--feature-gates=Topology=false"],
            vec![bound("immediate"), at_node("consumer", "b")],
        ),
    ]
}

fn anywhere_of_the_cluster() -> Vec<Scenario> {
    let mut scenarios = vec![
        bound("immediate"),
        bound("data-set-0"),
        bound("data-set-1"),
        bound("data-set-2"),
        at_node("consumer", "b"),
        // The driver takes the next one.
        at_node("consumer-elsewhere", "c"),
        Scenario { class: Some(allowed(&["b"])), ..bound("allowed") },
        Scenario { class: Some(later(&allowed(&["a", "b"]))), ..at_node("allowed-consumer", "b") },
        moved_to_b("no-such-node", "nowhere"),
        Scenario { claim: json!({ "volumeMode": "Block" }), ..at_node("block", "b") },
    ];
    scenarios.push(Scenario {
        class: Some(json!({ "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Retain" })),
        course: Course::Kept,
        ..at_node("retain", "a")
    });
    scenarios
}

fn only_at_the_node() -> Vec<Scenario> {
    vec![
        bound("immediate"),
        at_node("consumer", "b"),
        moved_to_b("exhausted", "c"),
        moved_to_b("no-such-node", "nowhere"),
        Scenario { class: Some(later(&allowed(&["a", "b"]))), ..at_node("allowed-consumer", "b") },
    ]
}

fn not_allowed() -> Scenario {
    Scenario { class: Some(later(&allowed(&["b"]))), course: Course::Refused, ..at_node("claim", "a") }
}

fn without_an_immediate_place() -> Vec<Scenario> {
    vec![bound("immediate"), Scenario { class: Some(allowed(&["b"])), ..bound("allowed") }, at_node("consumer", "b")]
}

/// Waits for a node, and gets this one.
fn at_node(name: &'static str, node: &str) -> Scenario {
    Scenario { class: Some(later(&json!({}))), later: Some(selected(node)), ..bound(name) }
}

/// Its node is taken away, since the volume cannot be made there; then it gets another.
fn moved_to_b(name: &'static str, node: &str) -> Scenario {
    Scenario { moved: Some(selected("b")), ..at_node(name, node) }
}

fn selected(node: &str) -> Value {
    json!({ "volume.kubernetes.io/selected-node": format!("{node}.SITE") })
}

fn allowed(zones: &[&str]) -> Value {
    json!({ "allowedTopologies": [{ "matchLabelExpressions": [{ "key": "SITE/zone", "values": zones }] }] })
}

fn later(class: &Value) -> Value {
    let mut class = class.clone();
    class["volumeBindingMode"] = json!("WaitForFirstConsumer");
    class
}

/// A node as kubelet and the registrar leave it, named like its zone.
fn node(zone: &str) -> [Value; 2] {
    let name = format!("{zone}.SITE");
    [
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": { "SITE/zone": zone } } }),
        json!({ "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": name },
            "spec": { "drivers": [
                { "name": "SITE.outrigger.dev", "nodeID": zone, "topologyKeys": ["SITE/zone"] } ] } }),
    ]
}
