//! The segments of many nodes, ordered and each once, whatever the order of the nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use storage_kube::names::NodeName;
use storage_kube::topology::Segment;

use super::cluster::NodeFacts;
use super::place::segment;
use crate::records::CsiNodeRecord;

/// The segments that the nodes have over these keys. Nodes without one of the labels have none; whether the driver is
/// registered on a node does not matter, since it may be on its way there.
pub(super) fn with_keys<'n>(keys: &[Arc<str>], nodes: impl Iterator<Item = &'n NodeFacts>) -> Vec<Segment> {
    let labels = nodes.filter_map(|node| node.labels.as_deref());
    let segments: BTreeSet<_> = labels.filter_map(|labels| segment(keys, labels).ok()).collect();
    segments.into_iter().collect()
}

/// Where the driver's nodes are.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Everywhere {
    pub(super) segments: Vec<Segment>,
    /// Nodes on which the driver is registered with topology keys, and whose place is not known: the Node object or one
    /// of its labels is missing.
    pub(super) left_out: Vec<NodeName>,
    /// Whether any node has topology keys at all.
    pub(super) any_keys: bool,
    /// Whether the driver is registered on every node, with or without topology keys.
    pub(super) registered_on_all: bool,
}

/// The segments of all nodes, when none of them is selected.
///
/// Drivers may register different keys on different nodes, during an upgrade for example. A node on which the driver has
/// registered keys counts with its own; any other node counts with each set of keys that is registered somewhere and that
/// it has all labels of. So no node is left out because of the keys of another.
pub(super) fn everywhere(nodes: &[(NodeName, NodeFacts)]) -> Everywhere {
    let key_sets: BTreeSet<&[Arc<str>]> = nodes.iter().filter_map(|(_, node)| registered_keys(node)).collect();
    let mut segments = BTreeSet::new();
    let mut left_out = Vec::new();
    for (name, node) in nodes {
        let labels = node.labels.as_deref();
        let Some(keys) = registered_keys(node) else {
            let labels = labels.into_iter();
            segments.extend(labels.flat_map(|labels| key_sets.iter().filter_map(|keys| segment(keys, labels).ok())));
            continue;
        };
        match labels.map(|labels| segment(keys, labels)) {
            Some(Ok(segment)) => drop(segments.insert(segment)),
            Some(Err(_)) | None => left_out.push(name.clone()),
        }
    }
    let registered = |node: &NodeFacts| matches!(node.driver.as_deref(), Some(CsiNodeRecord::Registered(_)));
    Everywhere {
        segments: segments.into_iter().collect(),
        left_out,
        any_keys: !key_sets.is_empty(),
        registered_on_all: !nodes.is_empty() && nodes.iter().all(|(_, node)| registered(node)),
    }
}

fn registered_keys(node: &NodeFacts) -> Option<&[Arc<str>]> {
    match node.driver.as_deref() {
        Some(CsiNodeRecord::Registered(keys)) if !keys.is_empty() => Some(keys),
        Some(CsiNodeRecord::Registered(_) | CsiNodeRecord::WithoutDriver) | None => None,
    }
}
