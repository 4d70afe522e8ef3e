//! `--node-deployment`: one provisioner beside the driver on every node, each for the volumes of its node.
//!
//! Which process provisions a claim, the annotation `volume.kubernetes.io/selected-node` says. For pods that wait for
//! their volume the scheduler writes it. Claims of a class with immediate binding have nobody to do so, so the processes
//! compete for them:
//!
//! 1. [`ownership`] decides, without I/O, whether the claim is this node's, another's, or still to be had.
//! 2. A claim whose volume may not be on this node is left to others ([`fit`]).
//! 3. Each process waits for a time of its own ([`competition`]), so that not all ask and write at once. The wait is the
//!    queue's: no worker is kept busy by it, and the event of another process's write ends it at once. A process whose driver
//!    does not say where the node is waits longest: if all are like it, one takes the claim, and its provisioning tells why it fails.
//! 4. The driver is asked whether the volume fits here; if not, the claim is left to others.
//! 5. The annotation is written if the claim still has none: the API server lets one writer pass. The event of that write
//!    starts the provisioning.
//!
//! Volumes are deleted where they are reachable ([`reach`]); those of other nodes are not even kept in memory.
//!
//! Not guaranteed: that a claim which fits on no node is told so. Every process leaves it to the others, as the Go
//! provisioner does, and looks again with the next resync.

pub(crate) mod competition;
mod fit;
pub(crate) mod ownership;
pub(crate) mod reach;

use std::sync::Arc;

use controller_runtime::{EventKind, Outcome};
use tracing::{debug, error, info};

use crate::claim::claim_reference;
use crate::claim::selected_node::{self, Written};
use crate::records::{ClaimRecord, ClassRecord};
use crate::settings::NodeFlags;
use crate::term_context::TermContext;
use competition::Turn;
use fit::Fit;

/// One look at a claim that no node has: waits, leaves it to others, or takes it.
pub(crate) async fn compete(term: &TermContext, claim: &Arc<ClaimRecord>, class: &Arc<ClassRecord>) -> Outcome {
    let Some(node) = &term.settings.node else { return Outcome::Done };
    // Before the wait: a claim that may not be here is not worth a timer.
    let turn = match fit::place(term, node, claim, class) {
        Fit::Yes => term.competition.turn(&claim.uid, node),
        Fit::Unknown => term.competition.last_turn(&claim.uid, node),
        Fit::No(why) => return leave(term, claim, &why),
    };
    if let Turn::In(wait) = turn {
        return Outcome::RetryAfter(wait);
    }
    // As late as possible: it is a call to the driver for each claim and node.
    if let Fit::No(why) = fit::capacity(term, node, claim, class).await {
        return leave(term, claim, &why);
    }
    take(term, node, claim).await
}

/// No reason to tell the user: another node may have the place. A change of the claim, or the resync, begins anew, with
/// a longer wait.
fn leave(term: &TermContext, claim: &ClaimRecord, why: &str) -> Outcome {
    info!(claim = claim.full_name(), "claim is left to other nodes: {why}");
    term.competition.end_attempt(&claim.uid);
    Outcome::Done
}

async fn take(term: &TermContext, node: &NodeFlags, claim: &Arc<ClaimRecord>) -> Outcome {
    match selected_node::write(&term.api, claim, Some(&node.name)).await {
        Ok(Written::Version(version)) => {
            info!(claim = claim.full_name(), node = %node.name, "claim is taken for this node");
            term.competition.forget(&claim.uid);
            term.note_own_version(&claim.uid, &version);
            Outcome::Done
        }
        Ok(Written::Overtaken) => {
            debug!(claim = claim.full_name(), "another node was faster, or the claim has changed");
            term.competition.forget(&claim.uid);
            Outcome::Done
        }
        Err(why) => {
            error!(claim = claim.full_name(), node = %node.name, err = %why, "claim could not be taken for this node");
            let text = format!("node {} could not be selected: {why}", node.name);
            term.events.record(&claim_reference(claim), EventKind::Warning, "ProvisioningFailed", text);
            term.competition.end_attempt(&claim.uid);
            match term.competition.turn(&claim.uid, node) {
                Turn::In(wait) => Outcome::RetryAfter(wait),
                Turn::Now => Outcome::Retry,
            }
        }
    }
}
