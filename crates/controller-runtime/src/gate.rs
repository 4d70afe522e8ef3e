//! The fence of a leader term: whether this process may still write.
//!
//! A [`Gate`] compares the clocks with the last renewal each time it is asked, so a process that was stopped for a minute
//! finds it closed before any timer of it has fired. Whichever clock says that more time has passed counts: monotonic
//! clock, boot time or wall clock. So a machine that was suspended for a minute finds the gate closed as well. A wall
//! clock that is set forward costs the term, one that is set back changes nothing. Once closed a gate never opens again;
//! the next term has a gate of its own.
//!
//! Not guaranteed: a request whose bytes left this process just before the gate closed can reach its receiver later;
//! the difference between lease duration and renew deadline is the time it has. The pause of a virtual machine whose
//! clocks all stand still meanwhile does not count until its wall clock is set right.

use std::error::Error as _;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Method, Request};
use kube::client::Body;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::sleep_until;

use crate::clock::{Clock, MachineClock, Reading};
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
    clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Always,
    /// Open for `limit` after the last renewal was sent.
    Renewed {
        sent: Reading,
        limit: Duration,
    },
    Closed,
}

impl Gate {
    /// A gate that stays open until its one term ends: for a process without leader election.
    pub fn always_open() -> Self {
        Self::new(Arc::new(MachineClock), State::Always)
    }

    /// A gate that is open for `limit`, the renew deadline, after the write was sent that won the lease.
    pub(crate) fn open_for(limit: Duration, sent: Reading, clock: Arc<dyn Clock>) -> Self {
        Self::new(clock, State::Renewed { sent, limit })
    }

    fn new(clock: Arc<dyn Clock>, state: State) -> Self {
        Self { clock, state: Arc::new(Mutex::new(state)) }
    }

    /// Asks, immediately before a write is sent, whether it may be sent.
    ///
    /// # Errors
    /// [`GateClosed`] when the last renewal is too old or the term has ended.
    pub fn check(&self) -> Result<(), GateClosed> {
        match *self.settled() {
            State::Closed => Err(GateClosed),
            State::Always | State::Renewed { .. } => Ok(()),
        }
    }

    /// Takes in a renewal that was sent at `renewal`. `false`: the gate had closed before, and stays closed.
    pub(crate) fn extend(&self, renewal: Reading) -> bool {
        match &mut *self.settled() {
            State::Closed => false,
            State::Always => true,
            State::Renewed { sent, .. } => {
                *sent = renewal.max(*sent);
                true
            }
        }
    }

    /// Closes the gate for good.
    pub(crate) fn close(&self) {
        *self.state.lock() = State::Closed;
    }

    /// Resolves once the age of the last renewal has closed the gate: when its timer fires, or at the first poll at which
    /// another clock says so. A gate that is always open is waited for without end.
    pub(crate) async fn expired(&self) {
        loop {
            let state = *self.settled();
            match state {
                State::Closed => return,
                State::Always => std::future::pending().await,
                State::Renewed { sent, limit } => {
                    let mut timer = pin!(sleep_until(sent.monotonic + limit));
                    // The timer stands still while the machine is suspended, so the gate is asked before it.
                    let closed = poll_fn(|context| match self.check() {
                        Err(GateClosed) => Poll::Ready(()),
                        Ok(()) => timer.as_mut().poll(context),
                    });
                    closed.await;
                }
            }
        }
    }

    fn settled(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        if let State::Renewed { sent, limit } = *state
            && sent.age(self.clock.now()) >= limit
        {
            *state = State::Closed;
        }
        state
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
