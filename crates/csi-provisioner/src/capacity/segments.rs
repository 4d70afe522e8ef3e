//! The segments of the cluster: label values of the nodes where the driver is registered, each set once.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use storage_kube::topology::Segment;

use crate::caches::NodeCaches;
use crate::records::{CsiNodeRecord, NodeRecord};

/// Which segments there are objects for.
#[derive(Debug, Clone)]
pub(crate) enum SegmentSource {
    /// Those of all nodes where the driver is registered.
    Nodes,
    /// The one that this process provisions for (CSI `NodeGetInfo.accessible_topology`).
    Fixed(Segment),
}

/// Stores each segment once: objects of several classes and the wanted set refer to the same ones.
///
/// A segment lives as long as somebody outside holds it, give or take a sweep.
#[derive(Debug, Default)]
pub(crate) struct SegmentTable(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    segments: HashSet<Arc<Segment>>,
    sweep_at: usize,
}

/// Below this many a sweep is not worth the walk.
const SMALLEST_SWEEP: usize = 64;

impl SegmentTable {
    /// The one shared copy.
    pub(crate) fn intern(&self, segment: Segment) -> Arc<Segment> {
        let mut table = self.0.lock();
        if let Some(known) = table.segments.get(&segment) {
            return Arc::clone(known);
        }
        if table.segments.len() >= table.sweep_at.max(SMALLEST_SWEEP) {
            table.segments.retain(|segment| Arc::strong_count(segment) > 1);
            table.segments.shrink_to_fit();
            table.sweep_at = table.segments.len() * 2;
        }
        let shared = Arc::new(segment);
        table.segments.insert(Arc::clone(&shared));
        shared
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().segments.len()
    }
}

/// The segment of a node; none while the driver is not registered there, or the node lacks one of the driver's labels.
pub(crate) fn of_node(node: Option<&NodeRecord>, csi_node: Option<&CsiNodeRecord>) -> Option<Segment> {
    let (Some(node), Some(CsiNodeRecord::Registered(keys))) = (node, csi_node) else { return None };
    Segment::of_labels(keys.iter().map(AsRef::as_ref), |key| node.label(key).map(str::to_owned)).ok()
}

/// The segments of all nodes.
pub(crate) fn of_cluster(caches: &NodeCaches, table: &SegmentTable) -> BTreeSet<Arc<Segment>> {
    let names = caches.csi_nodes.keys();
    let segments = names
        .iter()
        .filter_map(|name| of_node(caches.nodes.get(name).as_deref(), caches.csi_nodes.get(name).as_deref()));
    segments.map(|segment| table.intern(segment)).collect()
}
