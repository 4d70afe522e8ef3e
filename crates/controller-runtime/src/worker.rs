//! Bounded workers over a queue.
//!
//! One dispatcher takes a key whenever fewer than `limit` are in process and reconciles it beside the others. Idle workers
//! do not exist, so a high limit costs nothing. All runs are part of the dispatcher's future: when it is dropped they are
//! dropped with it, at once, at the await point they are at.

use std::any::Any;
use std::fmt::Debug;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio_util::sync::CancellationToken;

use crate::work_queue::{Lane, WorkQueue};

/// How a run ended, which tells the queue when the key is due again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing left to do until something changes. The failure count is forgotten.
    Done,
    /// Failed; tried again after the queue's backoff for this key.
    Retry,
    /// To be run again after this delay. The failure count stays: this is neither a failure nor a success.
    RetryAfter(Duration),
}

/// Reconciles the keys of `queue`, at most `limit` at a time (zero counts as one), until `drain` is cancelled.
///
/// After that it takes no more keys, waits for the runs in process and returns; keys still queued stay in the queue. A run
/// that panics is logged as an error and retried like a failed one. A run that is dropped with the dispatcher leaves its
/// key ready.
pub async fn run_workers<K, F, Fut>(queue: WorkQueue<K>, limit: usize, drain: CancellationToken, reconcile: F)
where
    K: Clone + Eq + Hash + Debug + Send + 'static,
    F: Fn(K) -> Fut + Clone,
    Fut: Future<Output = Outcome>,
{
    work(queue, None, limit, drain, reconcile).await;
}

/// [`run_workers`] for the keys of one lane: run both lanes beside each other, and neither waits for the other.
pub async fn run_lane<K, F, Fut>(queue: WorkQueue<K>, lane: Lane, limit: usize, drain: CancellationToken, reconcile: F)
where
    K: Clone + Eq + Hash + Debug + Send + 'static,
    F: Fn(K) -> Fut + Clone,
    Fut: Future<Output = Outcome>,
{
    work(queue, Some(lane), limit, drain, reconcile).await;
}

async fn work<K, F, Fut>(queue: WorkQueue<K>, lane: Option<Lane>, limit: usize, drain: CancellationToken, reconcile: F)
where
    K: Clone + Eq + Hash + Debug + Send + 'static,
    F: Fn(K) -> Fut + Clone,
    Fut: Future<Output = Outcome>,
{
    let limit = limit.max(1);
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            () = drain.cancelled() => break,
            Some(()) = running.next(), if !running.is_empty() => {}
            key = next(&queue, lane), if running.len() < limit => {
                running.push(run(queue.clone(), key, reconcile.clone()));
            }
        }
    }
    while running.next().await.is_some() {}
}

async fn next<K: Clone + Eq + Hash + Debug + Send + 'static>(queue: &WorkQueue<K>, lane: Option<Lane>) -> K {
    match lane {
        Some(lane) => queue.get_from(lane).await,
        None => queue.get().await,
    }
}

/// One run of one key, from the queue's hands back into them.
async fn run<K, F, Fut>(queue: WorkQueue<K>, key: K, reconcile: F)
where
    K: Clone + Eq + Hash + Debug + Send + 'static,
    F: Fn(K) -> Fut,
    Fut: Future<Output = Outcome>,
{
    let mut turn = Turn { queue, key, outcome: None };
    // The closure runs inside the future, so that a panic of either is caught.
    let reconciled = async { reconcile(turn.key.clone()).await };
    // What a panicking run leaves half changed is the controller's to bear, as for any error return.
    let outcome = match AssertUnwindSafe(reconciled).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(panic) => {
            tracing::error!(
                queue = turn.queue.name(),
                key = ?turn.key,
                "reconciling panicked: {}; it will be retried with backoff",
                panic_text(panic.as_ref())
            );
            Outcome::Retry
        }
    };
    turn.outcome = Some(outcome);
}

/// A key in process. Its end is told to the queue on drop, so a run that is cut off cannot leave its key in process.
struct Turn<K: Clone + Eq + Hash + Debug + Send + 'static> {
    queue: WorkQueue<K>,
    key: K,
    outcome: Option<Outcome>,
}

impl<K: Clone + Eq + Hash + Debug + Send + 'static> Drop for Turn<K> {
    fn drop(&mut self) {
        match self.outcome {
            Some(Outcome::Done) => self.queue.forget(&self.key),
            Some(Outcome::Retry) => self.queue.add_rate_limited(self.key.clone()),
            Some(Outcome::RetryAfter(delay)) => self.queue.add_after(self.key.clone(), delay),
            None => self.queue.add(self.key.clone()),
        }
        self.queue.done(&self.key);
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[cfg(test)]
mod tests;
