//! Comparing what the statuses say with what the driver lists, once each `--reconcile-sync`, for drivers that list the nodes
//! of their volumes.
//!
//! A listing that is not complete says nothing. A difference counts when two complete listings in a row show it and both
//! began after our last call for the attachment had ended. What is done about it is the queue's business.

pub(crate) mod comparison;
pub(crate) mod list_volumes;
pub(crate) mod mismatches;

use tokio::time::{Instant, sleep};
use tracing::{debug, error};

use crate::term_context::TermContext;

/// Lists and compares until it is dropped or the term drains.
pub(crate) async fn run(term: &TermContext) {
    let work = async {
        loop {
            round(term).await;
            sleep(term.settings.reconcile_sync).await;
        }
    };
    tokio::select! {
        () = term.draining.cancelled() => {}
        () = work => {}
    }
}

async fn round(term: &TermContext) {
    let began = Instant::now();
    let listing = match list_volumes::list(&term.driver, term.settings.max_entries, term.settings.timeout).await {
        Ok(listing) => listing,
        Err(why) => {
            error!(err = %why, "volumes are not compared with what the driver lists");
            return;
        }
    };
    let found = term.caches.attachments.keys().into_iter().filter_map(|name| {
        let attachment = term.attachment(&name)?;
        let mismatch = comparison::compare(term, &attachment, &listing)?;
        Some((attachment.record.uid.clone(), name, mismatch))
    });
    let found: Vec<_> = found.collect();
    debug!(volumes = listing.len(), mismatches = found.len(), "compared with what the driver lists");
    for (name, mismatch) in term.mismatches.listed(began, found) {
        debug!(attachment = %name, ?mismatch, "the driver lists the volume otherwise than its attachment says");
        term.queues.attachments.add(name);
    }
}
