//! Claims that have their volume, until the cache shows them bound or gone: a claim that is updated right after its volume was
//! made would get a second one.
//!
//! Claims and volumes are two caches, and either may be behind. When a volume is gone from its cache, the claim may have been
//! bound and deleted before, without its cache showing that. So the API server is asked for both before such a claim is
//! provisioned again. It is also asked when neither cache shows for a minute that the claim has a volume: the volume may have
//! been there and gone while its watch was interrupted.

use std::collections::HashMap;
use std::time::Duration;

use controller_runtime::Outcome;
use kube::{Api, Error};
use parking_lot::Mutex;
use storage_kube::names::ClaimUid;
use storage_kube::wire::{PersistentVolume, PersistentVolumeClaim};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::records::ClaimRecord;
use crate::term_context::TermContext;

/// How long the cache of claims is given to show why a volume is gone from that of volumes. Then the API server is asked.
const SETTLE: Duration = Duration::from_secs(1);

/// How long the caches are given to show that a claim has its volume. Then the API server is asked.
pub(crate) const TO_BE_SEEN: Duration = Duration::from_mins(1);

/// What is remembered of a claim that the cache shows as waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provisioned {
    /// Nothing.
    No,
    /// It has its volume, whose object is not written yet.
    Yes,
    /// It has, or had, its volume; unless a cache shows which of them, the API server is asked after this time.
    AskIn(Duration),
    /// The API server is to be asked whether the claim still has its volume, or does not wait any more.
    Ask,
}

/// The claims, each with when the API server is to be asked about it; `None`: not at all.
#[derive(Default)]
pub(crate) struct ProvisionedClaims {
    claims: Mutex<HashMap<ClaimUid, Option<Instant>>>,
}

impl ProvisionedClaims {
    pub(crate) fn get(&self, claim: &ClaimUid) -> Provisioned {
        match self.claims.lock().get(claim) {
            None => Provisioned::No,
            Some(None) => Provisioned::Yes,
            Some(Some(ask)) => match ask.saturating_duration_since(Instant::now()) {
                Duration::ZERO => Provisioned::Ask,
                wait => Provisioned::AskIn(wait),
            },
        }
    }

    /// The driver has made the volume of a waiting claim.
    pub(crate) fn volume_made(&self, claim: ClaimUid) {
        self.claims.lock().insert(claim, None);
    }

    /// The volume's object is there, as the API server says.
    pub(crate) fn volume_there(&self, claim: &ClaimUid) {
        if let Some(ask) = self.claims.lock().get_mut(claim) {
            *ask = Some(Instant::now() + TO_BE_SEEN);
        }
    }

    /// The cache does not show the volume of a waiting claim any more, whoever made it.
    pub(crate) fn volume_gone(&self, claim: ClaimUid) {
        self.claims.lock().insert(claim, Some(Instant::now() + SETTLE));
    }

    /// The claims that the API server is to be asked about by now.
    fn overdue(&self) -> Vec<ClaimUid> {
        let now = Instant::now();
        let claims = self.claims.lock();
        claims.iter().filter(|(_, ask)| ask.is_some_and(|ask| ask <= now)).map(|(claim, _)| claim.clone()).collect()
    }

    /// The claim is bound or gone, or it waits and has no volume.
    pub(crate) fn forget(&self, claim: &ClaimUid) {
        self.claims.lock().remove(claim);
    }
}

/// Asks the API server whether the claim waits and has no volume. Only such a claim is provisioned again.
pub(crate) async fn ask(term: &TermContext, claim: &ClaimRecord) -> Outcome {
    match waits_without_volume(term, claim).await {
        Ok(true) => {
            term.provisioned.forget(&claim.uid);
            term.queues.claims.add(claim.uid.clone());
            Outcome::Done
        }
        Ok(false) => {
            debug!(
                claim = claim.full_name(),
                "claim has its volume, or does not wait any more, which the cache does not show"
            );
            term.provisioned.volume_there(&claim.uid);
            Outcome::Done
        }
        Err(error) => {
            let claim = claim.full_name();
            warn!(claim, err = %error, "cannot determine whether the claim still waits for a volume; retrying");
            Outcome::Retry
        }
    }
}

/// Requeues, each minute until the term drains, the claims that the API server is to be asked about by now.
pub(crate) async fn requeue_overdue(term: &TermContext, drain: &CancellationToken) {
    while drain.run_until_cancelled(sleep(TO_BE_SEEN)).await.is_some() {
        for claim in term.provisioned.overdue() {
            term.queues.claims.add_keeping_backoff(claim);
        }
    }
}

async fn waits_without_volume(term: &TermContext, claim: &ClaimRecord) -> Result<bool, Error> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(term.api.clone(), claim.namespace.as_str());
    let live =
        claims.get_opt(claim.name.as_str()).await?.filter(|live| is_uid(live.metadata.uid.as_deref(), &claim.uid));
    if live.is_none_or(|live| live.spec.volume_name.is_some_and(|volume| !volume.is_empty())) {
        return Ok(false);
    }
    let volumes: Api<PersistentVolume> = Api::all(term.api.clone());
    for name in term.volume_names(&claim.uid) {
        let live = volumes.get_opt(&name.to_string()).await?;
        let uid = live.map(|live| live.spec.claim_ref.and_then(|claim| claim.uid));
        if uid.is_some_and(|uid| uid.is_none() || is_uid(uid.as_deref(), &claim.uid)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_uid(uid: Option<&str>, claim: &ClaimUid) -> bool {
    uid.is_some_and(|uid| ClaimUid::from(uid) == *claim)
}
