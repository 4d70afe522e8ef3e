//! Claims and snapshots from which volumes are being filled carry our finalizer, and lose it when the last of these
//! volumes is made, refused for good, or given up.
//!
//! A claim that the driver has refused a volume is tried again, and holds its source until then, but not for ever: see
//! [`holds::AWAITING`].
//!
//! The finalizer goes on before the first `CreateVolume` ([`protect`]). Who holds a source is kept by source
//! (`source_protection/holds.rs`), so that the end of each hold finds the source without a look at other claims, and puts it
//! into the queue; [`sync_source`] takes the finalizer off. What an earlier term or process has left behind is found when a
//! term begins: claims in the cache, snapshots by the first sweep (`source_protection/snapshot_sweep.rs`).

pub(crate) mod finalizer;
pub(crate) mod holds;
pub(crate) mod snapshot_sweep;

use std::sync::Arc;
use std::time::Duration;

use controller_runtime::{Change, EventKind, Outcome, gate_closed};
use kube::{Api, Error};
use serde_json::Value;
use storage_kube::annotations;
use storage_kube::names::{ClaimUid, VolumeName};
use storage_kube::uid::Uid;
use storage_kube::wire::{BindingMode, VolumeSnapshot, VolumeSnapshotContent};
use thiserror::Error as ThisError;
use tracing::{debug, error, info, warn};

use crate::claim::claim_reference;
use crate::content_source::Found;
use crate::data_source::{self, SourceKey};
use crate::records::volume::VolumeSource;
use crate::records::{ClaimProjection, ClaimRecord, SourceClaim};
use crate::term_context::TermContext;
use holds::End;

