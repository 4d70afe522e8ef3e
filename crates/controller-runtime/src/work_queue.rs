//! A queue of keys to reconcile, with client-go's semantics.
//!
//! - First in, first out; a key that already waits is not added twice.
//! - A key is with one worker at a time. Added while it is processed, it runs again afterwards.
//! - A key can be added after a delay, or after the delay its failures call for. The sooner of two delays counts.
//! - Ready keys wait in one of two [`Lane`]s, so that workers can be kept free for what must not queue behind the rest.
//!
//! Two differences, both of which only take out runs that could find nothing: adding a key at once cancels its pending
//! delay, and a delayed add of a key that is going to run at once anyway is dropped. The run to come decides afresh.
//!
//! What is not guaranteed: keys are kept in memory alone, and a key waiting out a delay becomes ready only while somebody
//! uses the queue; it has no task of its own.

mod state;

use std::fmt::{self, Debug};
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use self::state::{Effect, State};
use crate::metrics::{QueueCounters, QueueReading, QueueState, WorkQueueMetrics};
use crate::rate_limiter::{Backoff, RateLimiter};

/// Which of its two lists a ready key waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// For keys added with [`WorkQueue::add_urgent`], until they are taken.
    Urgent,
    /// For all others, so also for every retry.
    Ordinary,
}

/// A handle on a queue; clones share it.
pub struct WorkQueue<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    name: Arc<str>,
    inner: Mutex<Inner<K>>,
    /// One permit or wake-up per key made ready in the lane.
    urgent: Notify,
    ordinary: Notify,
    /// All waiting getters, when the next delay to run out is another one.
    delays: Notify,
    counters: QueueCounters,
}

struct Inner<K> {
    state: State<K>,
    limiter: RateLimiter<K>,
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K> Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

impl<K: Clone + Eq + Hash + Debug + Send + 'static> WorkQueue<K> {
    /// An empty queue. `name` is the label of its metrics; queues of one name share their series.
    pub fn new(name: impl Into<Arc<str>>, backoff: Backoff, metrics: &WorkQueueMetrics) -> Self {
        let name = name.into();
        let shared = Arc::new(Shared {
            counters: metrics.of_queue(&name),
            inner: Mutex::new(Inner { state: State::default(), limiter: RateLimiter::new(backoff) }),
            urgent: Notify::new(),
            ordinary: Notify::new(),
            delays: Notify::new(),
            name,
        });
        let weak = Arc::downgrade(&shared);
        let observed: Weak<dyn QueueState> = weak;
        metrics.observe(&shared.name, observed);
        Self { shared }
    }

    /// The name given at construction.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Makes `key` ready at once and cancels a delay it waits out. While it is processed: it runs again afterwards.
    pub fn add(&self, key: K) {
        let effect = self.update(|inner, now| inner.state.add(key, Lane::Ordinary, now));
        self.announce(effect);
    }

    /// Like [`add`](Self::add), into the urgent lane. A key that is ready already stays in the lane where it is.
    pub fn add_urgent(&self, key: K) {
        let effect = self.update(|inner, now| inner.state.add(key, Lane::Urgent, now));
        self.announce(effect);
    }

    /// Like [`add`](Self::add), but leaves a key alone that waits out a delay. While the key is processed: it runs again
    /// afterwards, unless a delayed add comes in before that run ends, such as its own retry.
    pub fn add_keeping_backoff(&self, key: K) {
        let effect = self.update(|inner, now| inner.state.add_keeping_backoff(key, now));
        self.announce(effect);
    }

