//! A driver with a new connection was restarted or updated: what it refused or failed to do is asked for again at once.

use csi_client::NewConnections;
use tracing::info;

use crate::term_context::TermContext;

/// Ends all waits with each new connection to the driver, until the term drains.
pub(crate) async fn end_waits(term: &TermContext, mut connections: NewConnections) {
    while term.draining.run_until_cancelled(connections.next()).await.is_some() {
        term.pace.end_waits();
        let claims = term.queue.end_delays();
        info!(claims, "connected to the CSI driver anew: all backoffs end");
    }
}
