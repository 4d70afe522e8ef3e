//! One process at a time works: a `coordination.k8s.io/v1` Lease decides which.
//!
//! The flow of [`lead`]: stand by (`standby`: read, watch, wait) → the lease is won → `start(term)` runs beside the
//! renewals (`renewal`) → the lease is lost: the term's future is dropped, its tasks are aborted and awaited, and the
//! process stands by again; or the process is to end: the term drains, renewing meanwhile, and then the lease is
//! released. What may be written is decided in `lease_record`, without I/O.
//!
//! The protocol is client-go's, with the Lease name, fields and texts of the Go sidecars, so that a Go and a Rust replica
//! exclude each other. It differs where that is safer: the holder identity is unique per process and a record this process
//! did not write is foreign whatever it says; a Lease deleted under its holder is not free before the holder's time is
//! over; the gate of a term closes a renew deadline after the last renewal was *sent*.
//!
//! Not guaranteed: a driver that was called by the old leader may still be at work when the next one starts. And who
//! deletes the Lease or edits its holder by hand takes the exclusion away until the holder's next renewal, at most for a
//! renew deadline: a process that never saw the Lease creates it and leads.

mod announcement;
mod error;
mod health;
mod lease_name;
mod lease_record;
mod lock;
mod renewal;
mod standby;
mod tenure;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use self::error::{Error, LeadError, check_durations};
pub use self::health::{Health, Unhealthy};
pub use self::lease_name::lease_name;
use self::lock::LeaseLock;
use self::renewal::Loss;
use self::tenure::End;
use self::watch::LeaseWatch;
use crate::clock::Clock;
use crate::continuity::Continuity;
use crate::gate::Gate;
use crate::kube_client::{self, ClientError};
use crate::metrics::ElectionMetrics;
use crate::term::{Term, TermOwner};

/// Where the lease's clients come from. They are no one else's: renewals must not queue behind other requests.
pub trait LeaseClients: Send + Sync {
    /// A client over a connection of its own. `timeout` is the limit of each request.
    ///
    /// # Errors
    /// When the configuration is not usable.
    fn fresh(&self, timeout: Duration) -> Result<kube::Client, ClientError>;
}

impl LeaseClients for kube::Config {
    fn fresh(&self, timeout: Duration) -> Result<kube::Client, ClientError> {
        kube_client::client(self, timeout)
    }
}

/// The same client each time: for an API server that is not reached over a network.
impl LeaseClients for kube::Client {
    fn fresh(&self, _: Duration) -> Result<kube::Client, ClientError> {
        Ok(self.clone())
    }
}

/// How to elect: the settings behind the `--leader-election` flags.
#[derive(Clone)]
pub struct Election {
    /// Usually the [`kube::Config`] of the process.
    pub clients: Arc<dyn LeaseClients>,
    /// Namespace of the Lease, `--leader-election-namespace` resolved.
    pub namespace: String,
    /// Name of the Lease: [`lease_name()`] of the lock name.
    pub lease_name: String,
    /// The name as it was before [`lease_name()`]; it shows in events.
    pub lock_name: String,
    /// Host name, the readable half of the holder identity.
    pub host_name: String,
    /// `--leader-election-lease-duration`: how long others wait for a holder they do not hear from. Rounded up to seconds.
    pub lease_duration: Duration,
    /// `--leader-election-renew-deadline`: how long the holder works on without a renewal.
    pub renew_deadline: Duration,
    /// `--leader-election-retry-period`: how often the holder renews and candidates without a watch look.
    pub retry_period: Duration,
    /// `--leader-election-labels`: merged into the Lease's labels at each write.
    pub labels: BTreeMap<String, String>,
    /// Where leadership is counted.
    pub metrics: ElectionMetrics,
    /// What the age of the lease is counted by: [`MachineClock`](crate::clock::MachineClock).
    pub clock: Arc<dyn Clock>,
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Election")
            .field("namespace", &self.namespace)
            .field("lease_name", &self.lease_name)
            .field("host_name", &self.host_name)
            .finish_non_exhaustive()
    }
}

