//! All writes to claims and volumes: strategic merge patches, as upstream's RBAC and the Go resizer have them.
//!
//! Each names the version it was decided for: a patch that is late, since its process was stopped, must not undo what the
//! next leader has written.

use std::sync::Arc;

use kube::Error;
use kube::api::{Api, Patch, PatchParams};
use kube::core::Status;
use serde_json::{Value, json};
use storage_kube::wire::{ClaimProgress, PersistentVolume};

use crate::claim::Step;
use crate::claim::writes::Writes;
use crate::records::ClaimRecord;
use crate::term_context::TermContext;

/// How often a write that met a newer claim is repeated at once.
pub(crate) const CONFLICTS: u32 = 5;

/// What a patch of a claim has come to.
enum Patched {
    /// The claim is like this now.
    Claim(Arc<ClaimRecord>),
    /// It is gone, or was made anew.
    Gone,
    /// It had changed, to this; nothing is written.
    Changed(Arc<ClaimRecord>, Box<Status>),
}

/// Patches the claim's status, and its metadata through it, unless somebody has begun something else with this step. Returns the
/// claim afterwards, `None` when it is gone or was made anew. After a conflict the claim is known as it is by then.
pub(crate) async fn status(
    term: &TermContext,
    writes: &Writes,
    step: Step,
    claim: &ClaimRecord,
    body: impl Fn(&ClaimRecord) -> Value,
) -> Result<Option<Arc<ClaimRecord>>, Error> {
    let _turn = writes.turn().await;
    let current = newest(term, step, claim);
    match patch_status(term, &current, body(&current)).await? {
        Patched::Claim(claim) => Ok(Some(claim)),
        Patched::Gone => Ok(None),
        Patched::Changed(_, why) => Err(Error::Api(why)),
    }
}

/// Says in the claim's status how a call has failed. After a conflict the patch is made anew for the changed claim, unless
/// somebody has begun something else with this step.
pub(crate) async fn failure(
    term: &TermContext,
    writes: &Writes,
    step: Step,
    claim: &ClaimRecord,
    body: impl Fn(&ClaimRecord) -> Value,
) -> Result<(), Error> {
    let _turn = writes.turn().await;
    let mut current = newest(term, step, claim);
    let mut left = CONFLICTS;
    loop {
        left -= 1;
        match patch_status(term, &current, body(&current)).await? {
            Patched::Claim(_) | Patched::Gone => return Ok(()),
            Patched::Changed(live, _) if left > 0 && step.is_where_it_was(claim, &live) => current = live,
            Patched::Changed(_, why) => return Err(Error::Api(why)),
        }
    }
}

/// The claim that a write of a step is made for: the newest one known. If somebody has begun something else with the step it is
/// `claim`, whose resourceVersion the API server refuses.
fn newest(term: &TermContext, step: Step, claim: &ClaimRecord) -> Arc<ClaimRecord> {
    let newest = term.claim(&claim.uid).filter(|newest| step.is_where_it_was(claim, newest));
    newest.unwrap_or_else(|| Arc::new(claim.clone()))
}

async fn patch_status(term: &TermContext, claim: &ClaimRecord, mut body: Value) -> Result<Patched, Error> {
    body["metadata"]["uid"] = json!(claim.uid.to_string());
    body["metadata"]["resourceVersion"] = json!(claim.resource_version);
    let patch = Patch::<Value>::Strategic(body);
    match api(term, claim).patch_status(claim.name.as_str(), &PatchParams::default(), &patch).await {
        Ok(answer) => Ok(taken_in(term, claim, answer).map_or(Patched::Gone, Patched::Claim)),
        Err(Error::Api(status)) if status.code == 404 => Ok(Patched::Gone),
        Err(Error::Api(status)) if status.code == 409 || status.code == 422 => match live(term, claim).await? {
            None => Ok(Patched::Gone),
            Some(live) if status.code == 409 => Ok(Patched::Changed(live, status)),
            Some(_) => Err(Error::Api(status)),
        },
        Err(error) => Err(error),
    }
}

/// The claim as the API server has it, which is remembered; `None` when it is gone or was made anew.
pub(crate) async fn live(term: &TermContext, claim: &ClaimRecord) -> Result<Option<Arc<ClaimRecord>>, Error> {
    let found = api(term, claim).get_opt(claim.name.as_str()).await?;
    Ok(found.and_then(|found| taken_in(term, claim, found)))
}

fn api(term: &TermContext, claim: &ClaimRecord) -> Api<ClaimProgress> {
    Api::namespaced(term.api.clone(), claim.namespace.as_str())
}

/// Remembers a claim that the API server answered. `None`: a claim with another UID has the name, so this claim is gone.
fn taken_in(term: &TermContext, claim: &ClaimRecord, answer: ClaimProgress) -> Option<Arc<ClaimRecord>> {
    let record = ClaimRecord::of(answer).filter(|record| record.uid == claim.uid)?;
    let record = Arc::new(record);
    if let Some(cached) = term.caches.claims.get(&claim.uid) {
        term.memories.answered(&record, &cached);
    }
    Some(record)
}

/// Whether the object had changed.
pub(crate) fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 409)
}

/// Patches the claim's volume, if nobody else has changed it; without a body it is as it should be.
pub(crate) async fn volume(
    term: &TermContext,
    writes: &Writes,
    body: impl FnOnce(&PersistentVolume) -> Option<Value>,
) -> Result<(), Error> {
    let mut volume = writes.turn().await;
    let Some(mut body) = body(&volume.object) else { return Ok(()) };
    let metadata = &volume.object.metadata;
    for (field, value) in [("uid", &metadata.uid), ("resourceVersion", &metadata.resource_version)] {
        if let Some(value) = value {
            body["metadata"][field] = json!(value);
        }
    }
    let api: Api<PersistentVolume> = Api::all(term.api.clone());
    let name = metadata.name.as_deref().unwrap_or_default();
    volume.object = api.patch(name, &PatchParams::default(), &Patch::<Value>::Strategic(body)).await?;
    Ok(())
}
