//! How big the file system was before its volume grew, noted on the volume (gate `AnnotateFsResize`): when the claim is
//! deleted before the node has grown the file system, and the volume is used again, the next claim starts from there.
//!
//! The note is written with the volume's new size. It goes when the claim has what the volume has; a claim that is gone
//! leaves it.

use controller_runtime::Outcome;
use kube::Api;
use serde_json::{Value, json};
use storage_kube::annotations::PRE_RESIZE_CAPACITY;
use storage_kube::names::ClaimUid;
use storage_kube::quantity::Quantity;
use storage_kube::wire::{ClaimProgress, PersistentVolume};
use thiserror::Error;
use tracing::{debug, error};

use crate::claim::writes::Writes;
use crate::records::{ClaimRecord, VolumeNote};
use crate::term_context::TermContext;
use crate::volume::{self, VolumeError};
use crate::write;

/// Why a note that is over is still there.
#[derive(Debug, Error)]
enum SettleError {
    #[error("claim {namespace}/{name} could not be read: {source}")]
    Claim { namespace: String, name: String, source: Box<kube::Error> },
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error("annotation {PRE_RESIZE_CAPACITY} could not be taken off: {0}")]
    Write(Box<kube::Error>),
}

/// Whether the volume has a note.
pub(crate) fn is_noted(volume: &PersistentVolume) -> bool {
    volume.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(PRE_RESIZE_CAPACITY))
}

/// The annotations of a volume that grows, where the node has to follow. The first of several sizes counts.
pub(crate) fn note(claim: &ClaimRecord, volume: &PersistentVolume) -> Option<Value> {
    let before = claim.size.capacity.as_deref().unwrap_or("0");
    (!is_noted(volume)).then(|| json!({ PRE_RESIZE_CAPACITY: before }))
}

/// Takes a note off that is over: the claim has what the volume has.
pub(crate) async fn tidy(term: &TermContext, writes: &Writes, claim: &ClaimRecord) -> Result<(), kube::Error> {
    let without = || json!({ "metadata": { "annotations": { PRE_RESIZE_CAPACITY: null } } });
    write::volume(term, writes, |volume| (is_noted(volume) && has_all(claim, volume)).then(without)).await
}

fn has_all(claim: &ClaimRecord, volume: &PersistentVolume) -> bool {
    let parsed = |text: &Option<String>| text.as_deref().and_then(|text| Quantity::parse(text).ok());
    let (claim, volume) = (parsed(&claim.size.capacity), parsed(&volume.spec.capacity.storage));
    volume.is_some_and(|volume| claim.is_some_and(|claim| claim >= volume))
}

/// Of a claim that has nothing to do any more: its volumes lose their notes.
pub(crate) async fn settle(term: &TermContext, claim: &ClaimUid) -> Outcome {
    let Some(volumes) = &term.caches.noted_volumes else { return Outcome::Done };
    for noted in volumes.in_group(claim).iter().filter_map(|name| volumes.get(name)) {
        match settle_one(term, &noted).await {
            Err(SettleError::Write(source))
                if controller_runtime::gate_closed(&source) || write::is_conflict(&source) =>
            {
                return Outcome::Retry;
            }
            Err(why) => {
                error!(err = %why, "a volume keeps the size its file system had");
                return Outcome::Retry;
            }
            Ok(()) => debug!(claim = %noted.name, "looked at the note of its volume"),
        }
    }
    Outcome::Done
}

async fn settle_one(term: &TermContext, noted: &VolumeNote) -> Result<(), SettleError> {
    let api: Api<ClaimProgress> = Api::namespaced(term.api.clone(), noted.namespace.as_str());
    let live = api.get_opt(noted.name.as_str()).await.map_err(|source| SettleError::Claim {
        namespace: noted.namespace.to_string(),
        name: noted.name.to_string(),
        source: Box::new(source),
    })?;
    let live = live.and_then(ClaimRecord::of).filter(|live| live.uid == noted.uid);
    let Some(claim) = live else { return Ok(()) };
    if let Some(volume) = volume::of_claim(term, &claim).await? {
        let writes = Writes::new(volume);
        tidy(term, &writes, &claim).await.map_err(|source| SettleError::Write(Box::new(source)))?;
    }
    Ok(())
}