    /// Makes `key` ready after `delay`. No-op when it is ready already or waits for less.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.shared.counters.retries.inc();
        let effect = self.update(|inner, now| inner.state.add_after(key, delay, now));
        self.announce(effect);
    }

    /// Counts a failure of `key` and adds it after the delay its failures call for.
    pub fn add_rate_limited(&self, key: K) {
        self.shared.counters.retries.inc();
        let effect = self.update(|inner, now| {
            let delay = inner.limiter.fail(key.clone());
            inner.state.add_after(key, delay, now)
        });
        self.announce(effect);
    }

    /// Makes all keys ready that wait out a delay, in the order in which they were delayed; returns their number. A key in
    /// process is not delayed by how that run ends. Failure counts stay.
    pub fn end_delays(&self) -> usize {
        let ended = self.update(|inner, now| inner.state.end_delays(now));
        for _ in 0..ended {
            self.announce(Effect::Ready(Lane::Ordinary));
        }
        ended
    }

    /// Sets the failure count of `key` to zero. A delay it waits out stays.
    pub fn forget(&self, key: &K) {
        self.shared.inner.lock().limiter.forget(key);
    }

    /// Failures of `key` since it was last forgotten.
    pub fn failures(&self, key: &K) -> u32 {
        self.shared.inner.lock().limiter.failures(key)
    }

    /// Waits for the next key, an urgent one first. It counts as being processed until [`done`](Self::done). Dropping the
    /// future loses no key.
    pub async fn get(&self) -> K {
        tokio::select! {
            biased;
            key = self.get_from(Lane::Urgent) => key,
            key = self.get_from(Lane::Ordinary) => key,
        }
    }

    /// [`get`](Self::get) for a worker that serves one lane.
    pub async fn get_from(&self, lane: Lane) -> K {
        loop {
            let mut ready = pin!(self.ready(lane).notified());
            let mut delays = pin!(self.shared.delays.notified());
            ready.as_mut().enable();
            delays.as_mut().enable();
            let next_delay = match self.take(lane) {
                Ok(key) => return key,
                Err(next_delay) => next_delay,
            };
            let delay_over = async {
                match next_delay {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = ready => {}
                () = delays => {}
                () = delay_over => {}
            }
        }
    }

    /// Ends the processing of `key`, which every key from [`get`](Self::get) needs exactly once. Other keys are ignored.
    pub fn done(&self, key: &K) {
        let effect = self.update(|inner, now| {
            let (ran, effect) = inner.state.done(key, now);
            if let Some(ran) = ran {
                self.shared.counters.work_duration.observe(ran.as_secs_f64());
            }
            effect
        });
        self.announce(effect);
    }

    /// Keys that wait for a worker, without those that wait out a delay or are to run again after their current run.
    pub fn len(&self) -> usize {
        self.update(|inner, _| inner.state.ready_len())
    }

    /// How long the oldest key has been ready without a worker; zero when none waits. Looks at every key.
    pub fn oldest_waiting(&self) -> Duration {
        self.shared.read().oldest_waiting
    }

    /// Whether no key waits for a worker.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn take(&self, lane: Lane) -> Result<K, Option<Instant>> {
        self.update(|inner, now| match inner.state.take(lane, now) {
            Some((key, waited)) => {
                self.shared.counters.queue_duration.observe(waited.as_secs_f64());
                Ok(key)
            }
            None => Err(inner.state.next_delay()),
        })
    }

    /// Runs `change` after the delays that are over by now have taken effect.
    fn update<T>(&self, change: impl FnOnce(&mut Inner<K>, Instant) -> T) -> T {
        let now = Instant::now();
        let mut inner = self.shared.inner.lock();
        let matured = inner.state.mature(now);
        let out = change(&mut inner, now);
        drop(inner);
        for _ in 0..matured {
            self.announce(Effect::Ready(Lane::Ordinary));
        }
        out
    }

    fn ready(&self, lane: Lane) -> &Notify {
        match lane {
            Lane::Urgent => &self.shared.urgent,
            Lane::Ordinary => &self.shared.ordinary,
        }
    }

    fn announce(&self, effect: Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::Dirty => self.shared.counters.adds.inc(),
            Effect::Ready(lane) => {
                self.shared.counters.adds.inc();
                self.ready(lane).notify_one();
            }
            Effect::ReadyAgain(lane) => self.ready(lane).notify_one(),
            Effect::SoonerDelay => self.shared.delays.notify_waiters(),
        }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> QueueState for Shared<K> {
    fn read(&self) -> QueueReading {
        let now = Instant::now();
        self.inner.lock().state.read(now)
    }
}

#[cfg(test)]
mod tests;
