//! A driver with a new connection was restarted or updated: what it refused or failed to do is asked for again at once.

use csi_client::NewConnections;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::term_context::TermContext;

/// Ends all waits with each new connection to the driver, until the term drains.
pub(crate) async fn end_waits(term: &TermContext, mut connections: NewConnections, drain: &CancellationToken) {
    while drain.run_until_cancelled(connections.next()).await.is_some() {
        term.infeasible.forget_all();
        let (claims, volumes) = (term.queues.claims.end_delays(), term.queues.volumes.end_delays());
        let capacities = term.capacity.as_ref().map_or(0, |capacity| capacity.queue.end_delays());
        info!(claims, volumes, capacities, "connected to the CSI driver anew: all backoffs end");
    }
}
