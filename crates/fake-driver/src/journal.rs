//! The journal of calls: who asked what, when, and how it ended.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::rpc::{AnyRequest, CsiRequest, Rpc};

/// One call, in the order in which the calls arrived.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which RPC.
    pub rpc: Rpc,
    /// What was asked, secrets included.
    pub request: AnyRequest,
    /// When the request was decoded.
    pub started: Instant,
    /// When the call ended; `None` while it runs.
    pub ended: Option<Instant>,
    /// How it ended.
    pub outcome: Outcome,
    /// Process id of the caller, from the socket's peer credentials.
    pub peer_pid: Option<i32>,
    /// The `:authority` the caller sent.
    pub authority: Option<String>,
}

impl Call {
    /// The request, if the call is of that RPC.
    pub fn request<R: CsiRequest>(&self) -> Option<&R> {
        R::from_any(&self.request)
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has not.
    Running,
    /// With OK.
    Answered,
    /// With an error.
    Failed(Code, String),
    /// The caller gave up, its connection ended, or the driver stopped, before there was an answer.
    Abandoned,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    calls: Arc<Mutex<Vec<Call>>>,
    changed: Arc<Notify>,
}

impl Journal {
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().clone()
    }

    pub(crate) fn count(&self, counts: impl Fn(&Call) -> bool) -> usize {
        self.calls.lock().iter().filter(|call| counts(call)).count()
    }

    /// Returns once `done` holds of the calls; does not bound the wait.
    pub(crate) async fn until(&self, done: impl Fn(&[Call]) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if done(&self.calls.lock()) {
                return;
            }
            changed.await;
        }
    }

    pub(crate) fn begin(&self, request: AnyRequest, peer_pid: Option<i32>, authority: Option<String>) -> Open {
        let mut calls = self.calls.lock();
        calls.push(Call {
            rpc: request.rpc(),
            request,
            started: Instant::now(),
            ended: None,
            outcome: Outcome::Running,
            peer_pid,
            authority,
        });
        let index = calls.len() - 1;
        drop(calls);
        self.changed.notify_waiters();
        Open { journal: self.clone(), index, ended: false }
    }

    fn end(&self, index: usize, outcome: Outcome) {
        if let Some(call) = self.calls.lock().get_mut(index) {
            call.ended = Some(Instant::now());
            call.outcome = outcome;
        }
        self.changed.notify_waiters();
    }
}

/// A call that runs; dropped without an end, it was abandoned.
#[derive(Debug)]
pub(crate) struct Open {
    journal: Journal,
    index: usize,
    ended: bool,
}

impl Open {
    pub(crate) fn end<T>(mut self, result: &Result<T, Status>) {
        self.ended = true;
        let outcome = match result {
            Ok(_) => Outcome::Answered,
            Err(status) => Outcome::Failed(status.code(), status.message().to_owned()),
        };
        self.journal.end(self.index, outcome);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if !self.ended {
            self.journal.end(self.index, Outcome::Abandoned);
        }
    }
}
