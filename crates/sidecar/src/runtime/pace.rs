//! How often a busy process looks at its sockets.
//!
//! The packets of an API server under load come one by one. To wake up for each costs many times what is done with it, in this
//! process and in those that it takes the processor from; a little later they are a batch. The price: where one worker does one
//! thing after the other, each of its steps takes a period, however fast the driver and the server are.

use std::time::Duration;

use tokio::time::Instant;

/// From one look to the next, in the long run. What comes meanwhile waits at most so long.
const PERIOD: Duration = Duration::from_millis(8);
/// Looks beyond the first without a rest, after a quiet time: a start, a claim or an attachment need a dozen.
const AT_ONCE: u32 = 64;

/// The pace of one thread.
pub(super) struct Pace {
    /// When the next look would be due if none were made at once.
    due: Option<Instant>,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { due: None }
    }

    /// How long to rest before the look that is to be made now.
    pub(super) fn rest(&mut self, now: Instant) -> Duration {
        let rest = self.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now + AT_ONCE * PERIOD));
        let due = self.due.map_or(now, |due| due.max(now));
        self.due = Some(due + PERIOD);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When looks are made by a thread that has something to do all the time, in milliseconds.
    fn looks(pace: &mut Pace, from: Instant, count: usize) -> Vec<u128> {
        let mut now = from;
        let mut look = || {
            now += pace.rest(now);
            (now - from).as_millis()
        };
        (0..count).map(|_| look()).collect()
    }

    #[test]
    fn many_looks_are_made_at_once_and_then_one_each_period() {
        let (mut pace, start) = (Pace::new(), Instant::now());
        let made = looks(&mut pace, start, 68);
        assert!(made[..=64].iter().all(|at| *at == 0), "{made:?}");
        assert_eq!(made[65..], [8, 16, 24]);
    }

    #[test]
    fn a_quiet_time_gives_looks_back_up_to_the_most_at_once() {
        let (mut pace, start) = (Pace::new(), Instant::now());
        looks(&mut pace, start, 65);
        assert_eq!(looks(&mut pace, start + 2 * PERIOD, 4), [0, 0, 8, 16]);
        let made = looks(&mut pace, start + Duration::from_mins(1), 66);
        assert_eq!(made.iter().filter(|at| **at == 0).count(), 65);
    }

    #[test]
    fn a_thread_that_is_slower_than_the_pace_never_rests() {
        let (mut pace, start) = (Pace::new(), Instant::now());
        for period in 0..1000 {
            assert_eq!(pace.rest(start + period * PERIOD), Duration::ZERO);
        }
    }
}
