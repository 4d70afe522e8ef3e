//! What `/healthz/leader-election` answers.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long after its lease ran out a leader that has not stepped down is still called healthy.
const TOLERANCE: Duration = Duration::from_secs(20);

/// The state of leadership as a liveness probe sees it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Health {
    leading: Arc<Mutex<Option<Leading>>>,
}

#[derive(Debug)]
struct Leading {
    lease: String,
    renewed: Instant,
    lease_duration: Duration,
}

/// A leader that neither renews its lease nor manages to step down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed election to renew leadership on lease {lease}: the last renewal was {age:?} ago and the term has not ended"
)]
pub struct Unhealthy {
    lease: String,
    age: Duration,
}

impl Health {
    /// A process that does not lead.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ok for everyone but a leader whose last renewal is older than the lease duration and 20 s.
    ///
    /// # Errors
    /// [`Unhealthy`], whose text belongs into the answer.
    pub fn check(&self) -> Result<(), Unhealthy> {
        let leading = self.leading.lock();
        let Some(leading) = &*leading else { return Ok(()) };
        let age = leading.renewed.elapsed();
        if age > leading.lease_duration + TOLERANCE {
            return Err(Unhealthy { lease: leading.lease.clone(), age });
        }
        Ok(())
    }

    pub(super) fn leads(&self, lease: &str, lease_duration: Duration, renewed: Instant) {
        *self.leading.lock() = Some(Leading { lease: lease.to_owned(), renewed, lease_duration });
    }

    pub(super) fn renewed(&self, at: Instant) {
        if let Some(leading) = &mut *self.leading.lock() {
            leading.renewed = at;
        }
    }

    pub(super) fn stands_by(&self) {
        *self.leading.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_leader_that_is_long_past_its_lease_is_unhealthy() {
        let health = Health::new();
        assert!(health.check().is_ok(), "stands by");
        health.leads("hostpath-csi-k8s-io", Duration::from_secs(15), Instant::now());
        tokio::time::advance(Duration::from_secs(35)).await;
        assert!(health.check().is_ok(), "at the limit");
        tokio::time::advance(Duration::from_millis(1)).await;
        let error = health.check().unwrap_err().to_string();
        assert!(error.starts_with("failed election to renew leadership on lease hostpath-csi-k8s-io"), "{error}");
        health.renewed(Instant::now());
        assert!(health.check().is_ok(), "renewed");
        tokio::time::advance(Duration::from_mins(1)).await;
        health.stands_by();
        assert!(health.check().is_ok(), "stepped down");
    }
}
