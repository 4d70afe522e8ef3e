//! All writes to claims and volumes: strategic merge patches, as upstream's RBAC and the Go resizer have them.

use std::sync::Arc;

use kube::Error;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use storage_kube::wire::{ClaimProgress, PersistentVolume};

use crate::records::ClaimRecord;
use crate::term_context::TermContext;

/// Whether the write is refused when the claim has changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Precondition {
    /// It must be in the version it was decided for.
    Unchanged,
    /// It must be the same claim.
    SameClaim,
}

/// Patches the claim's status, and its metadata through it. Returns the claim afterwards, `None` when it is gone or was made
/// anew. After a conflict the claim is read again, so that the next try starts from what is there.
pub(crate) async fn status(
    term: &TermContext,
    claim: &ClaimRecord,
    precondition: Precondition,
    mut body: Value,
) -> Result<Option<Arc<ClaimRecord>>, Error> {
    body["metadata"]["uid"] = json!(claim.uid.to_string());
    if precondition == Precondition::Unchanged {
        body["metadata"]["resourceVersion"] = json!(claim.resource_version);
    }
    let api: Api<ClaimProgress> = Api::namespaced(term.api.clone(), claim.namespace.as_str());
    let patched =
        api.patch_status(claim.name.as_str(), &PatchParams::default(), &Patch::<Value>::Strategic(body)).await;
    match patched {
        Ok(answer) => Ok(taken_in(term, claim, answer)),
        Err(Error::Api(status)) if status.code == 404 => Ok(None),
        Err(Error::Api(status)) if status.code == 409 => {
            let live = api.get_opt(claim.name.as_str()).await?;
            let still = live.and_then(|live| taken_in(term, claim, live));
            if still.is_some() { Err(Error::Api(status)) } else { Ok(None) }
        }
        Err(error) => Err(error),
    }
}

/// Remembers an answer of the API server. One that is about another claim of the name says that ours is gone.
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

/// Patches a volume. Returns it afterwards.
pub(crate) async fn volume(
    term: &TermContext,
    before: &PersistentVolume,
    mut body: Value,
) -> Result<PersistentVolume, Error> {
    if let Some(uid) = &before.metadata.uid {
        body["metadata"]["uid"] = json!(uid);
    }
    let api: Api<PersistentVolume> = Api::all(term.api.clone());
    let name = before.metadata.name.as_deref().unwrap_or_default();
    api.patch(name, &PatchParams::default(), &Patch::<Value>::Strategic(body)).await
}
