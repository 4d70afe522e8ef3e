//! Where what is known of the nodes comes from: the watched caches, or one fixed node.
//!
//! Both answer the same questions, so the rules of topology do not know which it is: a provisioner for the whole cluster
//! has [`ClusterView::watched`], one that serves the node it runs on has [`ClusterView::of_node`] with what its driver
//! answered to `NodeGetInfo`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::Informer;
use parking_lot::Mutex;
use storage_kube::names::NodeName;
use storage_kube::topology::Segment;
use tokio::time::Instant;
use tracing::warn;

use super::aggregate;
use super::error::TopologyError;
use super::place::{self, Place};
use crate::caches::NodeCaches;
use crate::records::{CsiNodeProjection, CsiNodeRecord, NodeProjection, NodeRecord};

/// What is known of one node.
#[derive(Debug, Clone, Default)]
pub(crate) struct NodeFacts {
    /// The driver there; `None`: no `CSINode` object.
    pub(crate) driver: Option<Arc<CsiNodeRecord>>,
    /// Its labels; `None`: no `Node` object.
    pub(crate) labels: Option<Arc<NodeRecord>>,
}

/// The nodes, as the rules of topology see them. Aggregates are computed once until [`ClusterView::changed`].
pub(crate) struct ClusterView {
    driver: String,
    nodes: Nodes,
    /// All nodes are there with all their labels; else it is one node, with what its driver says of it.
    is_whole: bool,
    memory: Mutex<Memory>,
}

enum Nodes {
    Watched { nodes: Informer<NodeProjection>, csi_nodes: Informer<CsiNodeProjection> },
    Fixed(BTreeMap<NodeName, NodeFacts>),
}

#[derive(Default)]
struct Memory {
    /// By sorted keys; a cluster has few sets.
    with_keys: HashMap<Box<[Arc<str>]>, Arc<[Segment]>>,
    everywhere: Option<Result<Arc<[Segment]>, TopologyError>>,
    /// The nodes whose place was not known when that was last told.
    told: Vec<NodeName>,
    /// Since when the driver was registered on every node, and has topology keys nowhere.
    without_keys: Option<Instant>,
    /// It has been told that the driver has no topology.
    told_no_topology: bool,
}

/// How long a driver that is registered on every node is given to tell topology keys on one of them: while it is updated from
/// a version without topology, its nodes may come after its controller.
pub(crate) const KEYS_SETTLE: Duration = Duration::from_mins(10);

/// How many nodes a log line names.
const NAMED: usize = 10;

impl ClusterView {
    /// The nodes of the cluster as the caches show them at the time of each question. Whoever builds it calls
    /// [`ClusterView::changed`] when a record of either cache changes.
    pub(crate) fn watched(driver: &str, caches: &NodeCaches) -> Self {
        let nodes = Nodes::Watched { nodes: caches.nodes.clone(), csi_nodes: caches.csi_nodes.clone() };
        Self { driver: driver.to_owned(), nodes, is_whole: true, memory: Mutex::default() }
    }

    /// A cluster of one node, whose driver says that it is in `segment`; without keys, the driver has no topology there.
    pub(crate) fn of_node(driver: &str, node: NodeName, segment: &Segment) -> Self {
        let pairs: Vec<(Arc<str>, Arc<str>)> = segment.iter().map(|(key, value)| (key.into(), value.into())).collect();
        let keys = pairs.iter().map(|(key, _)| Arc::clone(key)).collect();
        let facts = NodeFacts {
            driver: Some(Arc::new(CsiNodeRecord::Registered(keys))),
            labels: Some(Arc::new(pairs.into_iter().collect())),
        };
        let nodes = Nodes::Fixed([(node, facts)].into());
        Self { driver: driver.to_owned(), nodes, is_whole: false, memory: Mutex::default() }
    }

    /// A whole cluster whose nodes never change.
    #[cfg(test)]
    pub(crate) fn of_nodes(driver: &str, nodes: impl IntoIterator<Item = (NodeName, NodeFacts)>) -> Self {
        let nodes = Nodes::Fixed(nodes.into_iter().collect());
        Self { driver: driver.to_owned(), nodes, is_whole: true, memory: Mutex::default() }
    }

    /// A node's labels or the driver's keys there are not what they were: aggregates are computed anew.
    pub(crate) fn changed(&self) {
        let mut memory = self.memory.lock();
        memory.with_keys.clear();
        memory.everywhere = None;
    }

    /// Where a node is.
    pub(crate) fn place(&self, node: &NodeName) -> Result<Place, TopologyError> {
        place::place(&self.driver, node, &self.node(node))
    }

