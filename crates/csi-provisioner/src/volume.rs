//! One volume: keep our finalizer where it belongs, and reclaim the volume when its claim has let go of it.

pub(crate) mod decision;
pub(crate) mod finalizer_writes;
pub(crate) mod reclaimed;
pub(crate) mod unclaimed;
mod wait;

use std::sync::Arc;

use controller_runtime::{EventKind, Outcome, gate_closed};
use csi_client::CallError;
use k8s_openapi::api::core::v1::ObjectReference;
use storage_kube::finalizers::{self, VOLUME_PROTECTION};
use storage_kube::names::VolumeName;
use storage_kube::wire::VolumeReach;
use tokio::time::Instant;
use tracing::{error, info};

use crate::capacity::refresh;
use crate::delete_volume::delete_volume;
use crate::error::ReclaimError;
use crate::persistent_volume::write;
use crate::records::VolumeRecord;
use crate::term_context::TermContext;
use decision::VolumeDecision;
use reclaimed::Step;

/// Brings one volume as far as it will go now.
pub(crate) async fn sync_volume(term: Arc<TermContext>, name: VolumeName) -> Outcome {
    let Some(volume) = term.caches.volumes.get(&name) else { return Outcome::Done };
    let started = Instant::now();
    let result = if term.reclaimed.step(&volume.uid).is_some() {
        finish_reclaim(&term, &volume, started).await
    } else {
        let decision = decision::decide(&volume);
        if decision != VolumeDecision::Reclaim {
            // A later wait for its attachments begins anew.
            term.attachments.forget(&volume.uid);
        }
        match decision {
            VolumeDecision::Nothing => Ok(()),
            VolumeDecision::Protect => keep_finalizer(&term, &volume, true).await,
            VolumeDecision::Unprotect => keep_finalizer(&term, &volume, false).await,
            VolumeDecision::Reclaim => reclaim(&term, &volume, started).await,
            VolumeDecision::Tell(wait) => {
                wait::tell(&term, &volume, wait);
                Ok(())
            }
        }
    };
    match result {
        Ok(()) => Outcome::Done,
        Err(error @ ReclaimError::Attached { look_again, .. }) => {
            wait_for_detach(&term, &volume, &error);
            look_again.map_or(Outcome::Done, Outcome::RetryAfter)
        }
        Err(error) => failed(&term, &volume, &error),
    }
}

/// Puts our finalizer on or off, once: the cache shows it later.
async fn keep_finalizer(term: &TermContext, volume: &VolumeRecord, on: bool) -> Result<(), ReclaimError> {
    if term.finalizer_writes.is_under_way(&volume.uid, on) {
        return Ok(());
    }
    write_finalizer(term, volume, on).await.map(drop)
}

async fn write_finalizer(
    term: &TermContext,
    volume: &VolumeRecord,
    on: bool,
) -> Result<Option<VolumeReach>, ReclaimError> {
    term.finalizer_writes.begin(volume.uid.clone(), on);
    let edit = if on { finalizers::add_patch } else { finalizers::remove_patch };
    let patch = edit(&volume.uid, VOLUME_PROTECTION);
    let result = write::patch_finalizers(&term.api, &volume.name, &volume.uid, patch).await;
    result.map_err(|source| {
        term.finalizer_writes.forget(&volume.uid);
        ReclaimError::PatchFinalizers { volume: volume.name.to_string(), source: Box::new(source) }
    })
}

/// Deletes the volume at the driver, then its object.
async fn reclaim(term: &TermContext, volume: &VolumeRecord, started: Instant) -> Result<(), ReclaimError> {
    delete_volume(term, volume).await?;
    info!(volume = %volume.name, "volume deleted at the driver");
    term.note_reclaimed(volume, Step::BackendDeleted);
    finish_reclaim(term, volume, started).await
}

/// What is left once the driver has deleted the volume. Every step is remembered, so that the events which our own
/// writes cause do not repeat a step before the cache shows it.
async fn finish_reclaim(term: &TermContext, volume: &VolumeRecord, started: Instant) -> Result<(), ReclaimError> {
    let is_written = |on| term.finalizer_writes.is_under_way(&volume.uid, on);
    if term.reclaimed.step(&volume.uid) == Some(Step::Released) {
        // The write that put our finalizer on has overtaken the one that took it off.
        let held = volume.deleting && volume.protected && !is_written(false);
        return if held { keep_finalizer(term, volume, false).await } else { Ok(()) };
    }
    let mut reach = None;
    if term.reclaimed.step(&volume.uid) == Some(Step::BackendDeleted) {
        if !volume.deleting {
            reach = write::delete(&term.api, &volume.name, &volume.uid).await.map_err(|source| {
                ReclaimError::DeleteObject { volume: volume.name.to_string(), source: Box::new(source) }
            })?;
        }
        term.note_reclaimed(volume, Step::ObjectDeleted);
    }
    if term.reclaimed.step(&volume.uid) == Some(Step::ObjectDeleted) {
        // The cache may not show a finalizer yet that this term has just put on.
        if volume.protected || is_written(true) {
            reach = write_finalizer(term, volume, false).await?.or(reach);
        }
        refresh::volume_reclaimed(term, volume, reach);
        term.metrics.deleted(volume, started.elapsed());
        term.note_reclaimed(volume, Step::Released);
    }
    Ok(())
}

/// Nothing has failed: said now and then, and the last attachment that goes brings the volume back.
fn wait_for_detach(term: &TermContext, volume: &VolumeRecord, why: &ReclaimError) {
    if term.attachments.waits(&volume.uid) {
        info!(volume = %volume.name, "{why}");
        term.events.record(&volume_reference(volume), EventKind::Normal, "VolumeDelete", why.to_string());
    }
}

/// Says why in an event, a metric and a log line; tried again for ever, with growing delay.
fn failed(term: &TermContext, volume: &VolumeRecord, error: &ReclaimError) -> Outcome {
    error!(volume = %volume.name, err = %error, "volume is not reclaimed");
    let (counts, told) = match error {
        ReclaimError::PatchFinalizers { source, .. } => {
            // A volume in use that only lacks its finalizer has no failed deletion to tell of.
            let reclaiming = term.reclaimed.step(&volume.uid).is_some();
            (reclaiming, (reclaiming || volume.deleting) && !gate_closed(source))
        }
        ReclaimError::DeleteObject { source, .. } => (true, !gate_closed(source)),
        ReclaimError::DeleteVolume(call) => (true, !matches!(call, CallError::Denied { .. })),
        ReclaimError::NoDynamicProvisioning { .. }
        | ReclaimError::Untranslatable(_)
        | ReclaimError::Class { .. }
        | ReclaimError::NotCsi
        | ReclaimError::OtherDriver { .. }
        | ReclaimError::Attachments { .. }
        | ReclaimError::Claimed { .. }
        | ReclaimError::Claims { .. }
        | ReclaimError::NodeOfAttachment { .. }
        | ReclaimError::SecretRef(_) => (true, true),
        ReclaimError::Attached { .. } | ReclaimError::AttachmentsNotListed => (false, false),
    };
    if counts {
        term.metrics.delete_failed(volume);
    }
    if told {
        term.events.record(&volume_reference(volume), EventKind::Warning, "VolumeFailedDelete", error.to_string());
    }
    Outcome::Retry
}

/// The volume as events refer to it.
fn volume_reference(volume: &VolumeRecord) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("PersistentVolume".into()),
        name: Some(volume.name.to_string()),
        uid: Some(volume.uid.to_string()),
        ..ObjectReference::default()
    }
}