/// Why a source could not be protected.
#[derive(Debug, ThisError)]
pub(crate) enum ProtectError {
    #[error("{key} is gone: name another source")]
    Gone { key: SourceKey },
    #[error("{key} was made anew while it was looked at; it is looked at again")]
    MadeAnew { key: SourceKey },
    #[error("{key} is being deleted: name another source")]
    Deleting { key: SourceKey },
    #[error("{key} could not be given finalizer {finalizer}: {source}; csi-provisioner needs get and update on it")]
    Write { key: SourceKey, finalizer: &'static str, source: Box<Error> },
}

/// Why a source still carries our finalizer although nothing holds it.
#[derive(Debug, ThisError)]
pub(crate) enum ReleaseError {
    #[error("{key} still has finalizer {finalizer}: {source}")]
    Write { key: SourceKey, finalizer: &'static str, source: Box<Error> },
    #[error("whose {key} is could not be found out: {source}")]
    Owner { key: SourceKey, source: Box<Error> },
}

/// Puts our finalizer on the source of a claim that is about to be provisioned. The claim holds the source since before it
/// was read ([`Holds::begin`](holds::Holds::begin)).
pub(crate) async fn protect(term: &TermContext, key: &SourceKey, found: &Found) -> Result<(), ProtectError> {
    let uid = &found.uid;
    // One at a time: a release may be under way, and a hundred clones of one claim need one finalizer.
    let turn = term.holds.turn(key);
    let _turn = turn.lock().await;
    // Both: others may have taken it off since this term put it on.
    if found.protected && term.holds.is_protected(key, uid) {
        return Ok(());
    }
    let finalizer = finalizer::of(key);
    match finalizer::add(&term.api, key, uid).await {
        // It goes on before a first call: where it was missing, no earlier term has one at work.
        Ok(true) => term.holds.nothing_inherited(key),
        Ok(false) => {}
        Err(ProtectError::Write { source, .. }) if is_forbidden(&source) && matches!(key, SourceKey::Snapshot(..)) => {
            // Upstream's rules call this right optional.
            if term.holds.tell_once() {
                warn!(source = %key, finalizer, err = %source, "snapshots are restored without protection: allow update on volumesnapshots");
            }
            return Ok(());
        }
        Err(error) => return Err(error),
    }
    term.holds.protected(key, uid);
    Ok(())
}

fn is_forbidden(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 403)
}

/// A try to provision a claim has ended so: sources that nothing holds any more are looked at.
pub(crate) fn try_ended(term: &TermContext, claim: &ClaimUid, end: End) {
    look_at(term, term.holds.end(claim, end));
    look_later(term, claim);
}

/// A hold that only waits for the next try has its time.
fn look_later(term: &TermContext, claim: &ClaimUid) {
    if let Some((source, held_for)) = term.holds.awaited(claim) {
        term.queues.sources.add_after(source, held_for);
    }
}

fn look_at(term: &TermContext, source: Option<SourceKey>) {
    if let Some(source) = source {
        term.queues.sources.forget(&source);
        term.queues.sources.add(source);
    }
}

/// A claim has changed, as one that waits for its volume or as the source of others.
pub(crate) fn claim_changed(term: &TermContext, change: &Change<'_, ClaimProjection>) {
    let (old, new) = (change.old.map(Arc::as_ref), change.new.map(Arc::as_ref));
    match (old.and_then(|entry| entry.waiting()), new.and_then(|entry| entry.waiting())) {
        (None, Some(claim)) => {
            appeared(term, claim);
            whose_node(term, claim);
        }
        (Some(_), None) => look_at(term, term.holds.claim_gone(change.key)),
        (Some(_), Some(claim)) => whose_node(term, claim),
        (None, None) => {}
    }
    if let Some(source) = new.and_then(|entry| entry.source()) {
        source_changed(term, source);
    }
}

/// A claim of an earlier term, or process, may have a call of it in flight: it holds its source until this term knows. One that
/// was given back to the scheduler has its final answer, and is tried again: kube-controller-manager names the provisioner of
/// such a claim only after a node was selected (`PersistentVolumeController.syncUnboundClaim`).
fn appeared(term: &TermContext, claim: &ClaimRecord) {
    let Some(source) = data_source::key(claim) else { return };
    term.holds.waits(&claim.uid, &source);
    if term.holds.all_known() {
        return;
    }
    let class = term.caches.classes.get(&claim.class);
    let given_back = claim.selected_node.is_none()
        && class.is_some_and(|class| class.binding_mode == Some(BindingMode::WaitForFirstConsumer));
    if given_back {
        term.holds.answered_before(&claim.uid, &source);
        look_later(term, &claim.uid);
    } else {
        term.holds.inherit(&claim.uid, &source);
    }
}

/// With `--node-deployment` all nodes' processes see each source, and only one of them is at work on a claim. The node is
/// selected before the finalizer is put on, and both are writes to claims: they are seen in this order.
fn whose_node(term: &TermContext, claim: &ClaimRecord) {
    let Some(node) = &term.settings.node else { return };
    if claim.selected_node.as_ref().is_none_or(|selected| *selected == node.name) {
        look_at(term, term.holds.not_elsewhere(&claim.uid));
    } else if let Some(source) = data_source::key(claim) {
        term.holds.elsewhere(&claim.uid, &source);
    }
}

fn source_changed(term: &TermContext, source: &SourceClaim) {
    // Before it is deleted a source is the business of the node that has protected it, not of all of them.
    if term.settings.node.is_some() && !source.deleting {
        return;
    }
    if !is_own(term, source.volume.as_ref(), source.annotated) {
        return;
    }
    let key = SourceKey::Claim(source.namespace.clone(), source.name.clone());
    match term.holds.holder(&key) {
        None => term.queues.sources.add_keeping_backoff(key),
        Some(_) => is_seen(term, &key, source.deleting),
    }
}

/// The source of claims was looked at. Says once for whom one that is to be deleted is kept.
pub(crate) fn is_seen(term: &TermContext, key: &SourceKey, deleting: bool) {
    if !term.holds.is_deleted(key, deleting) {
        return;
    }
    if let Some(held_for) = term.holds.next_expiry(key) {
        term.queues.sources.add_after(key.clone(), held_for);
    }
    for holder in term.holds.holders(key) {
        let Some(claim) = term.caches.claims.get(&holder) else {
            info!(source = %key, claim = %holder, "source is being deleted, and kept until the call for this deleted claim has ended");
            continue;
        };
        if term.settings.node.as_ref().is_some_and(|node| claim.selected_node.as_ref() != Some(&node.name)) {
            continue;
        }
        info!(source = %key, claim = claim.full_name(), "source is being deleted, and kept until the volume of this claim is made or the claim is deleted");
        let text = format!(
            "{key} is being deleted, and kept until the volume of this claim is made; for an hour at most if the CSI driver refuses it"
        );
        term.events.record(&claim_reference(&claim), EventKind::Normal, "SourceKept", text);
    }
}

/// The time of a hold is over: once the source is gone, the claim can never be filled.
fn told_not_held(term: &TermContext, key: &SourceKey, claim: &ClaimUid) {
    let Some(claim) = term.caches.claims.get(claim) else { return };
    warn!(source = %key, claim = claim.full_name(), "source is not kept for this claim any more: the CSI driver has given it no volume for an hour");
    let text = format!(
        "{key} is not kept for this claim any more, as the CSI driver has given it no volume for an hour: once {key} is deleted, \
         name another source in a new claim"
    );
    term.events.record(&claim_reference(&claim), EventKind::Warning, "ProvisioningFailed", text);
}

/// Our finalizer's name is every CSI provisioner's: a source is ours if its volume is.
fn is_own(term: &TermContext, volume: Option<&VolumeName>, annotated: bool) -> bool {
    let volume = volume.and_then(|name| term.caches.volumes.get(name));
    volume.map_or(annotated, |volume| !matches!(volume.source, VolumeSource::OtherDriver(_)))
}

/// Takes our finalizer off one source, unless it is held.
pub(crate) async fn sync_source(term: Arc<TermContext>, key: SourceKey) -> Outcome {
    let released = release(&term, &key).await;
    term.holds.tidy(&key);
    match released {
        Ok(None) => Outcome::Done,
        Ok(Some(held_for)) => Outcome::RetryAfter(held_for),
        Err(why) => {
            let (ReleaseError::Write { source, .. } | ReleaseError::Owner { source, .. }) = &why;
            if gate_closed(source) {
                debug!(err = %why, "not done");
            } else {
                error!(err = %why, "source is not released, it is tried again");
            }
            Outcome::Retry
        }
    }
}

/// Whoever begins to hold the source meanwhile waits for its turn in [`protect`], and puts the finalizer on again. Returns how
/// long the source is held, if that is known.
async fn release(term: &TermContext, key: &SourceKey) -> Result<Option<Duration>, ReleaseError> {
    let turn = term.holds.turn(key);
    let _turn = turn.lock().await;
    for claim in term.holds.expire(key) {
        told_not_held(term, key, &claim);
    }
    if let Some(holder) = term.holds.holder(key) {
        debug!(source = %key, claim = %holder, "source is held");
        return Ok(term.holds.next_expiry(key));
    }
    let finalizer = finalizer::of(key);
    let failed = |source| ReleaseError::Write { key: key.clone(), finalizer, source: Box::new(source) };
    let is_known = |object: &Value| {
        object["metadata"]["uid"].as_str().is_some_and(|uid| term.holds.is_protected(key, &Uid::from(uid)))
    };
    if let Some(object) = finalizer::protected(&term.api, key).await.map_err(failed)?
        && (is_known(&object) || owns(term, key, &object).await?)
    {
        finalizer::remove(&term.api, key, object).await.map_err(failed)?;
        info!(source = %key, finalizer, "finalizer removed, nothing is made from this source any more");
    }
    term.holds.released(key);
    Ok(None)
}

/// Whether the source is one of this driver.
async fn owns(term: &TermContext, key: &SourceKey, object: &Value) -> Result<bool, ReleaseError> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    if matches!(key, SourceKey::Claim(..)) {
        let annotation =
            |key: &str| object.pointer("/metadata/annotations").and_then(|all| all.get(key)).and_then(Value::as_str);
        let by =
            annotation(annotations::STORAGE_PROVISIONER).or_else(|| annotation(annotations::BETA_STORAGE_PROVISIONER));
        let annotated = by.is_some_and(|by| term.settings.names.contains(by));
        return Ok(is_own(term, text("/spec/volumeName").map(VolumeName::from).as_ref(), annotated));
    }
    let content =
        text("/status/boundVolumeSnapshotContentName").or_else(|| text("/spec/source/volumeSnapshotContentName"));
    // Without a content there is nothing at any driver that the finalizer could protect.
    let Some(content) = content else { return Ok(true) };
    let contents: Api<VolumeSnapshotContent> = Api::all(term.api.clone());
    let found = contents.get_opt(content).await;
    let found = found.map_err(|source| ReleaseError::Owner { key: key.clone(), source: Box::new(source) })?;
    Ok(found.is_none_or(|content| term.settings.names.is_driver(&content.spec.driver)))
}

/// A snapshot that carries our finalizer, seen by the sweep.
async fn sweep_one(term: &TermContext, key: &SourceKey, snapshot: &VolumeSnapshot) {
    match term.holds.holder(key) {
        Some(_) => is_seen(term, key, snapshot.metadata.deletion_timestamp.is_some()),
        None => {
            if let Err(why) = release(term, key).await {
                warn!(err = %why, "snapshot is not released, the next sweep tries again");
            }
        }
    }
}
