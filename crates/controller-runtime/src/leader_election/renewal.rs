//! Keeping the lease while the term runs.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::Health;
use super::lock::{LeaseLock, Standing, is_conflict};
use crate::clock::Reading;
use crate::continuity::Interruption;
use crate::gate::Gate;

/// Why a term is over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Loss {
    #[error("no renewal succeeded within the renew deadline")]
    Deadline,
    #[error("the lease names another holder: {0:?}")]
    TakenBy(String),
    #[error("{0}")]
    Interrupted(Interruption),
}

/// Renews the lease that was won by a write sent at `won`, until it is lost.
pub(super) async fn keep(lock: &mut LeaseLock, gate: &Gate, health: &Health, won: Reading) -> Loss {
    let (deadline, period) = (lock.election.renew_deadline, lock.election.retry_period);
    // Two attempts fit between the time a renewal is due and the deadline, the second over a connection of its own.
    let patience = deadline.saturating_sub(period) / 2;
    let mut due = won.monotonic + period;
    loop {
        let renewed = tokio::select! {
            biased;
            () = gate.expired() => return Loss::Deadline,
            renewed = async {
                sleep_until(due).await;
                renew(lock, patience).await
            } => renewed,
        };
        match renewed {
            Ok(sent) if gate.extend(sent) => {
                health.renewed(sent.monotonic);
                due = sent.monotonic + period;
            }
            Ok(_) => return Loss::Deadline,
            Err(Failure::TakenBy(holder)) => return Loss::TakenBy(holder),
            Err(Failure::Request(error)) => {
                tracing::warn!(lease = %lock.election.lease_name, %error, "leader lease not renewed, trying again");
                due = Instant::now() + period / 5;
            }
        }
    }
}

enum Failure {
    TakenBy(String),
    Request(kube::Error),
}

/// One renewal: a PUT of what is known. When it fails, or is silent for `patience`, the lease is read and written anew
/// over a fresh connection; the silent one may still win.
async fn renew(lock: &mut LeaseLock, patience: Duration) -> Result<Reading, Failure> {
    let draft = lock.renewal();
    let mut fast = pin!(draft.send());
    let failed = match timeout(patience, &mut fast).await {
        Ok(Ok(lease)) => return Ok(lock.accept(&draft, lease)),
        Ok(Err(error)) => Some(error),
        Err(_silent) => None,
    };
    lock.election.metrics.count_slow_path("");
    if let Some(error) = failed {
        lock.reject(&draft, &error);
        tracing::debug!(%error, "renewal without reading failed");
        if !is_conflict(&error) {
            lock.reconnect();
        }
        return renew_from_read(lock).await;
    }
    lock.reconnect();
    let lease = {
        let slow = pin!(renew_from_read(lock));
        tokio::select! {
            biased;
            Ok(lease) = &mut fast => lease,
            renewed = slow => return renewed,
        }
    };
    Ok(lock.accept(&draft, lease))
}

/// Reads the lease, and writes it if it is ours or was deleted.
async fn renew_from_read(lock: &mut LeaseLock) -> Result<Reading, Failure> {
    let known = lock.standing();
    lock.observe().await.map_err(Failure::Request)?;
    match (known, lock.standing()) {
        // A write that seemed to fail had landed: that was the renewal.
        (Standing::Ours(known), Standing::Ours(sent)) if sent > known => Ok(sent),
        (_, Standing::Ours(_) | Standing::Deleted) => {
            let draft = lock.renewal();
            lock.send(&draft).await.map_err(Failure::Request)
        }
        (_, Standing::Foreign(holder)) => Err(Failure::TakenBy(holder)),
    }
}
