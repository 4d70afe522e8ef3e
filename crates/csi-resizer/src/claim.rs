//! One claim: its steps, side by side, each at its own pace.

pub(crate) mod memory;
pub(crate) mod pace;
pub(crate) mod still_wanted;
pub(crate) mod writes;

use std::sync::Arc;

use controller_runtime::Outcome;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use storage_kube::names::ClaimUid;
use tracing::{debug, error};

use crate::error::{Conflict, Disposition, StepError};
use crate::expand::pre_resize;
use crate::records::ClaimRecord;
use crate::records::claim::ClaimSize;
use crate::settings::Settings;
use crate::term_context::TermContext;
use crate::volume;
use crate::write::{self, CONFLICTS};
use crate::{expand, modify};
use pace::Begun;
use writes::Writes;

/// What may be done for a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Expand,
    Modify,
}

impl Step {
    /// In the order in which they begin; they run side by side.
    pub(crate) const ALL: [Self; 2] = [Self::Expand, Self::Modify];

    /// Whether the claim has this to do.
    pub(crate) fn is_to_do(self, settings: &Settings, claim: &ClaimRecord) -> bool {
        match self {
            Self::Expand => settings.expands() && claim.size.is_to_grow(),
            Self::Modify => settings.modifies && claim.class.is_to_change(),
        }
    }

    /// Whether the step has got as far in both: nothing was begun or ended in between.
    pub(crate) fn is_where_it_was(self, old: &ClaimRecord, new: &ClaimRecord) -> bool {
        match self {
            Self::Expand => {
                let state = |claim: &ClaimRecord| {
                    let ClaimSize { capacity, allocated, status, .. } = &claim.size;
                    (capacity.clone(), allocated.clone(), *status)
                };
                state(old) == state(new)
            }
            Self::Modify => old.class.current == new.class.current && old.class.status == new.class.status,
        }
    }

    /// Whether anything differs that this step looks at. In an own write the status has changed by ourselves, but somebody
    /// else may have changed what is wanted before it.
    pub(crate) fn is_asked_anew(self, old: &ClaimRecord, new: &ClaimRecord, own: bool) -> bool {
        if old.volume != new.volume {
            return true;
        }
        match self {
            Self::Expand => {
                let wanted = old.size.requested != new.size.requested || old.size.resizer != new.size.resizer;
                wanted || (!own && old.size != new.size)
            }
            Self::Modify => old.class.wanted != new.class.wanted || (!own && old.class != new.class),
        }
    }
}

/// Brings one claim as far as it will go now.
pub(crate) async fn sync_claim(term: Arc<TermContext>, uid: ClaimUid) -> Outcome {
    if let Some(claim) = term.claim(&uid) {
        let mut due = Vec::new();
        for step in Step::ALL {
            if !step.is_to_do(&term.settings, &claim) {
                term.pace.reset(&uid, step);
            } else if term.pace.is_due(&uid, step) {
                due.push(step);
            }
        }
        if !due.is_empty() {
            side_by_side(&term, &claim, &due).await;
        }
    }
    if term.caches.claims.get(&uid).is_none() {
        // The watch has told of its end before this run was through.
        term.forget(&uid);
        return pre_resize::settle(&term, &uid).await;
    }
    term.pace.outcome(&uid)
}

/// The steps that are due: a volume may be able to grow and to change only in one operation, which the driver can make of two
/// calls that are in flight together.
async fn side_by_side(term: &TermContext, claim: &ClaimRecord, due: &[Step]) {
    let begun = term.pace.begin();
    let writes = match volume::of_claim(term, claim).await {
        Ok(Some(volume)) => Ok(Writes::new(volume)),
        Ok(None) => return due.iter().for_each(|step| term.pace.reset(&claim.uid, *step)),
        Err(error) => Err(StepError::from(error)),
    };
    let one = async |step: Step| {
        let result = match &writes {
            Ok(writes) => run(term, step, claim, writes).await,
            Err(error) => return note(term, claim, step, begun, failed(term, claim, step, error)),
        };
        let disposition = match result {
            Ok(()) if is_left_with_more(term, step, claim) => Disposition::Anew,
            Ok(()) => Disposition::Done,
            Err(error) => failed(term, claim, step, &error),
        };
        note(term, claim, step, begun, disposition);
    };
    join_all(due.iter().map(|step| one(*step).boxed())).await;
}

fn note(term: &TermContext, claim: &ClaimRecord, step: Step, begun: Begun, disposition: Disposition) {
    term.pace.note(&claim.uid, step, begun, disposition);
    if disposition == Disposition::Anew {
        term.queue.add(claim.uid.clone());
    }
}

/// Whether the step has come to an end that is not what the claim asks for by now: what was begun is finished first. The own
/// write that tells of that end wakes nobody up.
fn is_left_with_more(term: &TermContext, step: Step, before: &ClaimRecord) -> bool {
    term.claim(&before.uid).is_some_and(|after| {
        let ended = match step {
            Step::Expand => after.size.capacity != before.size.capacity,
            // A class that the volume had already may have been given to it once more.
            Step::Modify => {
                after.class.current != before.class.current
                    || (after.class.status.is_none() && before.class.status.is_some())
            }
        };
        ended && step.is_to_do(&term.settings, &after)
    })
}

/// Begins anew, from what is there by then, where others have written meanwhile. What the driver has said is remembered.
async fn run(term: &TermContext, step: Step, claim: &ClaimRecord, writes: &Writes) -> Result<(), StepError> {
    let mut result = attempt(term, step, claim, writes).await;
    for _ in 0..CONFLICTS {
        let Some(conflict) = result.as_ref().err().and_then(StepError::conflict) else { break };
        if conflict == Conflict::Volume {
            match write::live(term, claim).await {
                Ok(Some(claim)) => {
                    let mut volume = writes.turn().await;
                    match volume::of_claim(term, &claim).await? {
                        Some(live) => *volume = live,
                        None => return Ok(()),
                    }
                }
                Ok(None) => return Ok(()),
                Err(_) => break,
            }
        }
        let newer = term.claim(&claim.uid).filter(|newer| step.is_to_do(&term.settings, newer));
        let Some(newer) = newer else { return Ok(()) };
        result = attempt(term, step, &newer, writes).await;
    }
    result
}

async fn attempt(term: &TermContext, step: Step, claim: &ClaimRecord, writes: &Writes) -> Result<(), StepError> {
    match step {
        Step::Expand => Ok(expand::expand(term, claim, writes).await?),
        Step::Modify => Ok(modify::modify(term, claim, writes).await?),
    }
}

fn failed(term: &TermContext, claim: &ClaimRecord, step: Step, error: &StepError) -> Disposition {
    if error.is_withdrawn() {
        debug!(claim = %claim.full_name(), ?step, err = %error, "not done");
    } else {
        error!(claim = %claim.full_name(), ?step, err = %error, "claim is not as wanted");
    }
    // What failed says nothing of what the claim has asked for since.
    let after = term.claim(&claim.uid);
    let is_outdated = after.is_some_and(|after| step.is_asked_anew(claim, &after, true));
    if is_outdated { Disposition::Anew } else { error.disposition() }
}
