//! Writing the PersistentVolume of a volume that the driver has made, with a retry of its own.
//!
//! From here on the claim counts as provisioned: the backend volume is there, and is never deleted because its object
//! could not be written. What cannot be written now is kept in the term's memory and tried again for ever, unless the backend
//! volume turns out to be another claim's, which has its object: writing it once that claim is gone would give this claim a
//! volume that is gone with it.

use std::sync::Arc;

use controller_runtime::{EventKind, Outcome};
use futures_util::future::join_all;
use serde_json::Value;
use storage_kube::names::VolumeName;
use tokio::time::timeout;
use tracing::{error, info};

use crate::claim::claim_reference;
use crate::claim::provisioned::TO_BE_SEEN;
use crate::create_volume::request::Plan;
use crate::persistent_volume::write::{self, SaveError};
use crate::records::VolumeRecord;
use crate::source_protection;
use crate::source_protection::holds::End;
use crate::term_context::TermContext;

/// A volume that exists at the driver and not yet in the API.
#[derive(Debug)]
pub(crate) struct UnsavedVolume {
    pub(crate) plan: Arc<Plan>,
    /// See [`NewVolume`](crate::persistent_volume::NewVolume).
    pub(crate) handle: String,
    /// The PersistentVolume to write.
    pub(crate) object: Value,
    /// The claim was still waiting when the driver answered. Later, one that is bound looks like one that is gone.
    pub(crate) claim_waits: bool,
}

/// Writes the object, or leaves it to [`sync_unsaved`].
pub(crate) async fn save(term: &TermContext, volume: UnsavedVolume) {
    let volume = Arc::new(volume);
    let name = volume.plan.volume_name.clone();
    if term.caches.volumes.get(&name).is_some_and(|record| is_of_another_claim(&record, &volume)) {
        give_up(term, &volume, &SaveError::VolumeOfAnother { volume: name });
        return;
    }
    // Before the write: the cache may show the object before the answer to its write is here.
    term.unsaved.lock().insert(name.clone(), Arc::clone(&volume));
    if !try_save(term, &volume).await {
        term.queues.unsaved.add_rate_limited(name);
    }
}

/// Tries again to write a volume that could not be written.
pub(crate) async fn sync_unsaved(term: Arc<TermContext>, name: VolumeName) -> Outcome {
    let Some(volume) = term.unsaved.lock().get(&name).cloned() else { return Outcome::Done };
    if try_save(&term, &volume).await { Outcome::Done } else { Outcome::Retry }
}

/// The volume's object is in the cache: whatever is answered to its write, it has landed, and must not be written again
/// after it has gone.
pub(crate) fn seen(term: &TermContext, record: &VolumeRecord) {
    let volume = term.unsaved.lock().get(&record.name).cloned();
    let is_this = |volume: &Arc<UnsavedVolume>| {
        record.claim_uid().as_ref() == Some(&volume.plan.claim.uid)
            && record.source.handle().is_some_and(|handle| handle.as_str() == volume.handle)
    };
    match volume {
        Some(volume) if is_this(&volume) => saved(term, &volume),
        Some(volume) if is_of_another_claim(record, &volume) => {
            give_up(term, &volume, &SaveError::VolumeOfAnother { volume: record.name.clone() });
        }
        Some(_) | None => {}
    }
}

fn is_of_another_claim(record: &VolumeRecord, volume: &UnsavedVolume) -> bool {
    record.claim_uid().is_some_and(|claim| claim != volume.plan.claim.uid)
        && record.source.handle().is_some_and(|handle| handle.as_str() == volume.handle)
}

/// The backend volume is another claim's. The claim is looked at again when the cache has had time to show that.
fn give_up(term: &TermContext, volume: &UnsavedVolume, error: &SaveError) {
    let plan = &volume.plan;
    let mut unsaved = term.unsaved.lock();
    if unsaved.get(&plan.volume_name).is_some_and(|kept| kept.plan.claim.uid == plan.claim.uid) {
        unsaved.remove(&plan.volume_name);
        term.queues.unsaved.forget(&plan.volume_name);
    }
    drop(unsaved);
    term.provisioned.forget(&plan.claim.uid);
    source_protection::try_ended(term, &plan.claim.uid, End::Answered);
    report(term, volume, error);
    term.queues.claims.add_after(plan.claim.uid.clone(), TO_BE_SEEN);
}

