//! Where each key of a queue is. Plain data: the clock is handed in and waking workers is left to the caller.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use foldhash::HashMap;
use tokio::time::Instant;

use super::Lane;
use crate::metrics::QueueReading;

/// Above this many slots, tables grown by a burst of keys are given back once they are empty.
const KEEP_CAPACITY: usize = 1024;

/// When a delayed key becomes ready. The number keeps keys of one instant apart and in order.
type Due = (Instant, u64);

enum Place {
    /// In the ready list of a lane.
    Ready { since: Instant },
    /// In the list of delays.
    Delayed { due: Due },
    /// With a worker. `undelayed`: delays were ended since, so the run asks for one in vain.
    Processing { since: Instant, next: Next, undelayed: bool },
}

/// What happens to a key when its worker is done.
#[derive(Clone, Copy)]
enum Next {
    Rest,
    RunAgain { since: Instant, unless_delayed: bool, lane: Lane },
    Delay { until: Instant },
}

/// What the caller has to count and whom to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    /// A key became ready that was not to be run before: an add, and one worker of the lane can start.
    Ready(Lane),
    /// A key that is being processed is to be run again: an add, but no worker can start.
    Dirty,
    /// A key whose add was counted before became ready.
    ReadyAgain(Lane),
    /// The first delay to run out is another one than before.
    SoonerDelay,
}

pub(super) struct State<K> {
    places: HashMap<K, Place>,
    urgent: VecDeque<K>,
    ordinary: VecDeque<K>,
    delays: BTreeMap<Due, K>,
    delays_made: u64,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self {
            places: HashMap::default(),
            urgent: VecDeque::new(),
            ordinary: VecDeque::new(),
            delays: BTreeMap::new(),
            delays_made: 0,
        }
    }
}

impl<K: Clone + Eq + Hash> State<K> {
    pub(super) fn add(&mut self, key: K, lane: Lane, now: Instant) -> Effect {
        match self.places.get_mut(&key) {
            None => self.make_ready(key, lane, now),
            Some(Place::Ready { .. }) => Effect::Nothing,
            Some(Place::Delayed { due }) => {
                self.delays.remove(due);
                self.make_ready(key, lane, now)
            }
            Some(Place::Processing { next, .. }) => match next {
                Next::RunAgain { unless_delayed, lane: chosen, .. } => {
                    *unless_delayed = false;
                    *chosen = lane;
                    Effect::Nothing
                }
                Next::Rest | Next::Delay { .. } => {
                    *next = Next::RunAgain { since: now, unless_delayed: false, lane };
                    Effect::Dirty
                }
            },
        }
    }

    pub(super) fn add_keeping_backoff(&mut self, key: K, now: Instant) -> Effect {
        match self.places.get_mut(&key) {
            None => self.make_ready(key, Lane::Ordinary, now),
            Some(Place::Ready { .. } | Place::Delayed { .. }) => Effect::Nothing,
            Some(Place::Processing { next, .. }) => match next {
                Next::RunAgain { .. } | Next::Delay { .. } => Effect::Nothing,
                Next::Rest => {
                    *next = Next::RunAgain { since: now, unless_delayed: true, lane: Lane::Ordinary };
                    Effect::Dirty
                }
            },
        }
    }

    pub(super) fn add_after(&mut self, key: K, delay: Duration, now: Instant) -> Effect {
        // A delay beyond what the clock can express is as good as one of a century.
        let until = now.checked_add(delay).unwrap_or_else(|| now + Duration::from_hours(24 * 36_525));
        if until <= now {
            return self.add(key, Lane::Ordinary, now);
        }
        match self.places.get_mut(&key) {
            None => self.delay(key, until),
            Some(Place::Ready { .. }) => Effect::Nothing,
            Some(Place::Delayed { due }) => {
                if due.0 <= until {
                    return Effect::Nothing;
                }
                self.delays.remove(due);
                self.delay(key, until)
            }
            Some(Place::Processing { undelayed: true, .. }) => self.add(key, Lane::Ordinary, now),
            Some(Place::Processing { next, .. }) => {
                *next = match *next {
                    Next::Rest | Next::RunAgain { unless_delayed: true, .. } => Next::Delay { until },
                    Next::Delay { until: sooner } => Next::Delay { until: sooner.min(until) },
                    again @ Next::RunAgain { .. } => again,
                };
                Effect::Nothing
            }
        }
    }

    /// Makes every key ready whose delay is over; returns how many.
    pub(super) fn mature(&mut self, now: Instant) -> usize {
        let mut matured = 0;
        while let Some(first) = self.delays.first_entry() {
            let due = first.key().0;
            if due > now {
                break;
            }
            let key = first.remove();
            self.make_ready(key, Lane::Ordinary, due);
            matured += 1;
        }
        matured
    }

