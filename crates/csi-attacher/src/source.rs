//! Which volume an attachment means, and how the driver calls it.

use kube::Api;
use std::sync::Arc;
use storage_kube::names::{VolumeHandle, VolumeName};
use storage_kube::wire::PersistentVolume;

use crate::attachment::Attachment;
use crate::error::SourceError;
use crate::records::{AttachmentSource, VolumeRecord, VolumeSource};
use crate::term_context::TermContext;

/// The volume to attach: it must be there, and stay.
pub(crate) async fn to_attach(term: &TermContext, attachment: &Attachment) -> Result<Arc<VolumeRecord>, SourceError> {
    let name = match &attachment.record.source {
        AttachmentSource::Volume(name) => name,
        source => return inline(source),
    };
    match known_or_live(term, name).await? {
        None => Err(SourceError::Missing { volume: name.clone() }),
        Some(volume) if volume.shape.standing.deleting => Err(SourceError::Deleting { volume: name.clone() }),
        Some(volume) => Ok(volume),
    }
}

/// The volume to detach: deleted or not, as it was when it was attached.
pub(crate) async fn to_detach(term: &TermContext, attachment: &Attachment) -> Result<Arc<VolumeRecord>, SourceError> {
    let name = match &attachment.record.source {
        AttachmentSource::Volume(name) => name,
        source => return inline(source),
    };
    if let Some(kept) = term.caches.kept_volumes.get(&attachment.record.uid) {
        return Ok(kept);
    }
    known_or_live(term, name).await?.ok_or_else(|| SourceError::Lost {
        volume: name.clone(),
        attachment: attachment.name.clone(),
        finalizer: term.settings.finalizer.clone(),
    })
}

fn inline(source: &AttachmentSource) -> Result<Arc<VolumeRecord>, SourceError> {
    match source {
        AttachmentSource::Inline(volume) => Ok(Arc::new((**volume).clone())),
        AttachmentSource::Both => Err(SourceError::Both),
        AttachmentSource::Volume(_) | AttachmentSource::Neither => Err(SourceError::Neither),
    }
}

/// The watch of volumes may be behind the watch of attachments, so the API server has the last word on a volume that is
/// not there.
async fn known_or_live(term: &TermContext, name: &VolumeName) -> Result<Option<Arc<VolumeRecord>>, SourceError> {
    if let Some(volume) = term.volume(name) {
        return Ok(Some(volume));
    }
    let api: Api<PersistentVolume> = Api::all(term.api.clone());
    match api.get_opt(&name.to_string()).await {
        Ok(found) => Ok(found.map(|volume| Arc::new(term.volume_projection.record(volume)))),
        Err(source) => Err(SourceError::Unreadable { volume: name.clone(), source: Box::new(source) }),
    }
}

/// What the driver calls the volume.
pub(crate) fn handle(volume: &VolumeRecord) -> Result<VolumeHandle, SourceError> {
    match &volume.source {
        VolumeSource::Driver(handle) | VolumeSource::Migrated(handle) => Ok(handle.clone()),
        VolumeSource::Untranslatable(why) => Err(SourceError::Untranslatable(why.clone())),
        VolumeSource::OtherDriver(driver) => Err(SourceError::OtherDriver { driver: driver.to_string() }),
        VolumeSource::NotCsi => Err(SourceError::NotCsi),
    }
}
