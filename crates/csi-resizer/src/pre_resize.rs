//! Takes the note of how big a file system was off a volume whose claim has caught up with it (gate `AnnotateFsResize`).
//!
//! The node compares the note with the file system it finds, so one that is left behind would spoil the next growth.

use std::sync::Arc;

use controller_runtime::Outcome;
use kube::Api;
use serde_json::json;
use storage_kube::annotations::PRE_RESIZE_CAPACITY;
use storage_kube::names::VolumeName;
use storage_kube::quantity::Quantity;
use storage_kube::wire::{ClaimProgress, PersistentVolume};
use tracing::{info, warn};

use crate::records::ClaimRecord;
use crate::term_context::TermContext;
use crate::volume::{Whose, is_bound_to, whose};
use crate::write;

/// Looks at one volume that carries the note.
pub(crate) async fn sync_annotated(term: Arc<TermContext>, name: VolumeName) -> Outcome {
    match clear(&term, &name).await {
        Ok(()) => Outcome::Done,
        Err(error) => {
            if !controller_runtime::gate_closed(&error) {
                warn!(volume = %name, err = %error, "annotation {PRE_RESIZE_CAPACITY} could not be removed, it is tried again");
            }
            Outcome::Retry
        }
    }
}

async fn clear(term: &TermContext, name: &VolumeName) -> Result<(), kube::Error> {
    let volumes: Api<PersistentVolume> = Api::all(term.api.clone());
    let Some(volume) = volumes.get_opt(&name.to_string()).await? else { return Ok(()) };
    let Some(reference) = volume.spec.claim_ref.clone() else { return Ok(()) };
    let claims: Api<ClaimProgress> = Api::namespaced(term.api.clone(), &reference.namespace);
    let claim = claims.get_opt(&reference.name).await?.and_then(ClaimRecord::of);
    let Some(claim) = claim.filter(|claim| is_bound_to(&volume, claim)) else { return Ok(()) };
    let is_ours = matches!(whose(&term.settings, &claim, &volume), Whose::Driver | Whose::Migrated);
    if is_ours && has_caught_up(&claim, &volume) {
        let body = json!({ "metadata": { "annotations": { PRE_RESIZE_CAPACITY: null } } });
        write::volume(term, &volume, body).await?;
        info!(volume = %name, "the file system has the size of the volume");
    }
    Ok(())
}

fn has_caught_up(claim: &ClaimRecord, volume: &PersistentVolume) -> bool {
    let annotated = volume.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(PRE_RESIZE_CAPACITY));
    let size = |text: Option<&str>| text.and_then(|text| Quantity::parse(text).ok());
    let (claim, volume) = (size(claim.size.capacity.as_deref()), size(volume.spec.capacity.storage.as_deref()));
    annotated && claim.zip(volume).is_some_and(|(claim, volume)| claim >= volume)
}