/// Runs `start` in each leader term this process gets, until `shutdown` or the first failure.
///
/// `start`'s future must end by itself once [`Term::draining`] is cancelled and its work in flight is done; until then the
/// lease is renewed. When the lease is lost, or the API server is set back ([`Continuity`]), it is dropped instead. Without
/// an `election` a term has a gate that is always open, and drains after a long outage; the next one begins at once.
///
/// # Errors
/// Settings that cannot work, a failure of `start`, or a panic of a task spawned through the term. Losing the lease is
/// none of these.
pub async fn lead<F, Fut, E>(
    election: Option<Election>,
    continuity: Continuity,
    shutdown: CancellationToken,
    health: Health,
    mut start: F,
) -> Result<(), LeadError<E>>
where
    F: FnMut(Term) -> Fut,
    Fut: Future<Output = Result<(), E>>,
{
    // Boxed: the election's state is some 16 KiB, which callers need not carry in their own futures.
    match election {
        Some(election) => Box::pin(lead_elected(election, continuity, shutdown, health, start)).await,
        None => lead_alone(&continuity, &shutdown, &mut start).await,
    }
}

async fn lead_alone<F, Fut, E>(
    continuity: &Continuity,
    shutdown: &CancellationToken,
    start: &mut F,
) -> Result<(), LeadError<E>>
where
    F: FnMut(Term) -> Fut,
    Fut: Future<Output = Result<(), E>>,
{
    let mut number = 1;
    loop {
        let owner = TermOwner::new(number, Gate::always_open());
        let leaving = shutdown.child_token();
        let (set_back, outage) = (continuity.next_set_back(), continuity.next_outage());
        let lost = async {
            tokio::select! {
                interruption = set_back => interruption,
                interruption = outage => {
                    // In good order: what the driver has done and nobody has written yet is only known here.
                    tracing::warn!(term = number, "work begins anew: {interruption}");
                    leaving.cancel();
                    std::future::pending().await
                }
            }
        };
        match tenure::run(owner, start, &leaving, lost).await {
            End::Finished(result) if result.is_err() || shutdown.is_cancelled() => return result,
            End::Finished(_) if leaving.is_cancelled() => {}
            End::Finished(result) => return result,
            End::Lost(interruption) => tracing::warn!(term = number, "work begins anew: {interruption}"),
        }
        number += 1;
    }
}

async fn lead_elected<F, Fut, E>(
    election: Election,
    continuity: Continuity,
    shutdown: CancellationToken,
    health: Health,
    mut start: F,
) -> Result<(), LeadError<E>>
where
    F: FnMut(Term) -> Fut,
    Fut: Future<Output = Result<(), E>>,
{
    check_durations(election.lease_duration, election.renew_deadline, election.retry_period)?;
    let metrics = election.metrics.clone();
    let mut lock = LeaseLock::new(election)?;
    let mut watch = LeaseWatch::default();
    metrics.set_leading("", false);

    for number in 1.. {
        let won = tokio::select! {
            biased;
            () = shutdown.cancelled() => None,
            won = standby::acquire(&mut lock, &mut watch) => Some(won),
        };
        let Some(won) = won else { break };
        watch.close();
        health.leads(&lock.election.lease_name, lock.election.lease_duration, won.monotonic);
        metrics.set_leading("", true);
        tracing::info!(lease = %lock.election.lease_name, identity = %lock.identity, term = number, "became leader");

        let gate = Gate::open_for(lock.election.renew_deadline, won, lock.election.clock.clone());
        let owner = TermOwner::new(number, gate.clone());
        owner.term().spawn("leader-election-event", announcement::announce(&lock, "became leader"));
        let set_back = continuity.next_set_back();
        let lost = async {
            tokio::select! {
                loss = renewal::keep(&mut lock, &gate, &health, won) => loss,
                interruption = set_back => Loss::Interrupted(interruption),
            }
        };
        let end = tenure::run(owner, &mut start, &shutdown, lost).await;

        health.stands_by();
        metrics.set_leading("", false);
        let stopped = announcement::announce(&lock, "stopped leading");
        match end {
            End::Lost(loss) => {
                tracing::error!(lease = %lock.election.lease_name, term = number, %loss, "stopped leading");
                stopped.await;
            }
            End::Finished(result) => {
                release(&mut lock).await;
                tracing::info!(lease = %lock.election.lease_name, term = number, "stopped leading");
                stopped.await;
                return result;
            }
        }
    }
    // Nothing runs; but the write that was on its way may have won the lease.
    if lock.in_doubt() {
        release(&mut lock).await;
    }
    Ok(())
}

async fn release(lock: &mut LeaseLock) {
    let budget = lock.election.renew_deadline;
    let lease = lock.election.lease_name.clone();
    match tokio::time::timeout(budget, lock.release()).await {
        Ok(Ok(())) => tracing::debug!(%lease, "leader lease released"),
        Ok(Err(error)) => tracing::warn!(%lease, %error, "leader lease not released, it has to run out"),
        Err(_) => tracing::warn!(%lease, "leader lease not released within {budget:?}, it has to run out"),
    }
}

#[cfg(test)]
mod tests;
