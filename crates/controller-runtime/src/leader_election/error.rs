//! Why leading ended or never began.

use std::time::Duration;

use crate::kube_client::ClientError;
use crate::tasks::TaskFailure;

/// Settings of an [`Election`](super::Election) that cannot work. The Go sidecars end with exit code 2 on the duration
/// variants.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The lease would run out while its holder may still renew it.
    #[error(
        "leader election: lease duration {lease_duration:?} must be longer than renew deadline {renew_deadline:?}; \
         raise --leader-election-lease-duration or lower --leader-election-renew-deadline"
    )]
    LeaseDuration {
        /// `--leader-election-lease-duration`.
        lease_duration: Duration,
        /// `--leader-election-renew-deadline`.
        renew_deadline: Duration,
    },
    /// No second attempt would fit into the renew deadline.
    #[error(
        "leader election: renew deadline {renew_deadline:?} must be longer than 1.2 times retry period {retry_period:?}; \
         raise --leader-election-renew-deadline or lower --leader-election-retry-period"
    )]
    RenewDeadline {
        /// `--leader-election-renew-deadline`.
        renew_deadline: Duration,
        /// `--leader-election-retry-period`.
        retry_period: Duration,
    },
    /// A duration of zero.
    #[error("leader election: {flag} must be greater than zero")]
    Zero {
        /// The flag with the value.
        flag: &'static str,
    },
    /// No client for the lease could be made.
    #[error("leader election: {0}")]
    Client(#[from] ClientError),
}

/// How [`lead`](super::lead) can fail.
#[derive(Debug, thiserror::Error)]
pub enum LeadError<E> {
    /// The election itself cannot be run.
    #[error(transparent)]
    Election(#[from] Error),
    /// What ran during the term failed. The lease was released.
    #[error("{0}")]
    Start(E),
    /// A task of the term panicked. The lease was released; the process should end.
    #[error(transparent)]
    Task(TaskFailure),
}

/// Checks the three durations of an election as client-go does.
///
/// # Errors
/// The first rule that is broken.
pub fn check_durations(
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
) -> Result<(), Error> {
    if lease_duration <= renew_deadline {
        return Err(Error::LeaseDuration { lease_duration, renew_deadline });
    }
    if renew_deadline.as_nanos() * 5 <= retry_period.as_nanos() * 6 {
        return Err(Error::RenewDeadline { renew_deadline, retry_period });
    }
    // The rules above leave only this one to be zero.
    if retry_period.is_zero() {
        return Err(Error::Zero { flag: "--leader-election-retry-period" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn durations_that_could_make_two_leaders_are_refused() {
        let ms = Duration::from_millis;
        // (lease duration, renew deadline, retry period, what the message starts with)
        let table = [
            (15_000, 10_000, 5_000, None),
            (10_001, 10_000, 8_333, None),
            (10_000, 10_000, 5_000, Some("leader election: lease duration 10s must")),
            (9_000, 10_000, 5_000, Some("leader election: lease duration 9s must")),
            (15_000, 6_000, 5_000, Some("leader election: renew deadline 6s must")),
            (15_000, 6_001, 5_000, None),
            (15_000, 10_000, 20_000, Some("leader election: renew deadline 10s must")),
            (15_000, 10_000, 0, Some("leader election: --leader-election-retry-period must")),
            (15_000, 0, 0, Some("leader election: renew deadline 0ns must")),
            (0, 0, 0, Some("leader election: lease duration 0ns must")),
        ];
        for (lease, renew, retry, expected) in table {
            let result = check_durations(ms(lease), ms(renew), ms(retry));
            match (result, expected) {
                (Ok(()), None) => {}
                (Err(error), Some(start)) => {
                    assert!(error.to_string().starts_with(start), "{lease}/{renew}/{retry}: {error}");
                }
                (result, _) => panic!("{lease}/{renew}/{retry}: {result:?}"),
            }
        }
    }
}
