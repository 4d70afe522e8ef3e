//! Which change of which object puts which claim into the queue.
//!
//! What somebody else changes about a step ends that step's backoff at once; our own status writes, which come back as
//! changes too, and the periodic resync leave it alone.

use std::sync::Arc;

use controller_runtime::{Change, Subscription};

use crate::claim::Step;
use crate::records::{AttributesClassProjection, ClaimProjection, VolumeNoteProjection};
use crate::term_context::TermContext;

/// Subscribes a term to the caches; dropped with the term.
pub(crate) fn subscribe(term: &Arc<TermContext>) -> Vec<Subscription> {
    let mut subscriptions = vec![term.caches.claims.subscribe_for(term, claim_changed)];
    subscriptions
        .extend(term.caches.attributes_classes.as_ref().map(|classes| classes.subscribe_for(term, class_changed)));
    subscriptions.extend(term.caches.noted_volumes.as_ref().map(|volumes| volumes.subscribe_for(term, note_changed)));
    subscriptions
}

fn claim_changed(term: &TermContext, change: &Change<'_, ClaimProjection>) {
    let Some(new) = change.new else {
        term.forget(change.key);
        if term.caches.noted_volumes.as_ref().is_some_and(|volumes| !volumes.in_group(change.key).is_empty()) {
            // The node may have done its part.
            term.queue.add(change.key.clone());
        }
        return;
    };
    let own = term.memories.seen(new);
    let mut is_news = false;
    for step in Step::ALL {
        if change.old.is_none_or(|old| step.is_asked_anew(old, new, own)) {
            term.pace.reset(change.key, step);
            is_news = true;
        }
    }
    if is_news {
        term.queue.add(change.key.clone());
    } else if !own {
        term.queue.add_keeping_backoff(change.key.clone());
    }
}

/// Claims may wait for a class that has appeared.
fn class_changed(term: &TermContext, change: &Change<'_, AttributesClassProjection>) {
    if change.old == change.new {
        return;
    }
    for claim in term.caches.claims.in_group(change.key) {
        term.pace.reset(&claim, Step::Modify);
        term.queue.add(claim);
    }
}

/// The claim may have had all of its volume before the note was seen.
fn note_changed(term: &TermContext, change: &Change<'_, VolumeNoteProjection>) {
    if let Some(noted) = change.new {
        term.queue.add_keeping_backoff(noted.uid.clone());
    }
}
