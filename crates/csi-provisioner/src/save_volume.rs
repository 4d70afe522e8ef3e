//! Writing the PersistentVolume of a volume that the driver has made, with a retry of its own.
//!
//! From here on the claim counts as provisioned: the backend volume is there, and is never deleted because its object
//! could not be written. What cannot be written now is kept in the term's memory and tried again for ever.

use std::sync::Arc;

use controller_runtime::{EventKind, Outcome};
use serde_json::Value;
use storage_kube::names::VolumeName;
use tracing::{error, info};

use crate::claim::claim_reference;
use crate::create_volume::request::Plan;
use crate::persistent_volume::write::{self, SaveError};
use crate::term_context::TermContext;

/// A volume that exists at the driver and not yet in the API.
#[derive(Debug)]
pub(crate) struct UnsavedVolume {
    pub(crate) plan: Arc<Plan>,
    pub(crate) handle: String,
    /// The PersistentVolume to write.
    pub(crate) object: Value,
}

/// Writes the object, or puts it aside for [`sync_unsaved`].
pub(crate) async fn save(term: &TermContext, volume: UnsavedVolume) {
    if let Err(error) = try_save(term, &volume).await {
        report(term, &volume, &error);
        let name = volume.plan.volume_name.clone();
        term.unsaved.lock().insert(name.clone(), Arc::new(volume));
        term.queues.unsaved.add_rate_limited(name);
    }
}

/// Tries again to write a volume that was put aside.
pub(crate) async fn sync_unsaved(term: Arc<TermContext>, name: VolumeName) -> Outcome {
    let Some(volume) = term.unsaved.lock().get(&name).cloned() else { return Outcome::Done };
    match try_save(&term, &volume).await {
        Ok(()) => {
            term.unsaved.lock().remove(&name);
            Outcome::Done
        }
        Err(error) => {
            report(&term, &volume, &error);
            Outcome::Retry
        }
    }
}

async fn try_save(term: &TermContext, volume: &UnsavedVolume) -> Result<(), SaveError> {
    let plan = &volume.plan;
    // Asked before the write: afterwards a claim that is bound already looks like one that is gone.
    let waiting = term.caches.claims.get(&plan.claim.uid).is_some();
    write::create(&term.api, &volume.object, &plan.volume_name, &plan.claim.uid, &volume.handle).await?;
    info!(claim = plan.claim.full_name(), volume = %plan.volume_name, "PersistentVolume saved");
    if waiting {
        let text = format!("Successfully provisioned volume {}", plan.volume_name);
        term.events.record(&claim_reference(&plan.claim), EventKind::Normal, "ProvisioningSucceeded", text);
    }
    Ok(())
}

fn report(term: &TermContext, volume: &UnsavedVolume, error: &SaveError) {
    let plan = &volume.plan;
    error!(claim = plan.claim.full_name(), volume = %plan.volume_name, handle = volume.handle, err = %error, "PersistentVolume is not saved, it is tried again");
    if !error.is_gate_closed() {
        let text = format!("volume {} is created, its PersistentVolume is not saved yet: {error}", plan.volume_name);
        term.events.record(&claim_reference(&plan.claim), EventKind::Warning, "ProvisioningFailed", text);
    }
}

/// One more try for every volume that is not written when the term drains. What is left has no object yet: the next
/// leader's `CreateVolume` for the claim finds it under its name.
pub(crate) async fn last_try(term: &TermContext) {
    let volumes: Vec<_> = term.unsaved.lock().values().cloned().collect();
    for volume in volumes {
        if let Err(error) = try_save(term, &volume).await {
            report(term, &volume, &error);
        }
    }
}