    /// The segments of all nodes that have labels for all of `keys`.
    pub(crate) fn with_keys(&self, keys: &[Arc<str>]) -> Arc<[Segment]> {
        let mut memory = self.memory.lock();
        if let Some(known) = memory.with_keys.get(keys) {
            return Arc::clone(known);
        }
        let nodes = self.nodes();
        let segments: Arc<[Segment]> = aggregate::with_keys(keys, nodes.iter().map(|(_, node)| node)).into();
        memory.with_keys.insert(keys.into(), Arc::clone(&segments));
        segments
    }

    /// Whether all labels of a node are known here, and not only its topology.
    pub(crate) fn knows_labels(&self) -> bool {
        self.is_whole
    }

    /// Whether the driver has no topology, although it announces one: it was registered on every node, and has had topology keys
    /// nowhere for [`KEYS_SETTLE`]. A node that joins later changes that only with topology keys.
    pub(crate) fn has_no_topology(&self) -> bool {
        self.everywhere().is_ok_and(|segments| segments.is_empty())
    }

    /// The segments of all nodes, each over its own keys; none where the driver has no topology.
    pub(crate) fn everywhere(&self) -> Result<Arc<[Segment]>, TopologyError> {
        let mut memory = self.memory.lock();
        let known = if let Some(known) = &memory.everywhere {
            known.clone()
        } else {
            let found = self.find_everywhere(&mut memory);
            memory.everywhere.insert(found).clone()
        };
        if matches!(known, Err(TopologyError::NoKeysAnywhere { .. })) && memory.has_no_topology() {
            memory.tell_no_topology(&self.driver);
            return Ok(Arc::default());
        }
        known
    }

    fn find_everywhere(&self, memory: &mut Memory) -> Result<Arc<[Segment]>, TopologyError> {
        let found = aggregate::everywhere(&self.nodes());
        memory.tell(found.left_out);
        if found.any_keys {
            memory.without_keys = None;
        } else if found.registered_on_all && self.is_whole {
            memory.without_keys.get_or_insert_with(Instant::now);
        }
        let driver = || self.driver.clone();
        match found.segments {
            segments if !segments.is_empty() => Ok(segments.into()),
            _ if found.any_keys => Err(TopologyError::NoLabelsAnywhere { driver: driver() }),
            _ => Err(TopologyError::NoKeysAnywhere { driver: driver() }),
        }
    }

    fn node(&self, name: &NodeName) -> NodeFacts {
        match &self.nodes {
            Nodes::Watched { nodes, csi_nodes } => NodeFacts { driver: csi_nodes.get(name), labels: nodes.get(name) },
            Nodes::Fixed(nodes) => nodes.get(name).cloned().unwrap_or_default(),
        }
    }

    /// All of which there is a `Node` or a `CSINode`, by name.
    fn nodes(&self) -> Vec<(NodeName, NodeFacts)> {
        let names = match &self.nodes {
            Nodes::Watched { nodes, csi_nodes } => {
                let mut names = nodes.keys();
                names.extend(csi_nodes.keys());
                names.sort_unstable();
                names.dedup();
                names
            }
            Nodes::Fixed(nodes) => nodes.keys().cloned().collect(),
        };
        names.into_iter().map(|name| (name.clone(), self.node(&name))).collect()
    }
}

impl Memory {
    fn has_no_topology(&self) -> bool {
        self.without_keys.is_some_and(|since| since.elapsed() >= KEYS_SETTLE)
    }

    /// Says it once.
    fn tell_no_topology(&mut self, driver: &str) {
        if !self.told_no_topology {
            warn!(
                driver,
                "the CSI driver announces VOLUME_ACCESSIBILITY_CONSTRAINTS, but is registered on every node without topology \
                 keys: volumes are created without accessibility requirements"
            );
            self.told_no_topology = true;
        }
    }

    /// Says which nodes volumes are not offered, once for the same ones.
    fn tell(&mut self, left_out: Vec<NodeName>) {
        if left_out == self.told {
            return;
        }
        if !left_out.is_empty() {
            let named: Vec<_> = left_out.iter().take(NAMED).map(NodeName::as_str).collect();
            warn!(
                count = left_out.len(),
                nodes = named.join(" "),
                "no volumes are offered to these nodes: the driver is registered there, but the Node or its topology labels are missing"
            );
        }
        self.told = left_out;
    }
}

impl fmt::Debug for ClusterView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterView").field("driver", &self.driver).finish_non_exhaustive()
    }
}
