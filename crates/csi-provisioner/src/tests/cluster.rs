//! Clusters: nodes with labels, and what the driver registered there.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_runtime::Projection;
use csi_proto::csi::v1::TopologyRequirement;
use fake_apiserver::FakeApiServer;
use fake_driver::Identity;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use serde_json::{Map, Value, json};
use storage_kube::names::{Interner, NodeName};
use storage_kube::topology::Segment;

use super::objects::{DRIVER, class, with};
use super::scene::Scene;
use crate::records::{CsiNodeProjection, NodeProjection};
use crate::settings::ProvisioningFlags;
use crate::topology::cluster::{ClusterView, NodeFacts};

/// One node of a cluster.
#[derive(Clone, Copy)]
pub(super) struct NodeIs {
    pub(super) name: &'static str,
    /// Topology keys; `None`: no `CSINode`.
    pub(super) keys: Option<&'static [&'static str]>,
    /// `None`: no `Node`.
    pub(super) labels: Option<&'static [(&'static str, &'static str)]>,
}

pub(super) const fn node(
    name: &'static str,
    keys: &'static [&'static str],
    labels: &'static [(&'static str, &'static str)],
) -> NodeIs {
    NodeIs { name, keys: Some(keys), labels: Some(labels) }
}

/// The `Node`, with a status as large as kubelet's.
pub(super) fn node_json(node: &NodeIs) -> Option<Value> {
    let labels: Map<_, _> = node.labels?.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    Some(json!({
        "metadata": { "name": node.name, "labels": labels },
        "spec": { "podCIDR": "10.0.0.0/24" },
        "status": { "images": [{ "names": ["registry/image"], "sizeBytes": 1 }], "nodeInfo": { "machineID": "secret" } },
    }))
}

/// The `CSINode`, on which another driver with a key of its own is registered too.
pub(super) fn csi_node_json(node: &NodeIs) -> Option<Value> {
    let keys = node.keys?;
    let other = json!({ "name": "other.example.com", "nodeID": "o", "topologyKeys": ["other.example.com/key"] });
    let ours = json!({ "name": DRIVER, "nodeID": node.name, "topologyKeys": keys });
    Some(json!({ "metadata": { "name": node.name }, "spec": { "drivers": [other, ours] } }))
}

/// The cluster as the rules see it, by way of the projections.
pub(super) fn view(nodes: &[NodeIs]) -> ClusterView {
    let interner = Arc::new(Interner::new());
    let csi_nodes = CsiNodeProjection { driver: DRIVER.to_owned(), interner: Arc::clone(&interner) };
    let labels = NodeProjection { interner };
    let facts = nodes.iter().map(|node| {
        let driver = csi_node_json(node).and_then(|json| csi_nodes.project(serde_json::from_value(json).unwrap()));
        let labels = node_json(node).and_then(|json| labels.project(serde_json::from_value(json).unwrap()));
        (NodeName::from(node.name), NodeFacts { driver: driver.map(Arc::new), labels: labels.map(Arc::new) })
    });
    ClusterView::of_nodes(DRIVER, facts)
}

/// Puts the nodes into the API server.
pub(super) fn create(api: &FakeApiServer, nodes: &[NodeIs]) {
    for node in nodes {
        if let Some(json) = node_json(node) {
            api.create_json::<Node>(json);
        }
        if let Some(json) = csi_node_json(node) {
            api.create_json::<CSINode>(json);
        }
    }
}

pub(super) fn topology_driver(driver: &mut Identity) {
    driver
        .plugin_capabilities
        .push(csi_proto::csi::v1::plugin_capability::service::Type::VolumeAccessibilityConstraints);
}

/// A provisioner for a driver with topology, in a cluster of these nodes.
pub(super) async fn scene(flags: ProvisioningFlags, nodes: &[NodeIs]) -> Scene {
    Scene::configured(|settings| settings.flags = flags, topology_driver, |api| create(api, nodes)).await
}

/// A class whose claims wait for their first consumer.
pub(super) fn late_class(name: &str) -> Value {
    with(class(name, json!({})), &json!({ "volumeBindingMode": "WaitForFirstConsumer" }))
}

/// To merge into a claim for which the scheduler has chosen a node.
pub(super) fn selected(node: &str) -> Value {
    json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": node } } })
}

/// Terms in the short form of the tables: `zone1 rackA` is `{zone=zone1, rack=rackA}`.
pub(super) fn terms(list: &[&[(&str, &str)]]) -> Vec<Segment> {
    list.iter().map(|pairs| pairs.iter().copied().collect()).collect()
}

/// Requisite and preferred.
pub(super) fn segments(requirement: &TopologyRequirement) -> (Vec<Segment>, Vec<Segment>) {
    let all = |list: &[csi_proto::csi::v1::Topology]| list.iter().map(Segment::from).collect();
    (all(&requirement.requisite), all(&requirement.preferred))
}

/// `allowedTopologies` of one term for each map.
pub(super) fn allowed(terms: &[&[(&str, &[&str])]]) -> Value {
    let expression = |(key, values): &(&str, &[&str])| json!({ "key": key, "values": values });
    let term =
        |term: &&[(&str, &[&str])]| json!({ "matchLabelExpressions": term.iter().map(expression).collect::<Vec<_>>() });
    json!(terms.iter().map(term).collect::<Vec<_>>())
}

/// As in a class record.
pub(super) fn allowed_record(allowed: Value) -> Vec<storage_kube::wire::AllowedTopology> {
    serde_json::from_value(allowed).unwrap()
}

/// Counts of equal things.
pub(super) fn distinct<T: Ord>(all: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    for one in all {
        *counts.entry(one).or_default() += 1;
    }
    counts
}
