//! The tasks HTTP/2 needs for its streams.

use hyper::rt::Executor;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Owns them: dropped, they end.
pub(crate) struct SocketTasks {
    executor: SocketExecutor,
    _stop: DropGuard,
}

/// Hands hyper's tasks to the owner.
#[derive(Clone)]
pub(crate) struct SocketExecutor {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl SocketTasks {
    pub(crate) fn new() -> Self {
        let stop = CancellationToken::new();
        Self { executor: SocketExecutor { tasks: TaskTracker::new(), stop: stop.clone() }, _stop: stop.drop_guard() }
    }

    pub(crate) fn executor(&self) -> SocketExecutor {
        self.executor.clone()
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for SocketExecutor {
    fn execute(&self, task: F) {
        let stopped = self.stop.clone().run_until_cancelled_owned(task);
        self.tasks.spawn(async move {
            stopped.await;
        });
    }
}
