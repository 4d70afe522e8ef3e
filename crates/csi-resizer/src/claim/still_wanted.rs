//! What a call was decided for must still hold when it is sent, which may be a while later: a Secret is read, or the driver
//! is away. And a term that drains starts nothing new.

use std::pin::Pin;
use std::sync::Arc;

use csi_client::{Admission, Denied};
use tokio_util::sync::CancellationToken;

use super::Step;
use crate::caches::Caches;
use crate::records::ClaimRecord;
use crate::term_context::TermContext;

struct StillWanted {
    draining: CancellationToken,
    caches: Arc<Caches>,
    claim: ClaimRecord,
    step: Step,
}

impl Admission for StillWanted {
    fn admit(&self) -> Result<(), Denied> {
        let objection = if self.draining.is_cancelled() {
            Some("this process is ending")
        } else {
            match self.caches.claims.get(&self.claim.uid) {
                None => Some("the claim is gone, or does not ask for it any more"),
                // The status has changed by the writes that belong to the call.
                Some(now) if self.step.is_asked_anew(&self.claim, &now, true) => {
                    Some("the claim asks for something else")
                }
                Some(_) => None,
            }
        };
        objection.map_or(Ok(()), |why| Err(Denied(why.to_owned())))
    }

    fn withdrawn(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.draining.cancelled())
    }
}

/// For a call of this step: the claim still asks for the same.
pub(crate) fn still_wanted(term: &TermContext, claim: &ClaimRecord, step: Step) -> Arc<dyn Admission> {
    Arc::new(StillWanted {
        draining: term.draining.clone(),
        caches: Arc::clone(&term.caches),
        claim: claim.clone(),
        step,
    })
}