    /// Makes every key ready that waits out a delay, in the order of their delays' beginnings; returns how many. Delays that a
    /// run in process asks for when it ends do not count either.
    pub(super) fn end_delays(&mut self, now: Instant) -> usize {
        for place in self.places.values_mut() {
            let Place::Processing { next, undelayed, .. } = place else { continue };
            *undelayed = true;
            if matches!(next, Next::Delay { .. }) {
                *next = Next::RunAgain { since: now, unless_delayed: false, lane: Lane::Ordinary };
            }
        }
        let mut delayed: Vec<_> = std::mem::take(&mut self.delays).into_iter().collect();
        delayed.sort_unstable_by_key(|((_, made), _)| *made);
        let ended = delayed.len();
        for (_, key) in delayed {
            self.make_ready(key, Lane::Ordinary, now);
        }
        ended
    }

    /// Hands out the first ready key of a lane and how long it has waited.
    pub(super) fn take(&mut self, lane: Lane, now: Instant) -> Option<(K, Duration)> {
        let ready = self.lane(lane);
        let key = ready.pop_front()?;
        if ready.is_empty() && ready.capacity() > KEEP_CAPACITY {
            *ready = VecDeque::new();
        }
        let before =
            self.places.insert(key.clone(), Place::Processing { since: now, next: Next::Rest, undelayed: false });
        let waited = match before {
            Some(Place::Ready { since }) => now.saturating_duration_since(since),
            Some(Place::Delayed { .. } | Place::Processing { .. }) | None => Duration::ZERO,
        };
        Some((key, waited))
    }

    /// Ends a run: how long it took, `None` for a key that was not being processed.
    pub(super) fn done(&mut self, key: &K, now: Instant) -> (Option<Duration>, Effect) {
        let Some(Place::Processing { since, next, .. }) = self.places.get(key) else {
            return (None, Effect::Nothing);
        };
        let ran = now.saturating_duration_since(*since);
        let effect = match *next {
            Next::Rest => {
                self.places.remove(key);
                if self.places.is_empty() && self.places.capacity() > KEEP_CAPACITY {
                    self.places = HashMap::default();
                }
                Effect::Nothing
            }
            Next::RunAgain { since, lane, .. } => {
                self.make_ready(key.clone(), lane, since);
                Effect::ReadyAgain(lane)
            }
            Next::Delay { until } if until <= now => self.make_ready(key.clone(), Lane::Ordinary, until),
            Next::Delay { until } => self.delay(key.clone(), until),
        };
        (Some(ran), effect)
    }

    pub(super) fn ready_len(&self) -> usize {
        self.urgent.len() + self.ordinary.len()
    }

    /// Table slots allocated, used or not.
    #[cfg(test)]
    pub(super) fn slots(&self) -> usize {
        self.places.capacity() + self.urgent.capacity() + self.ordinary.capacity()
    }

    pub(super) fn next_delay(&self) -> Option<Instant> {
        self.delays.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn read(&self, now: Instant) -> QueueReading {
        let mut reading = QueueReading::default();
        let waits = |reading: &mut QueueReading, since: Instant| {
            reading.depth += 1;
            reading.oldest_waiting = reading.oldest_waiting.max(now.saturating_duration_since(since));
        };
        for place in self.places.values() {
            match place {
                Place::Ready { since } => waits(&mut reading, *since),
                // Ready in fact, only that nobody has used the queue since.
                Place::Delayed { due } if due.0 <= now => waits(&mut reading, due.0),
                Place::Delayed { .. } => {}
                Place::Processing { since, next, .. } => {
                    let age = now.saturating_duration_since(*since);
                    reading.unfinished += age;
                    reading.longest_running = reading.longest_running.max(age);
                    if let Next::RunAgain { since, .. } = next {
                        waits(&mut reading, *since);
                    }
                }
            }
        }
        reading
    }

    fn lane(&mut self, lane: Lane) -> &mut VecDeque<K> {
        match lane {
            Lane::Urgent => &mut self.urgent,
            Lane::Ordinary => &mut self.ordinary,
        }
    }

    fn make_ready(&mut self, key: K, lane: Lane, since: Instant) -> Effect {
        self.places.insert(key.clone(), Place::Ready { since });
        self.lane(lane).push_back(key);
        Effect::Ready(lane)
    }

    fn delay(&mut self, key: K, until: Instant) -> Effect {
        let due = (until, self.delays_made);
        self.delays_made += 1;
        self.places.insert(key.clone(), Place::Delayed { due });
        self.delays.insert(due, key);
        match self.delays.first_key_value() {
            Some((first, _)) if *first == due => Effect::SoonerDelay,
            _ => Effect::Nothing,
        }
    }
}
