//! Where the volume of a claim may be, asked once before its first call.

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
        Err(_) => term.awaiting_nodes.wait(&claim.uid, node.as_ref()),
    }
    asked
}
