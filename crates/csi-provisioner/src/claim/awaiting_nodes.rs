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

    /// Whether a claim waits that any node may help.
    pub(crate) fn for_any(&self) -> bool {
        self.claims.lock().values().any(Option::is_none)
    }

    /// Those that wait for this node, and with `any` those that wait for any; they do not wait any more.
    pub(crate) fn take(&self, node: &NodeName, any: bool) -> Vec<ClaimUid> {
        let mut claims = self.claims.lock();
        claims
            .extract_if(|_, awaited| awaited.as_ref().map_or(any, |awaited| awaited == node))
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
