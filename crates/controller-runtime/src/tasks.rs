//! Ownership of background tasks: every task has a name and an owner that ends it.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::worker::panic_text;

/// The first task of an owner that panicked. Its Display is fit to be the reason a process gives for ending.
#[derive(Clone, Debug, thiserror::Error)]
#[error("task {task} panicked: {message}; this is a defect, please report it with the log lines before it")]
pub struct TaskFailure {
    /// The name it was spawned under.
    pub task: Cow<'static, str>,
    /// What the panic said.
    pub message: String,
}

/// An owner of tasks. Dropped, it cancels its token and aborts them without waiting for their end.
#[derive(Debug)]
pub struct Tasks {
    token: CancellationToken,
    running: Mutex<JoinSet<()>>,
    failure: watch::Sender<Option<TaskFailure>>,
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

impl Tasks {
    /// An owner without tasks.
    pub fn new() -> Self {
        Self::under(&CancellationToken::new())
    }

    /// An owner whose token is cancelled with `parent`, and not the other way round.
    pub fn under(parent: &CancellationToken) -> Self {
        Self { token: parent.child_token(), running: Mutex::new(JoinSet::new()), failure: watch::Sender::new(None) }
    }

    /// Runs `task` until it ends or this owner does. A panic of it is logged and shown by [`failed`](Self::failed).
    ///
    /// Must be called within a Tokio runtime.
    pub fn spawn(&self, name: impl Into<Cow<'static, str>>, task: impl Future<Output = ()> + Send + 'static) {
        let name = name.into();
        let failure = self.failure.clone();
        let span = tracing::info_span!("task", name = &*name);
        let supervised = async move {
            let Err(panic) = AssertUnwindSafe(task).catch_unwind().await else {
                return;
            };
            let failed = TaskFailure { task: name, message: panic_text(panic.as_ref()).to_owned() };
            tracing::error!("{failed}");
            failure.send_if_modified(|first| {
                let unset = first.is_none();
                if unset {
                    *first = Some(failed);
                }
                unset
            });
        };
        let mut running = self.running.lock();
        // Whatever has ended by now is let go, so that an owner of many short tasks does not grow.
        while running.try_join_next().is_some() {}
        running.spawn(supervised.instrument(span));
    }

    /// Cancelled when this owner shuts down or is dropped; for tasks that want to end by themselves.
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Waits for the first panic of any task. Pending as long as there is none.
    pub async fn failed(&self) -> TaskFailure {
        let mut failure = self.failure.subscribe();
        loop {
            if let Some(failure) = failure.borrow_and_update().clone() {
                return failure;
            }
            if failure.changed().await.is_err() {
                // Cannot be: the sender is in `self`.
                return std::future::pending().await;
            }
        }
    }

    /// Cancels the token, aborts every task at the await point it is at, and returns when the last one is gone.
    pub async fn shutdown(self) {
        self.drain(Duration::ZERO).await;
    }

    /// The same for an owner that is shared. Whoever shares it holds it for moments only, to spawn a task.
    pub async fn shutdown_shared(mut shared: Arc<Self>) {
        loop {
            match Arc::try_unwrap(shared) {
                Ok(tasks) => return tasks.shutdown().await,
                Err(still_shared) => shared = still_shared,
            }
            tokio::task::yield_now().await;
        }
    }

    /// Cancels the token, lets the tasks end by themselves for up to `grace`, aborts the rest, and returns when the last
    /// one is gone.
    pub async fn drain(self, grace: Duration) {
        self.token.cancel();
        let mut running = std::mem::take(&mut *self.running.lock());
        if !grace.is_zero() {
            let all_ended = async { while running.join_next().await.is_some() {} };
            if tokio::time::timeout(grace, all_ended).await.is_err() {
                tracing::warn!(
                    "{} tasks did not end within {grace:?} of being asked to; they are aborted",
                    running.len()
                );
            }
        }
        running.shutdown().await;
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.token.cancel();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use tokio::time::{Instant, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn shutdown_cancels_aborts_and_awaits() {
        let tasks = Tasks::new();
        let token = tasks.token();
        let alive = Arc::new(());
        for _ in 0..3 {
            let alive = alive.clone();
            tasks.spawn("sleeper", async move {
                std::future::pending::<()>().await;
                drop(alive);
            });
        }
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&alive), 4);
        tasks.shutdown().await;
        assert!(token.is_cancelled());
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_lets_tasks_end_by_themselves_within_the_grace() {
        for (needs, grace, finishes) in [(2, 5, true), (8, 5, false)] {
            let tasks = Tasks::new();
            let token = tasks.token();
            let (finished, outcome) = tokio::sync::oneshot::channel();
            tasks.spawn("flush", async move {
                token.cancelled().await;
                tokio::time::sleep(needs * SECOND).await;
                finished.send(()).unwrap();
            });
            let start = Instant::now();
            tasks.drain(grace * SECOND).await;
            assert_eq!(start.elapsed(), needs.min(grace) * SECOND);
            assert_eq!(outcome.await.is_ok(), finishes);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_panic_is_named_and_the_others_go_on() {
        let tasks = Tasks::new();
        tasks.spawn("steady", std::future::pending());
        assert!(timeout(SECOND, tasks.failed()).await.is_err());
        tasks.spawn("informer persistentvolumes", async { panic!("index out of step") });
        let failure = timeout(SECOND, tasks.failed()).await.unwrap();
        assert_eq!((&*failure.task, failure.message.as_str()), ("informer persistentvolumes", "index out of step"));
        tasks.spawn("second", async { panic!("later") });
        tokio::task::yield_now().await;
        let again = timeout(SECOND, tasks.failed()).await.unwrap();
        assert_eq!(again.task, "informer persistentvolumes");
        assert_eq!(tasks.running.lock().len(), 2, "the first one that ended was let go");
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_the_owner_ends_its_tasks() {
        let tasks = Tasks::new();
        let (token, alive) = (tasks.token(), Arc::new(()));
        let held = alive.clone();
        tasks.spawn("sleeper", async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        tokio::task::yield_now().await;
        drop(tasks);
        tokio::task::yield_now().await;
        assert!(token.is_cancelled());
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[tokio::test]
    async fn a_parent_token_reaches_the_tasks_and_not_the_other_way_round() {
        let parent = CancellationToken::new();
        let (first, second) = (Tasks::under(&parent), Tasks::under(&parent));
        first.shutdown().await;
        assert!(!parent.is_cancelled());
        assert!(!second.token().is_cancelled());
        parent.cancel();
        assert!(second.token().is_cancelled());
    }
}
