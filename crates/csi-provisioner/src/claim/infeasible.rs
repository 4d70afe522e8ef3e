//! Claims whose request the driver called infeasible: left alone for a fixed time, or until the class is replaced, another node
//! is selected, or the driver has a new connection, as after an update of the driver.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use storage_kube::names::ClaimUid;
use storage_kube::uid::Uid;
use tokio::time::Instant;

/// Time between two tries of an infeasible request, unless `--retry-interval-max` is less.
pub(crate) const SLOW_RETRY: Duration = Duration::from_mins(5);

struct Refusal {
    class: Uid,
    until: Instant,
}

/// The claims to leave alone.
pub(crate) struct Infeasible {
    wait: Duration,
    refusals: Mutex<HashMap<ClaimUid, Refusal>>,
}

impl Infeasible {
    /// `longest` is `--retry-interval-max`.
    pub(crate) fn new(longest: Duration) -> Self {
        Self { wait: SLOW_RETRY.min(longest), refusals: Mutex::default() }
    }

    /// Time between two tries.
    pub(crate) fn wait(&self) -> Duration {
        self.wait
    }

    /// Notes a refusal; one that still runs is not extended.
    pub(crate) fn add(&self, claim: ClaimUid, class: Uid) {
        let until = Instant::now() + self.wait;
        self.refusals.lock().entry(claim).or_insert(Refusal { class, until });
    }

    /// How long the claim must still wait. A class of another UID, or a time that has run out, ends the wait.
    pub(crate) fn remaining(&self, claim: &ClaimUid, class: Option<&Uid>) -> Option<Duration> {
        let mut refusals = self.refusals.lock();
        let refusal = refusals.get(claim)?;
        let remaining = refusal.until.saturating_duration_since(Instant::now());
        if remaining.is_zero() || class.is_some_and(|class| *class != refusal.class) {
            refusals.remove(claim);
            return None;
        }
        Some(remaining)
    }

    pub(crate) fn forget(&self, claim: &ClaimUid) {
        self.refusals.lock().remove(claim);
    }

    /// Ends all waits; the queue's own delays are not touched.
    pub(crate) fn forget_all(&self) {
        *self.refusals.lock() = HashMap::new();
    }
}
