//! One volume: our finalizer goes on before it is attached, and off when it is deleted and nothing is attached.

pub(crate) mod decision;
pub(crate) mod finalizer_patch;
pub(crate) mod own_patches;

use std::sync::Arc;

use controller_runtime::{Outcome, gate_closed};
use http::header::CONTENT_TYPE;
use kube::{Api, Error};
use storage_kube::names::VolumeName;
use storage_kube::wire::PersistentVolume;
use tracing::{debug, error, info};

use crate::error::{AttachmentError, ReleaseVolumeError, SourceError};
use crate::records::VolumeRecord;
use crate::term_context::TermContext;
use decision::VolumeDecision;
use finalizer_patch::Operation;

/// Tries to edit the finalizers of a volume that others change at the same time.
const TRIES: usize = 5;

/// Brings one volume as far as it will go now.
pub(crate) async fn sync_volume(term: Arc<TermContext>, name: VolumeName) -> Outcome {
    let Some(volume) = term.volume(&name) else { return Outcome::Done };
    match decide(&term, &name, &volume) {
        VolumeDecision::Nothing => Outcome::Done,
        VolumeDecision::Release(index) => match release(&term, &name, index).await {
            Ok(()) => Outcome::Done,
            Err(why) if gate_closed(&why.source) => {
                debug!(err = %why, "not done");
                Outcome::Retry
            }
            Err(why) => {
                error!(err = %why, "volume keeps our finalizer");
                Outcome::Retry
            }
        },
    }
}

fn decide(term: &TermContext, name: &VolumeName, volume: &VolumeRecord) -> VolumeDecision {
    let attached = !term.caches.attachments.in_group(name).is_empty();
    decision::decide(&term.settings, volume, attached)
}

async fn release(term: &TermContext, name: &VolumeName, mut index: usize) -> Result<(), ReleaseVolumeError> {
    let failed = |source| ReleaseVolumeError { volume: name.clone(), source: Box::new(source) };
    for left in (0..TRIES).rev() {
        match send(term, name, finalizer_patch::remove(index, &term.settings.finalizer)).await {
            // The test failed: ours is not at this place any more.
            Err(Error::Api(status)) if status.code == 422 && left > 0 => {
                let now = live(term, name).await.map_err(failed)?;
                match now.map_or(VolumeDecision::Nothing, |now| decide(term, name, &now)) {
                    VolumeDecision::Nothing => return Ok(()),
                    VolumeDecision::Release(place) if place == index => return Err(failed(Error::Api(status))),
                    VolumeDecision::Release(place) => index = place,
                }
            }
            outcome => {
                outcome.map_err(failed)?;
                info!(volume = %name, "finalizer removed, the volume is not attached anywhere");
                break;
            }
        }
    }
    Ok(())
}

/// Puts our finalizer on a volume that is about to be attached, and returns the volume as it then is.
pub(crate) async fn protect(
    term: &TermContext,
    name: &VolumeName,
    volume: Arc<VolumeRecord>,
) -> Result<Arc<VolumeRecord>, AttachmentError> {
    if volume.finalizer_index(&term.settings).is_some() {
        return Ok(volume);
    }
    // One at a time: the patch that appends to a list does not look whether we are in it.
    let _turn = term.own_patches.turns.take(name).await;
    let mut current = term.volume(name).unwrap_or(volume);
    let failed = |source| AttachmentError::ProtectVolume { source: Box::new(source) };
    for left in (0..TRIES).rev() {
        if current.finalizer_index(&term.settings).is_some() {
            break;
        }
        match send(term, name, finalizer_patch::add(current.finalizers.as_deref(), &term.settings.finalizer)).await {
            Ok(Some(protected)) => return Ok(protected),
            Ok(None) => return Err(SourceError::Missing { volume: name.clone() }.into()),
            // A test failed: the list is another than this one.
            Err(Error::Api(status)) if status.code == 422 && left > 0 => {
                match live(term, name).await.map_err(failed)? {
                    Some(now) if now.finalizers != current.finalizers => current = now,
                    Some(_) => return Err(failed(Error::Api(status))),
                    None => return Err(SourceError::Missing { volume: name.clone() }.into()),
                }
            }
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(current)
}

async fn live(term: &TermContext, name: &VolumeName) -> Result<Option<Arc<VolumeRecord>>, Error> {
    let api: Api<PersistentVolume> = Api::all(term.api.clone());
    let found = api.get_opt(&name.to_string()).await?;
    Ok(found.map(|volume| Arc::new(term.volume_projection.record(volume))))
}

/// Sends a JSON Patch. Returns the volume afterwards, none when it is gone.
async fn send(
    term: &TermContext,
    name: &VolumeName,
    patch: Vec<Operation<'_>>,
) -> Result<Option<Arc<VolumeRecord>>, Error> {
    let body = serde_json::to_vec(&patch).map_err(Error::SerdeError)?;
    let request = http::Request::patch(format!("/api/v1/persistentvolumes/{name}"))
        .header(CONTENT_TYPE, "application/json-patch+json")
        .body(body)
        .map_err(Error::HttpError)?;
    match term.api.request::<PersistentVolume>(request).await {
        Ok(volume) => {
            let volume = Arc::new(term.volume_projection.record(volume));
            term.own_patches.answered(name, &volume);
            // The watch may have been faster than the answer.
            term.own_patches.seen(name, term.caches.volume(name).as_deref());
            Ok(Some(volume))
        }
        Err(Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}
