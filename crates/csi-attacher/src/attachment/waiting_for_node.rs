//! Attachments whose node is not known to the driver yet, by node: its `CSINode` event wakes them.

use std::time::Duration;

use foldhash::HashMap;
use parking_lot::Mutex;
use storage_kube::names::{AttachmentName, NodeName};
use tokio::time::Instant;

/// Since when each attachment waits for its node.
#[derive(Default)]
pub(crate) struct WaitingForNode {
    nodes: Mutex<HashMap<NodeName, HashMap<AttachmentName, Instant>>>,
}

impl WaitingForNode {
    /// The attachment waits; says for how long it has.
    pub(crate) fn wait(&self, node: &NodeName, attachment: &AttachmentName) -> Duration {
        let mut nodes = self.nodes.lock();
        let waiting = nodes.entry(node.clone()).or_default();
        waiting.entry(attachment.clone()).or_insert_with(Instant::now).elapsed()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nodes.lock().values().map(HashMap::len).sum()
    }

    /// Those that wait for this node.
    pub(crate) fn of_node(&self, node: &NodeName) -> Vec<AttachmentName> {
        self.nodes.lock().get(node).map(|waiting| waiting.keys().cloned().collect()).unwrap_or_default()
    }

    /// The attachment does not wait any more.
    pub(crate) fn forget(&self, node: &NodeName, attachment: &AttachmentName) {
        let mut nodes = self.nodes.lock();
        if let Some(waiting) = nodes.get_mut(node) {
            waiting.remove(attachment);
            if waiting.is_empty() {
                nodes.remove(node);
            }
        }
    }
}
