//! On which nodes the driver runs, and which of their labels tell where they are.

use std::sync::Arc;

use controller_runtime::Projection;
use storage_kube::names::{Interner, NodeName};
use storage_kube::wire::CsiNode;

/// What is known of a node that has a `CSINode` object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CsiNodeRecord {
    /// The driver is registered there with these topology keys, sorted, each once; none when it has no topology.
    Registered(Box<[Arc<str>]>),
    /// The driver is not registered there (yet). Kept, to tell such a node from one that is not there.
    WithoutDriver,
}

/// Keeps of every `CSINode` the topology keys of this driver.
pub(crate) struct CsiNodeProjection {
    pub(crate) driver: String,
    pub(crate) interner: Arc<Interner>,
}

impl Projection for CsiNodeProjection {
    type Wire = CsiNode;
    type Key = NodeName;
    type Record = CsiNodeRecord;
    type Group = ();

    fn key(&self, node: &CsiNode) -> Option<NodeName> {
        node.metadata.name.as_deref().map(|name| NodeName::from(self.interner.intern(name)))
    }

    fn project(&self, node: CsiNode) -> Option<CsiNodeRecord> {
        let Some(ours) = node.spec.drivers.iter().find(|driver| driver.name == self.driver) else {
            return Some(CsiNodeRecord::WithoutDriver);
        };
        let mut keys: Vec<_> = ours.topology_keys.iter().map(|key| self.interner.intern(key)).collect();
        keys.sort_unstable();
        keys.dedup();
        Some(CsiNodeRecord::Registered(keys.into()))
    }
}
