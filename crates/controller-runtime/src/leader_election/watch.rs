//! A watch on the one Lease, so that a stand-by notices at once when it is released.
//!
//! It is a convenience: without it the stand-by polls as client-go does, and it decides nothing from it that a GET has
//! not confirmed.

use std::time::Duration;

use futures_util::future;
use futures_util::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use tokio::time::Instant;

/// What a watch reported.
pub(super) enum Seen {
    /// The lease as it is after a change.
    Lease(Box<Lease>),
    /// It was deleted.
    Deleted,
    /// The watch is over. `lived`: how long it had been open.
    Ended { lived: Duration },
}

#[derive(Default)]
pub(super) struct LeaseWatch {
    state: State,
}

#[derive(Default)]
enum State {
    #[default]
    Closed,
    Open {
        events: BoxStream<'static, Result<WatchEvent<Lease>, kube::Error>>,
        since: Instant,
    },
    /// The API server does not let this process watch.
    Forbidden,
}

impl LeaseWatch {
    /// Starts watching from `version` unless a watch is open or not permitted.
    pub(super) fn open(&mut self, api: &Api<Lease>, name: &str, version: &str) {
        if !matches!(self.state, State::Closed) {
            return;
        }
        let (api, version) = (api.clone(), version.to_owned());
        let parameters = WatchParams::default().fields(&format!("metadata.name={name}"));
        let events = stream::once(async move { api.watch(&parameters, &version).await }).try_flatten().boxed();
        self.state = State::Open { events, since: Instant::now() };
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Gives up a watch that is open.
    pub(super) fn close(&mut self) {
        if self.is_open() {
            self.state = State::Closed;
        }
    }

    /// The next report; waits without end when no watch is open.
    pub(super) async fn next(&mut self) -> Seen {
        loop {
            let State::Open { events, since } = &mut self.state else { return future::pending().await };
            let (event, lived) = (events.next().await, since.elapsed());
            self.state = match event {
                Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                    return Seen::Lease(Box::new(lease));
                }
                Some(Ok(WatchEvent::Deleted(_))) => return Seen::Deleted,
                Some(Ok(WatchEvent::Bookmark(_))) => continue,
                Some(Err(kube::Error::Api(status))) if status.code == 403 => {
                    tracing::info!(
                        reason = %status.message,
                        "watching the leader lease is not permitted, polling it instead; grant the verb watch on leases \
                         for a faster hand-over"
                    );
                    State::Forbidden
                }
                Some(Ok(WatchEvent::Error(status))) => {
                    tracing::debug!(reason = %status.message, "watch on the leader lease ended");
                    State::Closed
                }
                Some(Err(error)) => {
                    tracing::debug!(%error, "watch on the leader lease failed");
                    State::Closed
                }
                None => State::Closed,
            };
            return Seen::Ended { lived };
        }
    }
}
