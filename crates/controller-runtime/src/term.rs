//! A leader term as a value: what may only exist while this process leads is built from it and dies with it.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use tokio_util::sync::CancellationToken;

use crate::gate::Gate;
use crate::tasks::{TaskFailure, Tasks};

/// Leave to work as the leader. Controllers cannot be built without one.
#[derive(Debug, Clone)]
pub struct Term {
    number: u64,
    gate: Gate,
    draining: CancellationToken,
    /// Weak: tasks hold terms, and only the owner may decide when the tasks end.
    tasks: Weak<Tasks>,
}

impl Term {
    /// What each write of the term must pass immediately before it is sent.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Cancelled when the term is to end in good order: take no new work, finish what is in flight, return.
    pub fn draining(&self) -> CancellationToken {
        self.draining.clone()
    }

    /// Runs `task` until the term ends; then it is aborted, and the next term begins after its end. Its panic ends the
    /// process's leading. In a term that has ended nothing is run.
    pub fn spawn(&self, name: impl Into<Cow<'static, str>>, task: impl Future<Output = ()> + Send + 'static) {
        let name = name.into();
        if let Some(tasks) = self.tasks.upgrade() {
            tasks.spawn(name, task);
        } else {
            tracing::debug!(task = %name, term = self.number, "not started, its term has ended");
        }
    }

    /// Which term of this process it is, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// The owner of a term's tasks.
pub(crate) struct TermOwner {
    term: Term,
    tasks: Arc<Tasks>,
}

impl TermOwner {
    pub(crate) fn new(number: u64, gate: Gate) -> Self {
        let tasks = Arc::new(Tasks::new());
        let draining = CancellationToken::new();
        Self { term: Term { number, gate, draining, tasks: Arc::downgrade(&tasks) }, tasks }
    }

    pub(crate) fn term(&self) -> &Term {
        &self.term
    }

    /// The first task that panicked.
    pub(crate) async fn failed(&self) -> TaskFailure {
        self.tasks.failed().await
    }

    /// Aborts the tasks and waits until the last one is gone.
    pub(crate) async fn end(self) {
        Tasks::shutdown_shared(self.tasks).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tasks_end_with_the_term_and_none_starts_after_it() {
        let owner = TermOwner::new(7, Gate::always_open());
        let term = owner.term().clone();
        let alive = Arc::new(());
        let held = (alive.clone(), term.clone());
        term.spawn("holds its own term", async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        tokio::task::yield_now().await;
        assert_eq!((term.number(), Arc::strong_count(&alive)), (7, 2));
        owner.end().await;
        assert_eq!(Arc::strong_count(&alive), 1);

        let held = alive.clone();
        term.spawn("too late", async move { drop(held) });
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
