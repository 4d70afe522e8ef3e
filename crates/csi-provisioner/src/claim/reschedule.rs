//! Handing a claim back to the scheduler: without a selected node it chooses again, for the pod that waits for the claim.

use controller_runtime::{EventKind, Outcome};
use tracing::{error, info};

use super::claim_reference;
use super::selected_node::{self, Written};
use crate::records::ClaimRecord;
use crate::settings::Settings;
use crate::term_context::TermContext;

/// Whether the scheduler chose the node of this claim, and topology lets it choose another.
pub(crate) fn can_reschedule(settings: &Settings, claim: &ClaimRecord) -> bool {
    settings.topology() && claim.selected_node.is_some()
}

/// Removes the selected node. Only for a claim that has no call in progress: its volume may be at that node.
pub(crate) async fn reschedule(term: &TermContext, claim: &ClaimRecord) -> Outcome {
    if term.in_progress.get(&claim.uid).is_some() {
        return Outcome::Retry;
    }
    match selected_node::write(&term.api, claim, None).await {
        Ok(Written::Version(version)) => {
            info!(claim = claim.full_name(), node = ?claim.selected_node, "the scheduler is asked for another node");
            term.note_own_version(&claim.uid, &version);
            Outcome::Done
        }
        Ok(Written::Overtaken) => Outcome::Done,
        Err(why) => {
            error!(claim = claim.full_name(), err = %why, "the scheduler could not be asked for another node, it is tried again");
            let text = format!("the scheduler could not be asked for another node: {why}");
            term.events.record(&claim_reference(claim), EventKind::Warning, "ProvisioningFailed", text);
            Outcome::Retry
        }
    }
}
