//! Where the volume of a claim may be, asked once before its first call.

use storage_kube::names::NodeName;

use super::awaiting_nodes::Awaited;
use crate::records::{ClaimRecord, ClassRecord};
use crate::term_context::TermContext;
use crate::topology::error::TopologyError;
use crate::topology::{Requirement, requirement};

/// What is asked of the driver; `None` where topology has no say. A claim whose place is not known yet is woken when the
/// nodes change.
pub(crate) fn accessibility(
    term: &TermContext,
    claim: &ClaimRecord,
    class: &ClassRecord,
) -> Result<Option<Requirement>, TopologyError> {
    let Some(cluster) = &term.cluster else { return Ok(None) };
    let node = claim.node();
    // Nothing awaits from the look at the nodes to the note that the claim waits for them, so no change is missed.
    let asked = requirement(&term.settings.flags, &claim.name, node.as_ref(), &class.allowed_topologies, cluster);
    match &asked {
        Ok(_) => term.awaiting_nodes.forget(&claim.uid),
        Err(error) => term.awaiting_nodes.wait(&claim.uid, awaited(node, error)),
    }
    asked
}

fn awaited(node: Option<NodeName>, error: &TopologyError) -> Awaited {
    match node {
        Some(node) if matches!(error, TopologyError::NoKeys { .. }) => Awaited::KeysOf(node),
        Some(node) => Awaited::Node(node),
        None => Awaited::AnyNode,
    }
}
