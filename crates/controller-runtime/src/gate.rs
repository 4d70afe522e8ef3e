//! The fence of a leader term: whether this process may still write.
//!
//! A [`Gate`] compares the monotonic clock with the last renewal each time it is asked, so a process that was stopped
//! for a minute finds it closed before any timer of it has fired. Once closed it never opens again; the next term has a
//! gate of its own.
//!
//! Not guaranteed: a request whose bytes left this process just before the gate closed can reach its receiver later;
//! the difference between lease duration and renew deadline is the time it has. Time in which the whole machine is
//! suspended does not count on the monotonic clock.

use std::error::Error as _;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use http::{Method, Request};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::kube_client::{Answer, ApiServer, overload};

/// Refusal of a write because the leader term is over or its lease is about to run out.
///
/// A request refused at its start was never sent. One cut off while it waited for its answer may have been carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not sent: this process does not hold the leader lease for certain any more; the next leader does the work again"
)]
pub struct GateClosed;

/// Whether the term it belongs to may still write. Clones share one state.
#[derive(Clone)]
pub struct Gate {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Always,
    Until(Instant),
    Closed,
}

impl State {
    fn at(self, now: Instant) -> Self {
        match self {
            Self::Until(deadline) if now >= deadline => Self::Closed,
            other => other,
        }
    }
}

impl Gate {
    /// A gate that stays open until its one term ends: for a process without leader election.
    pub fn always_open() -> Self {
        Self::new(State::Always)
    }

    /// A gate that is open until `deadline`, the send time of the write that won the lease plus the renew deadline.
    pub(crate) fn open_until(deadline: Instant) -> Self {
        Self::new(State::Until(deadline))
    }

    fn new(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Asks, immediately before a write is sent, whether it may be sent.
    ///
    /// # Errors
    /// [`GateClosed`] when the deadline has passed or the term has ended.
    pub fn check(&self) -> Result<(), GateClosed> {
        match self.settle() {
            State::Closed => Err(GateClosed),
            State::Always | State::Until(_) => Ok(()),
        }
    }

    /// Moves the deadline after a renewal. `false`: the gate had closed before, and stays closed.
    pub(crate) fn extend(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        *state = state.at(Instant::now());
        match *state {
            State::Closed => false,
            State::Always => true,
            State::Until(present) => {
                *state = State::Until(deadline.max(present));
                true
            }
        }
    }

    /// Closes the gate for good.
    pub(crate) fn close(&self) {
        *self.state.lock() = State::Closed;
    }

    /// Resolves once the gate is closed by its deadline. A gate without one is waited for without end.
    pub(crate) async fn expired(&self) {
        loop {
            match self.settle() {
                State::Closed => return,
                State::Until(deadline) => tokio::time::sleep_until(deadline).await,
                State::Always => std::future::pending().await,
            }
        }
    }

    fn settle(&self) -> State {
        let mut state = self.state.lock();
        *state = state.at(Instant::now());
        *state
    }

    /// A client of `server` with this gate in front of it: POST, PUT, PATCH and DELETE pass only while the gate is open,
    /// everything else always. A refusal is recognised with [`gate_closed`].
    ///
    /// An overloaded API server is waited for as long as it asks, up to 30 s a request, and asked again. The gate is asked
    /// before each step of a write, so one that waits for its connection or for the next try is given up as well.
    pub fn client(&self, server: &ApiServer) -> kube::Client {
        let gate = self.clone();
        server.behind(move |server, request| send(gate.clone(), server, request)).client()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&*self.state.lock()).finish()
    }
}

/// Whether `error` is a write that a [`Gate`] refused or gave up.
pub fn gate_closed(error: &kube::Error) -> bool {
    let mut cause = error.source();
    while let Some(present) = cause {
        if present.is::<GateClosed>() {
            return true;
        }
        cause = present.source();
    }
    false
}

fn send(gate: Gate, server: ApiServer, request: Request<Body>) -> Answer {
    if !is_write(request.method()) {
        return Box::pin(overload::send(server, request));
    }
    Box::pin(async move {
        let mut answer = pin!(overload::send(server, request));
        // Connecting can take seconds, and the request is written by a poll: hence before every poll.
        poll_fn(|context| match gate.check() {
            Err(closed) => Poll::Ready(Err(closed.into())),
            Ok(()) => answer.as_mut().poll(context),
        })
        .await
    })
}

fn is_write(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(method)
}

#[cfg(test)]
mod tests;
