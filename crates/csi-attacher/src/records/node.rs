//! Nodes: what the driver calls them, and how many volumes they take.

use std::sync::Arc;

use controller_runtime::Projection;
use storage_kube::names::{NodeId, NodeName};
use storage_kube::wire::CsiNode;

use super::Interners;

/// What is known of a node that has a `CSINode` object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeRecord {
    /// The driver is registered there.
    Registered {
        /// What the driver calls the node.
        id: NodeId,
        /// How many volumes the node takes (`allocatable.count`), if the driver says so.
        limit: Option<u32>,
    },
    /// The driver is not registered there (yet).
    WithoutDriver,
}

/// Keeps of every `CSINode` what this driver says there.
pub(crate) struct NodeProjection {
    pub(crate) driver: String,
    pub(crate) interners: Arc<Interners>,
}

impl Projection for NodeProjection {
    type Wire = CsiNode;
    type Key = NodeName;
    type Record = NodeRecord;
    type Group = ();

    fn key(&self, node: &CsiNode) -> Option<NodeName> {
        node.metadata.name.as_deref().map(|name| NodeName::from(self.interners.names.intern(name)))
    }

    fn project(&self, node: CsiNode) -> Option<NodeRecord> {
        let ours = node.spec.drivers.iter().find(|driver| driver.name == self.driver);
        Some(ours.map_or(NodeRecord::WithoutDriver, |driver| NodeRecord::Registered {
            id: NodeId::from(self.interners.names.intern(&driver.node_id)),
            limit: driver.allocatable.count,
        }))
    }
}
