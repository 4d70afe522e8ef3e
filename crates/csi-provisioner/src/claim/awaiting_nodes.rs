//! Claims for which the nodes do not tell yet where their volume may be. A change of a node wakes them, whatever their
//! backoff.

use std::collections::HashMap;

use parking_lot::Mutex;
use storage_kube::names::{ClaimUid, NodeName};

/// What tells a claim where its volume may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Any node of which that is known.
    AnyNode,
    /// Its selected node.
    Node(NodeName),
    /// Its selected node, or that the driver turns out to have no topology on any node.
    KeysOf(NodeName),
}

/// The claims, and what each waits for.
#[derive(Default)]
pub(crate) struct AwaitingNodes {
    claims: Mutex<HashMap<ClaimUid, Awaited>>,
}

impl AwaitingNodes {
    pub(crate) fn wait(&self, claim: &ClaimUid, awaited: Awaited) {
        self.claims.lock().insert(claim.clone(), awaited);
    }

    /// Whether a claim waits for more than one node.
    pub(crate) fn for_several(&self) -> bool {
        self.claims.lock().values().any(|awaited| !matches!(awaited, Awaited::Node(_)))
    }

    /// Those that wait for this node, with `any_node` those that wait for any, and with `no_topology` those that wait for
    /// keys; they do not wait any more.
    pub(crate) fn take(&self, node: &NodeName, any_node: bool, no_topology: bool) -> Vec<ClaimUid> {
        let is_over = |awaited: &Awaited| match awaited {
            Awaited::AnyNode => any_node,
            Awaited::Node(awaited) => awaited == node,
            Awaited::KeysOf(awaited) => awaited == node || no_topology,
        };
        let mut claims = self.claims.lock();
        claims.extract_if(|_, awaited| is_over(awaited)).map(|(claim, _)| claim).collect()
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
