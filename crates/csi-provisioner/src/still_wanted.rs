//! What a call was decided for must still hold when it is sent, which may be a while later: a Secret is read first, or
//! the driver is away. And a term that drains starts nothing new.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;

use csi_client::{Admission, Denied};
use storage_kube::uid::Uid;
use tokio_util::sync::CancellationToken;

use crate::create_volume::request::Plan;
use crate::records::VolumeRecord;
use crate::term_context::TermContext;
use crate::volume::decision::{VolumeDecision, decide};

struct StillWanted<F> {
    draining: CancellationToken,
    /// Why the call is not wanted any more, if so.
    objection: F,
}

impl<F: Fn() -> Option<&'static str> + Send + Sync> Admission for StillWanted<F> {
    fn admit(&self) -> Result<(), Denied> {
        let objection = if self.draining.is_cancelled() { Some("this process is ending") } else { (self.objection)() };
        objection.map_or(Ok(()), |why| Err(Denied(why.to_owned())))
    }

    fn withdrawn(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.draining.cancelled())
    }
}

fn still_wanted(
    term: &TermContext,
    objection: impl Fn() -> Option<&'static str> + Send + Sync + 'static,
) -> Arc<dyn Admission> {
    Arc::new(StillWanted { draining: term.draining.clone(), objection })
}

/// For the first call of a plan: the claim waits for the same volume as when it was planned.
pub(crate) fn while_claimed(term: &TermContext, plan: &Arc<Plan>) -> Arc<dyn Admission> {
    let (caches, plan) = (Arc::clone(&term.caches), Arc::clone(plan));
    still_wanted(term, move || match caches.claims.get(&plan.claim.uid) {
        None => Some("the claim is gone or bound"),
        Some(claim) if !claim.asks_the_same(&plan.claim) => Some("the claim has changed"),
        Some(_) => None,
    })
}

/// For a call that finds out what became of an earlier one: wanted whatever happens to the claim.
pub(crate) fn until_drained(term: &TermContext) -> Arc<dyn Admission> {
    still_wanted(term, || None)
}

/// For a deletion: the volume is to be reclaimed, and nothing but these attachments names it.
pub(crate) fn while_reclaimable(
    term: &TermContext,
    volume: &VolumeRecord,
    stale_attachments: HashSet<Uid>,
) -> Arc<dyn Admission> {
    let (caches, name, uid) = (Arc::clone(&term.caches), volume.name.clone(), volume.uid.clone());
    still_wanted(term, move || match caches.volumes.get(&name) {
        None => Some("the volume is gone"),
        Some(volume) if volume.uid != uid => Some("the volume was made anew"),
        Some(volume) if decide(&volume) != VolumeDecision::Reclaim => Some("the volume is not to be deleted any more"),
        Some(_) if caches.attachments.of(&name).iter().any(|attachment| !stale_attachments.contains(attachment)) => {
            Some("the volume was attached")
        }
        Some(_) => None,
    })
}