/// Writes the object; says whether it is written, by this or, as the cache tells, an earlier try.
async fn try_save(term: &TermContext, volume: &UnsavedVolume) -> bool {
    let plan = &volume.plan;
    let written = write::create(&term.api, &volume.object, &plan.volume_name, &plan.claim.uid, &volume.handle).await;
    match written {
        Ok(()) => saved(term, volume),
        // Of a node, another volume of the same handle may be on another node.
        Err(error @ SaveError::VolumeOfAnother { .. }) if term.settings.node.is_none() => give_up(term, volume, &error),
        Err(error) if term.unsaved.lock().contains_key(&plan.volume_name) => {
            report(term, volume, &error);
            return false;
        }
        Err(_) => {}
    }
    true
}

/// Tells of it, once.
fn saved(term: &TermContext, volume: &UnsavedVolume) {
    let plan = &volume.plan;
    if term.unsaved.lock().remove(&plan.volume_name).is_none() {
        return;
    }
    term.queues.unsaved.forget(&plan.volume_name);
    term.provisioned.volume_there(&plan.claim.uid);
    source_protection::try_ended(term, &plan.claim.uid, End::Made);
    info!(claim = plan.claim.full_name(), volume = %plan.volume_name, "PersistentVolume saved");
    if volume.claim_waits {
        let text = format!("Successfully provisioned volume {}", plan.volume_name);
        term.events.record(&claim_reference(&plan.claim), EventKind::Normal, "ProvisioningSucceeded", text);
    }
}

fn report(term: &TermContext, volume: &UnsavedVolume, error: &SaveError) {
    let plan = &volume.plan;
    error!(claim = plan.claim.full_name(), volume = %plan.volume_name, handle = volume.handle, err = %error, "PersistentVolume is not saved");
    if !error.is_gate_closed() {
        let text = format!("volume {} is created, its PersistentVolume is not saved: {error}", plan.volume_name);
        term.events.record(&claim_reference(&plan.claim), EventKind::Warning, "ProvisioningFailed", text);
    }
}

/// One more try for every volume that is not written when the term drains, all within one `--timeout`. What is left has
/// no object yet: the next leader's `CreateVolume` for the claim finds it under its name.
pub(crate) async fn last_try(term: &TermContext) {
    let volumes: Vec<_> = term.unsaved.lock().values().cloned().collect();
    let tries = join_all(volumes.iter().map(|volume| try_save(term, volume)));
    let answered = timeout(term.settings.timeout, tries).await.is_ok();
    let left: Vec<_> = term.unsaved.lock().values().cloned().collect();
    for volume in left {
        left_behind(term, &volume, answered);
    }
}

/// Nobody tries again to save this volume.
fn left_behind(term: &TermContext, volume: &UnsavedVolume, answered: bool) {
    let (claim, name, handle) = (&volume.plan.claim, &volume.plan.volume_name, &volume.handle);
    let why = if answered { "the API server refuses it" } else { "the API server does not answer" };
    if term.caches.claims.get(&claim.uid).is_some() {
        error!(claim = claim.full_name(), volume = %name, handle, "PersistentVolume is not saved at the end: {why}; the next leader asks the CSI driver for the volume again");
        return;
    }
    error!(claim = claim.full_name(), volume = %name, handle, "the claim is deleted, and its volume is left at the CSI driver without PersistentVolume: {why}; delete the volume there");
    let text = format!(
        "volume {name} with handle {handle} is left at the CSI driver without PersistentVolume, and this claim is deleted: delete the volume there"
    );
    term.events.record(&claim_reference(claim), EventKind::Warning, "ProvisioningFailed", text);
}
