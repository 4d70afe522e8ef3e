//! Per-key exponential backoff: how long a key that has failed `n` times waits before it is tried again.

use std::hash::Hash;
use std::time::Duration;

use foldhash::HashMap;

/// The curve of a queue's backoff: `base · 2^failures`, never above `max`, without jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first failure. Zero means that failures are retried at once, which is a busy loop for a key that
    /// keeps failing.
    pub base: Duration,
    /// Longest delay, reached after enough failures and kept from then on.
    pub max: Duration,
}

impl Backoff {
    /// The delay after a failure that `failures` others preceded. Total for every count: it saturates at `max`.
    #[must_use]
    pub fn delay(&self, failures: u32) -> Duration {
        let factor = 1_u128.checked_shl(failures).unwrap_or(u128::MAX);
        let nanos = self.base.as_nanos().saturating_mul(factor);
        if nanos >= self.max.as_nanos() {
            return self.max;
        }
        let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
        let fraction = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
        Duration::new(seconds, fraction)
    }
}

/// Failure counts per key. Holds only keys that have failed since they were last forgotten.
#[derive(Debug)]
pub(crate) struct RateLimiter<K> {
    backoff: Backoff,
    failures: HashMap<K, u32>,
}

impl<K: Eq + Hash> RateLimiter<K> {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self { backoff, failures: HashMap::default() }
    }

    /// Counts one more failure of `key` and says how long it has to wait.
    pub(crate) fn fail(&mut self, key: K) -> Duration {
        let count = self.failures.entry(key).or_insert(0);
        let delay = self.backoff.delay(*count);
        *count = count.saturating_add(1);
        delay
    }

    pub(crate) fn forget(&mut self, key: &K) {
        self.failures.remove(key);
        if self.failures.is_empty() {
            // The table a burst of failures grew is given back.
            self.failures = HashMap::default();
        }
    }

    pub(crate) fn failures(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROVISIONER: Backoff = Backoff { base: Duration::from_secs(1), max: Duration::from_mins(5) };

    #[test]
    fn the_delay_doubles_until_the_cap() {
        let table = [(0, 1), (1, 2), (2, 4), (5, 32), (8, 256), (9, 300), (10, 300)];
        for (failures, seconds) in table {
            assert_eq!(PROVISIONER.delay(failures), Duration::from_secs(seconds), "after {failures} failures");
        }
    }

    #[test]
    fn huge_failure_counts_stay_at_the_cap() {
        for failures in [31, 32, 63, 64, 127, 128, 129, u32::MAX] {
            assert_eq!(PROVISIONER.delay(failures), PROVISIONER.max);
        }
        let slow = Backoff { base: Duration::from_nanos(1), max: Duration::MAX };
        assert_eq!(slow.delay(40), Duration::from_nanos(1 << 40));
        assert_eq!(slow.delay(u32::MAX), Duration::MAX);
    }

    #[test]
    fn a_base_above_the_cap_is_the_cap() {
        let backoff = Backoff { base: Duration::from_secs(10), max: Duration::from_secs(3) };
        assert_eq!(backoff.delay(0), backoff.max);
    }

    #[test]
    fn a_base_of_zero_never_waits() {
        let backoff = Backoff { base: Duration::ZERO, max: Duration::from_secs(3) };
        assert_eq!(backoff.delay(u32::MAX), Duration::ZERO);
    }

    #[test]
    fn counts_are_per_key_and_forgotten() {
        let mut limiter = RateLimiter::new(PROVISIONER);
        assert_eq!(limiter.fail("a"), Duration::from_secs(1));
        assert_eq!(limiter.fail("a"), Duration::from_secs(2));
        assert_eq!(limiter.fail("b"), Duration::from_secs(1));
        assert_eq!((limiter.failures(&"a"), limiter.failures(&"b")), (2, 1));
        limiter.forget(&"a");
        assert_eq!(limiter.failures(&"a"), 0);
        assert_eq!(limiter.fail("a"), Duration::from_secs(1));
    }
}
