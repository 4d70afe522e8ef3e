//! How many calls that publish or unpublish are in flight.
//!
//! All of them together never exceed `--worker-threads`: drivers rely on 1 to have their calls one by one. With two slots or
//! more, one is kept for volumes that are attached for the first time, so that slow detaches do not hold up new pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::metrics::AttacherMetrics;

/// Why a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// A pod waits for the volume, and nothing has failed yet.
    FirstAttach,
    /// Everything else: detaches, retries, repairs.
    Ordinary,
}

/// The slots of one term.
pub(crate) struct CallSlots {
    all: Arc<Semaphore>,
    ordinary: Arc<Semaphore>,
    waiting: Arc<Waiting>,
    metrics: AttacherMetrics,
}

/// Leave to make one call; ends when it is dropped.
pub(crate) struct CallSlot {
    _ordinary: Option<OwnedSemaphorePermit>,
    _any: OwnedSemaphorePermit,
    metrics: AttacherMetrics,
}

impl CallSlots {
    pub(crate) fn new(threads: usize, metrics: AttacherMetrics) -> Self {
        let threads = threads.min(Semaphore::MAX_PERMITS);
        Self {
            all: Arc::new(Semaphore::new(threads)),
            ordinary: Arc::new(Semaphore::new(threads.saturating_sub(1).max(1))),
            waiting: Arc::default(),
            metrics,
        }
    }

    /// Waits for a slot, first come, first served within a kind.
    pub(crate) async fn acquire(&self, kind: CallKind) -> CallSlot {
        let since = Instant::now();
        let waits = Wait::begin(&self.waiting, &self.metrics, since);
        let ordinary = match kind {
            CallKind::FirstAttach => None,
            CallKind::Ordinary => permit(&self.ordinary).await,
        };
        let any = match permit(&self.all).await {
            Some(any) => any,
            // Slots are never closed.
            None => std::future::pending().await,
        };
        drop(waits);
        self.metrics.call_begins(since.elapsed());
        CallSlot { _ordinary: ordinary, _any: any, metrics: self.metrics.clone() }
    }

    /// How many wait for a slot, and for how long the first of them.
    pub(crate) fn waiting(&self) -> (usize, Duration) {
        let since = self.waiting.since.lock();
        (since.len(), since.first().map(|(since, _)| since.elapsed()).unwrap_or_default())
    }
}

async fn permit(slots: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    Arc::clone(slots).acquire_owned().await.ok()
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        self.metrics.call_ends();
    }
}

/// Since when each waits; the number keeps those of one instant apart.
#[derive(Default)]
struct Waiting {
    since: Mutex<BTreeSet<(Instant, u64)>>,
}

struct Wait<'a> {
    waiting: &'a Waiting,
    metrics: &'a AttacherMetrics,
    key: (Instant, u64),
}

impl<'a> Wait<'a> {
    fn begin(waiting: &'a Waiting, metrics: &'a AttacherMetrics, since: Instant) -> Self {
        let mut all = waiting.since.lock();
        let number = all.last().map_or(0, |(_, number)| number + 1);
        all.insert((since, number));
        metrics.calls_wait(all.len());
        Self { waiting, metrics, key: (since, number) }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let mut all = self.waiting.since.lock();
        all.remove(&self.key);
        self.metrics.calls_wait(all.len());
    }
}
