//! Waiting for the lease.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::lease_record::Decision;
use super::lock::{Attempt, LeaseLock};
use super::watch::{LeaseWatch, Seen};
use crate::clock::Reading;
use crate::jitter::random;

/// Attempts in a row that meet somebody else's write before waiting a retry period.
const CONFLICTS: u32 = 3;

/// Waits until this process holds the lease; returns when the write that won it was sent.
///
/// An unreachable API server or a missing namespace is waited out.
pub(super) async fn acquire(lock: &mut LeaseLock, watch: &mut LeaseWatch) -> Reading {
    let mut log = StandbyLog::default();
    let mut conflicts = 0;
    loop {
        match lock.try_acquire().await {
            Ok(Attempt::Won(sent)) => return sent,
            Ok(Attempt::Held(until)) => {
                conflicts = 0;
                log.held(lock);
                wait(lock, watch, until).await;
            }
            Ok(Attempt::Conflict) if conflicts < CONFLICTS => conflicts += 1,
            Ok(Attempt::Conflict) => {
                conflicts = 0;
                sleep(with_jitter(lock.election.retry_period)).await;
            }
            Err(error) => {
                log.failed(lock, &error);
                watch.close();
                lock.reconnect();
                sleep(with_jitter(lock.election.retry_period)).await;
            }
        }
    }
}

/// Waits until another attempt may have success: the lease changed hands, ran out, or it is time to poll.
async fn wait(lock: &mut LeaseLock, watch: &mut LeaseWatch, mut until: Instant) {
    let retry_period = lock.election.retry_period;
    let poll = Instant::now() + with_jitter(retry_period);
    let version = lock.lease().metadata.resource_version.unwrap_or_default();
    watch.open(lock.api(), &lock.election.lease_name, &version);
    loop {
        let wake = if watch.is_open() { until } else { until.min(poll) };
        let seen = tokio::select! {
            seen = watch.next() => seen,
            () = sleep_until(wake) => {
                // A holder that renews would have moved `until`: either it is dead, or the watch is.
                watch.close();
                return;
            }
        };
        match seen {
            Seen::Lease(lease) => lock.note(Some(*lease)),
            Seen::Deleted => lock.note(None),
            // The API server ends every watch after some minutes; one that ends at once is not asked for again at once.
            Seen::Ended { lived } if lived >= retry_period => return,
            Seen::Ended { .. } => continue,
        };
        match lock.decide() {
            Decision::Wait(expiry) => until = expiry,
            Decision::Create | Decision::TakeOver | Decision::Renew => return,
        }
    }
}

/// `period` and up to 1.2 times more, so that candidates spread (client-go's `JitterFactor`).
fn with_jitter(period: Duration) -> Duration {
    period + period.mul_f64(1.2 * random())
}

/// One line per news, not one per attempt.
#[derive(Default)]
struct StandbyLog {
    holder: Option<String>,
    error: Option<String>,
}

impl StandbyLog {
    fn held(&mut self, lock: &LeaseLock) {
        self.error = None;
        let holder = lock.holder();
        if self.holder.as_deref() != holder {
            self.holder = holder.map(str::to_owned);
            tracing::info!(
                lease = %lock.election.lease_name, namespace = %lock.election.namespace,
                holder = holder.unwrap_or_default(), "standing by for the leader lease"
            );
        }
    }

    fn failed(&mut self, lock: &LeaseLock, error: &kube::Error) {
        let (lease, namespace) = (&lock.election.lease_name, &lock.election.namespace);
        let text = error.to_string();
        if self.error.as_ref() == Some(&text) {
            tracing::debug!(%lease, %namespace, %error, "still no access to the leader lease");
        } else {
            tracing::warn!(%lease, %namespace, %error, "no access to the leader lease, trying again");
            self.error = Some(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_between_one_and_two_point_two_periods() {
        let period = Duration::from_secs(5);
        let drawn: Vec<_> = (0..200).map(|_| with_jitter(period)).collect();
        assert!(drawn.iter().all(|d| (period..=Duration::from_secs(11)).contains(d)), "{drawn:?}");
        assert!(drawn.iter().any(|d| *d > Duration::from_secs(8)), "spread");
    }
}
