//! The tasks that HTTP/2 needs to move bytes on sockets.

use std::pin::Pin;

use hyper::rt::Executor;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Owns them: dropped, they are told to stop; [`stop`](Self::stop) also waits for it.
pub struct SocketTasks {
    executor: SocketExecutor,
    stop: DropGuard,
}

/// Hands hyper's tasks to the owner.
#[derive(Clone)]
pub struct SocketExecutor {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Default for SocketTasks {
    fn default() -> Self {
        Self::new()
    }
}

impl SocketTasks {
    /// Owns nothing yet.
    pub fn new() -> Self {
        let stop = CancellationToken::new();
        Self { executor: SocketExecutor { tasks: TaskTracker::new(), stop: stop.clone() }, stop: stop.drop_guard() }
    }

    /// For hyper's builders: what it runs is owned here.
    pub fn executor(&self) -> SocketExecutor {
        self.executor.clone()
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.executor.execute(task);
    }

    /// Cuts every connection.
    pub(crate) async fn stop(self) {
        drop(self.stop);
        self.executor.tasks.close();
        self.executor.tasks.wait().await;
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for SocketExecutor {
    fn execute(&self, task: F) {
        // Each call has one of several kilobytes, which would be copied at each step to the scheduler.
        let task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(task);
        let stopped = self.stop.clone().run_until_cancelled_owned(task);
        self.tasks.spawn(async move {
            stopped.await;
        });
    }
}
