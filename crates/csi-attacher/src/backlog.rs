//! Says when work waits for long, so that a backlog has a visible reason.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::term_context::TermContext;

/// How often is looked.
const EVERY: Duration = Duration::from_secs(10);
/// From when on waiting is worth a line.
const LONG: Duration = Duration::from_secs(30);
/// At most one line in this time.
const QUIET: Duration = Duration::from_mins(1);

/// Watches the queues and the calls until the term drains.
pub(crate) async fn watch(term: &TermContext) {
    let mut told: Option<Instant> = None;
    loop {
        tokio::select! {
            () = term.draining.cancelled() => return,
            () = sleep(EVERY) => {}
        }
        if told.is_none_or(|told| told.elapsed() >= QUIET) && tell(term) {
            told = Some(Instant::now());
        }
    }
}

/// Whether something waits for long, which is then logged.
fn tell(term: &TermContext) -> bool {
    let (attachments, volumes) = (&term.queues.attachments, &term.queues.volumes);
    let (calls, oldest_call) = term.slots.waiting();
    let waiting = [
        (attachments.name(), attachments.len(), attachments.oldest_waiting()),
        (volumes.name(), volumes.len(), volumes.oldest_waiting()),
        ("calls to the CSI driver", calls, oldest_call),
    ];
    let Some((queue, depth, age)) =
        waiting.into_iter().max_by_key(|(_, _, age)| *age).filter(|(_, _, age)| *age > LONG)
    else {
        return false;
    };
    warn!(
        queue,
        depth,
        age = age.as_secs(),
        in_flight = term.driver.in_flight(),
        "work has been waiting for long: the CSI driver is slow, or --worker-threads is too small"
    );
    true
}
