//! Claims for which the nodes do not tell yet where their volume may be. A change of a node wakes them, whatever their
//! backoff.

use std::collections::HashMap;

use parking_lot::Mutex;
use storage_kube::names::{ClaimUid, NodeName};

/// The claims, and the node each waits for; `None`: any.
#[derive(Default)]
pub(crate) struct AwaitingNodes {
    claims: Mutex<HashMap<ClaimUid, Option<NodeName>>>,
}

impl AwaitingNodes {
    /// The claim waits for this node, or for any.
    pub(crate) fn wait(&self, claim: &ClaimUid, node: Option<&NodeName>) {
        self.claims.lock().insert(claim.clone(), node.cloned());
    }

    /// Those that a change of this node may help; they do not wait any more.
    pub(crate) fn take(&self, node: &NodeName) -> Vec<ClaimUid> {
        let mut claims = self.claims.lock();
        claims
            .extract_if(|_, awaited| awaited.as_ref().is_none_or(|awaited| awaited == node))
            .map(|(claim, _)| claim)
            .collect()
    }

    /// The claim does not wait any more.
    pub(crate) fn forget(&self, claim: &ClaimUid) {
        self.claims.lock().remove(claim);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.claims.lock().len()
    }
}
