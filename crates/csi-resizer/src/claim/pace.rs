//! When each step of a claim may be tried: a failing class must not hold up a size, nor one speed up the other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use controller_runtime::{Backoff, Outcome};
use parking_lot::Mutex;
use storage_kube::names::ClaimUid;
use tokio::time::Instant;

use super::Step;
use crate::error::Disposition;

/// Holds only claims with a step that waits.
pub(crate) struct Pace {
    backoff: Backoff,
    claims: Mutex<HashMap<ClaimUid, [Attempts; 2]>>,
    /// How often all waits were ended.
    ended: AtomicU64,
}

/// The waits that were ended before a try began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begun(u64);

/// Of one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Attempts {
    /// In a row.
    failures: u32,
    /// Not before; `None`: at once.
    due: Option<Instant>,
}

impl Pace {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self { backoff, claims: Mutex::default(), ended: AtomicU64::default() }
    }

    /// Whether the step may be tried.
    pub(crate) fn is_due(&self, claim: &ClaimUid, step: Step) -> bool {
        let claims = self.claims.lock();
        let due = claims.get(claim).and_then(|steps| steps[step as usize].due);
        due.is_none_or(|due| due <= Instant::now())
    }

    /// A try begins.
    pub(crate) fn begin(&self) -> Begun {
        Begun(self.ended.load(Ordering::Acquire))
    }

    /// How a try has ended. One that began before all waits were ended waits for nothing.
    pub(crate) fn note(&self, claim: &ClaimUid, step: Step, begun: Begun, disposition: Disposition) {
        self.change(claim, |steps| {
            let attempts = &mut steps[step as usize];
            let delay = match disposition {
                Disposition::Done | Disposition::Anew => {
                    *attempts = Attempts::default();
                    return;
                }
                Disposition::BackOff => self.backoff.delay(attempts.failures),
                Disposition::Rarely => self.backoff.max,
            };
            attempts.failures = attempts.failures.saturating_add(1);
            attempts.due = Some(if begun == self.begin() { later(delay) } else { Instant::now() });
        });
    }

    /// The step is asked for anew: what was before does not count.
    pub(crate) fn reset(&self, claim: &ClaimUid, step: Step) {
        self.change(claim, |steps| steps[step as usize] = Attempts::default());
    }

    /// All steps may be tried at once; their failures go on counting.
    pub(crate) fn end_waits(&self) {
        self.ended.fetch_add(1, Ordering::AcqRel);
        for attempts in self.claims.lock().values_mut().flatten() {
            attempts.due = None;
        }
    }

    /// The claim is gone.
    pub(crate) fn forget(&self, claim: &ClaimUid) {
        self.change(claim, |steps| *steps = Default::default());
    }

    /// When the claim is to be looked at again.
    pub(crate) fn outcome(&self, claim: &ClaimUid) -> Outcome {
        let claims = self.claims.lock();
        let due = claims.get(claim).and_then(|steps| steps.iter().filter_map(|step| step.due).min());
        due.map_or(Outcome::Done, |due| Outcome::RetryAfter(due.saturating_duration_since(Instant::now())))
    }

    fn change(&self, claim: &ClaimUid, change: impl FnOnce(&mut [Attempts; 2])) {
        let mut claims = self.claims.lock();
        let steps = claims.entry(claim.clone()).or_default();
        change(steps);
        if *steps == <[Attempts; 2]>::default() {
            claims.remove(claim);
            if claims.is_empty() {
                *claims = HashMap::new();
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.claims.lock().len()
    }
}

/// A delay beyond what the clock can express is as good as one of a century.
fn later(delay: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(delay).unwrap_or_else(|| now + Duration::from_hours(24 * 36_525))
}
