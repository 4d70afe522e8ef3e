//! When this node may take a claim that no node has.
//!
//! The first wait is up to `--node-deployment-base-delay`, each further one twice as long at most, up to
//! `--node-deployment-max-delay`; a random part of the base delay comes off, so that the nodes come one after the other.

use std::collections::HashMap;
use std::time::Duration;

use controller_runtime::Backoff;
use parking_lot::Mutex;
use storage_kube::names::ClaimUid;
use tokio::time::Instant;

use crate::random::fraction;
use crate::settings::NodeFlags;

/// When an attempt may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Its wait is over.
    Now,
    /// After so long.
    In(Duration),
}

/// The attempts on one claim.
#[derive(Default)]
struct Attempts {
    /// So far, the current one included.
    begun: u32,
    /// When the current one may go on; `None`: there is none.
    until: Option<Instant>,
}

/// The claims this process competes for; those that have a node, or are gone, are forgotten.
#[derive(Default)]
pub(crate) struct Competition {
    claims: Mutex<HashMap<ClaimUid, Attempts>>,
}

impl Competition {
    /// Where the current attempt on the claim is; begins one if there is none.
    pub(crate) fn turn(&self, claim: &ClaimUid, node: &NodeFlags) -> Turn {
        self.turn_after(Duration::ZERO, claim, node)
    }

    /// The same, behind the first two attempts of all nodes that can say more about the claim.
    pub(crate) fn last_turn(&self, claim: &ClaimUid, node: &NodeFlags) -> Turn {
        self.turn_after(node.max_delay * 2, claim, node)
    }

    fn turn_after(&self, others: Duration, claim: &ClaimUid, node: &NodeFlags) -> Turn {
        let now = Instant::now();
        let mut claims = self.claims.lock();
        let attempts = claims.entry(claim.clone()).or_default();
        let until = *attempts.until.get_or_insert_with(|| {
            let wait = delay(node, attempts.begun, fraction());
            attempts.begun = attempts.begun.saturating_add(1);
            now + others + wait
        });
        let wait = until.saturating_duration_since(now);
        if wait.is_zero() { Turn::Now } else { Turn::In(wait) }
    }

    /// The attempt was in vain: the next one waits longer.
    pub(crate) fn end_attempt(&self, claim: &ClaimUid) {
        if let Some(attempts) = self.claims.lock().get_mut(claim) {
            attempts.until = None;
        }
    }

    /// The claim has a node or is gone.
    pub(crate) fn forget(&self, claim: &ClaimUid) {
        self.claims.lock().remove(claim);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.claims.lock().len()
    }
}

/// `min(base · 2^failures, max)` less `random` (`0.0..1.0`) of the base; never negative.
pub(crate) fn delay(node: &NodeFlags, failures: u32, random: f64) -> Duration {
    let backoff = Backoff { base: node.base_delay, max: node.max_delay };
    backoff.delay(failures).saturating_sub(node.base_delay.mul_f64(random))
}
