//! Claims whose request the driver called infeasible: left alone for a fixed time, or until the class is replaced.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use storage_kube::names::ClaimUid;
use storage_kube::uid::Uid;
use tokio::time::Instant;

/// Time between two tries of an infeasible request; not scaled by `--retry-interval-max`, as in the Go provisioner.
pub(crate) const SLOW_RETRY: Duration = Duration::from_mins(5);

struct Refusal {
    class: Uid,
    until: Instant,
}

/// The claims to leave alone.
#[derive(Default)]
pub(crate) struct Infeasible {
    refusals: Mutex<HashMap<ClaimUid, Refusal>>,
}

impl Infeasible {
    /// Notes a refusal; one that still runs is not extended.
    pub(crate) fn add(&self, claim: ClaimUid, class: Uid) {
        let until = Instant::now() + SLOW_RETRY;
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
}
