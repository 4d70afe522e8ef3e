//! How long an informer waits between two attempts at the API server.

use std::time::Duration;

/// The informer's own backoff: doubling, with up to half of each delay added at random, so that many informers do not
/// come back at the same moment.
#[derive(Debug)]
pub(super) struct Pause {
    next: Duration,
}

impl Pause {
    const FIRST: Duration = Duration::from_millis(800);
    const MAX: Duration = Duration::from_secs(30);

    pub(super) fn new() -> Self {
        Self { next: Self::FIRST }
    }

    pub(super) fn reset(&mut self) {
        self.next = Self::FIRST;
    }

    /// The next delay, never above [`Pause::MAX`]; `random` is in `0.0..1.0`.
    pub(super) fn next(&mut self, random: f64) -> Duration {
        let base = self.next;
        self.next = (base * 2).min(Self::MAX);
        base.mul_f64(1.0 + random / 2.0).min(Self::MAX)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;
    use crate::jitter::random;

    #[test]
    fn pauses_double_up_to_half_a_minute() {
        let mut pause = Pause::new();
        let millis: Vec<_> = (0..8).map(|_| pause.next(0.0).as_millis()).collect();
        assert_eq!(millis, [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        pause.reset();
        assert_eq!(pause.next(1.0), Duration::from_millis(1200));
        for _ in 0..1000 {
            assert!(pause.next(random()) <= Pause::MAX);
        }
    }
}
