//! The clocks by which the age of a lease is counted.
//!
//! The monotonic clock stands still while the machine is suspended; boot time goes on. Both stand still while a virtual
//! machine is paused; its wall clock is set right afterwards, by the hypervisor or over the network, and may at any time
//! be set to anything. So an age is what the clock says on which most time has passed: too great an age costs waiting, too
//! small a one costs the exclusion.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// Where readings come from: [`MachineClock`], or a test.
pub trait Clock: Send + Sync {
    /// What the clocks say now.
    fn now(&self) -> Reading;
}

/// What all clocks said at one moment. Of two readings of one clock the one taken later is the greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reading {
    /// First, since readings are ordered by it.
    pub(crate) monotonic: Instant,
    pub(crate) boot: Duration,
    /// Since 1970.
    pub(crate) wall: Duration,
}

impl Reading {
    /// How long before `now` this reading was taken, at most. A wall clock that was set back says nothing.
    pub(crate) fn age(self, now: Self) -> Duration {
        let monotonic = now.monotonic.saturating_duration_since(self.monotonic);
        monotonic.max(now.boot.saturating_sub(self.boot)).max(now.wall.saturating_sub(self.wall))
    }
}

/// The clocks of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct MachineClock;

impl Clock for MachineClock {
    fn now(&self) -> Reading {
        Reading { monotonic: Instant::now(), boot: read(ClockId::Boottime), wall: read(ClockId::Realtime) }
    }
}

/// A wall clock before 1970 counts as 1970.
fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Clocks that go with tokio's paused clock and can be put forward and back beside it.
#[cfg(test)]
#[derive(Debug, Clone)]
pub(crate) struct TestClock {
    start: Instant,
    /// How far boot time and the wall clock are ahead, in this order.
    ahead: std::sync::Arc<parking_lot::Mutex<(Duration, Duration)>>,
}

#[cfg(test)]
impl TestClock {
    pub(crate) fn new() -> Self {
        let wall = Duration::from_secs(1_700_000_000);
        Self { start: Instant::now(), ahead: std::sync::Arc::new(parking_lot::Mutex::new((Duration::ZERO, wall))) }
    }

    pub(crate) fn set_boot_time_forward(&self, by: Duration) {
        self.ahead.lock().0 += by;
    }

    pub(crate) fn set_wall_clock_forward(&self, by: Duration) {
        self.ahead.lock().1 += by;
    }

    pub(crate) fn set_wall_clock_back(&self, by: Duration) {
        self.ahead.lock().1 -= by;
    }
}

#[cfg(test)]
impl Clock for TestClock {
    fn now(&self) -> Reading {
        let (boot, wall) = *self.ahead.lock();
        let (monotonic, passed) = (Instant::now(), self.start.elapsed());
        Reading { monotonic, boot: boot + passed, wall: wall + passed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_age_of_a_reading_is_what_the_clock_says_on_which_most_time_has_passed() {
        let clock = TestClock::new();
        let [second, minute] = [1, 60].map(Duration::from_secs);
        let reading = clock.now();
        tokio::time::advance(second).await;
        assert_eq!(reading.age(clock.now()), second);
        clock.set_wall_clock_back(minute);
        assert_eq!(reading.age(clock.now()), second, "a wall clock that was set back");
        clock.set_boot_time_forward(minute);
        assert_eq!(reading.age(clock.now()), second + minute, "a suspension");
        clock.set_wall_clock_forward(4 * minute);
        assert_eq!(reading.age(clock.now()), second + 3 * minute, "a wall clock that was set forward");
    }

    #[test]
    fn the_machine_has_a_boot_time_and_a_wall_clock() {
        let earlier = MachineClock.now();
        let now = MachineClock.now();
        assert!(earlier.boot > Duration::ZERO && earlier.boot <= now.boot, "{earlier:?} {now:?}");
        let year = jiff::Timestamp::now().as_second().try_into().map(Duration::from_secs).unwrap_or_default();
        assert!(now.wall.abs_diff(year) < Duration::from_mins(1), "{now:?}");
    }
}
