//! Nodes: their labels. Asked for as metadata only, since the status of nodes changes all the time.

use std::sync::Arc;

use controller_runtime::Projection;
use storage_kube::names::{Interner, NodeName};
use storage_kube::wire::NodeMetadata;

/// Labels of a node. Which of them are topology keys is not known before a driver registers, so all are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeRecord {
    /// By key.
    labels: Box<[(Arc<str>, Arc<str>)]>,
}

impl NodeRecord {
    /// The value of a label.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(label, _)| label.as_ref().cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }
}

impl FromIterator<(Arc<str>, Arc<str>)> for NodeRecord {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Arc<str>)>>(labels: I) -> Self {
        let mut labels: Box<[_]> = labels.into_iter().collect();
        labels.sort_unstable();
        Self { labels }
    }
}

/// Keeps the labels of every node.
pub(crate) struct NodeProjection {
    pub(crate) interner: Arc<Interner>,
}

impl Projection for NodeProjection {
    type Wire = NodeMetadata;
    type Key = NodeName;
    type Record = NodeRecord;
    type Group = ();

    fn key(&self, node: &NodeMetadata) -> Option<NodeName> {
        node.metadata.name.as_deref().map(|name| NodeName::from(self.interner.intern(name)))
    }

    fn project(&self, node: NodeMetadata) -> Option<NodeRecord> {
        let labels = node.metadata.labels.unwrap_or_default();
        let labels = labels.iter().map(|(key, value)| (self.interner.intern(key), self.interner.intern(value)));
        Some(NodeRecord { labels: labels.collect() })
    }
}
