//! How many `GetCapacity` calls are in flight.
//!
//! Without `--capacity-threads` one at a time, as long as that is fast enough to ask for everything within half a poll
//! interval; else as many as that takes. A driver that answers slowly is left alone: calls that queue inside of it would
//! only come closer to their deadline.

use std::pin::pin;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// More are not made without being asked for.
const MOST: usize = 16;
/// How much the newest call counts in the mean.
const NEWEST: u32 = 8;

/// What the number is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// `--capacity-threads`, if given.
    pub(crate) threads: Option<usize>,
    pub(crate) poll_interval: Duration,
    /// Deadline of each call.
    pub(crate) timeout: Duration,
}

impl Pace {
    /// How many calls at a time, for so many items and calls that take so long.
    pub(crate) fn slots(&self, items: usize, call: Option<Duration>) -> usize {
        if let Some(threads) = self.threads {
            return threads;
        }
        let Some(call) = call else { return 1 };
        let call = call.as_secs_f64().max(1e-6);
        let items = f64::from(u32::try_from(items).unwrap_or(u32::MAX));
        let enough = (items * call / (self.poll_interval.as_secs_f64() / 2.0)).ceil();
        let bearable = (self.timeout.as_secs_f64() / (2.0 * call)).floor();
        let wanted = enough.min(bearable);
        (1..=MOST).rev().find(|slots| f64::from(u32::try_from(*slots).unwrap_or(u32::MAX)) <= wanted).unwrap_or(1)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct CallSlots {
    pace: Pace,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    in_flight: usize,
    /// How long calls take.
    mean: Option<Duration>,
}

impl CallSlots {
    pub(crate) fn new(pace: Pace) -> Self {
        Self { pace, state: Mutex::default(), freed: Notify::new() }
    }

    /// Waits for a place for one call, of so many items to ask for.
    pub(crate) async fn enter(&self, items: usize) -> Slot<'_> {
        loop {
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable();
            {
                let mut state = self.state.lock();
                if state.in_flight < self.pace.slots(items, state.mean) {
                    state.in_flight += 1;
                    return Slot(self);
                }
            }
            freed.await;
        }
    }
}

/// A call in flight.
#[derive(Debug)]
pub(crate) struct Slot<'a>(&'a CallSlots);

impl Slot<'_> {
    /// It was sent and ended after this time, well or badly.
    pub(crate) fn took(&self, time: Duration) {
        let mut state = self.0.state.lock();
        state.mean = Some(match state.mean {
            None => time,
            Some(mean) => (mean * (NEWEST - 1) + time) / NEWEST,
        });
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.state.lock().in_flight -= 1;
        // All of them, because there may be places for more than one.
        self.0.freed.notify_waiters();
    }
}
