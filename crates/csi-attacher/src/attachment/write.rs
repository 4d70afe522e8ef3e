//! All writes to VolumeAttachment objects.

use std::sync::Arc;

use kube::Error;
use kube::api::{Patch, PatchParams};
use storage_kube::wire::VolumeAttachment;

use super::Attachment;
use super::patch::AttachmentPatch;
use crate::records::AttachmentRecord;
use crate::term_context::TermContext;

/// Tries to edit the finalizers of an attachment that others change at the same time.
const TRIES: usize = 5;

/// Sends edits of finalizers until one meets the attachment as it is. `edit` makes the patch, none when there is nothing to
/// do. Returns the attachment afterwards, none when it is gone.
pub(crate) async fn metadata(
    term: &TermContext,
    attachment: &Attachment,
    edit: impl Fn(&AttachmentRecord) -> Option<AttachmentPatch<'static>>,
) -> Result<Option<Attachment>, Error> {
    let mut current = attachment.clone();
    for _ in 1..TRIES {
        let Some(body) = edit(&current.record) else { return Ok(Some(current)) };
        match send(term, &current, Subresource::None, body).await {
            Err(Error::Api(status)) if status.code == 409 || status.code == 422 => match live(term, &current).await? {
                None => return Ok(None),
                Some(now) if now.record.resource_version == current.record.resource_version => {
                    return Err(Error::Api(status));
                }
                Some(now) => current = now,
            },
            outcome => return outcome,
        }
    }
    match edit(&current.record) {
        None => Ok(Some(current)),
        Some(body) => send(term, &current, Subresource::None, body).await,
    }
}

/// Patches the status. Returns the attachment afterwards, none when it is gone or was made anew.
pub(crate) async fn status(
    term: &TermContext,
    attachment: &Attachment,
    body: AttachmentPatch<'_>,
) -> Result<Option<Attachment>, Error> {
    match send(term, attachment, Subresource::Status, body).await {
        Err(Error::Api(status)) if status.code == 409 || status.code == 422 => match live(term, attachment).await? {
            None => Ok(None),
            Some(_) => Err(Error::Api(status)),
        },
        outcome => outcome,
    }
}

/// The attachment as the API server has it; none when it is gone or was made anew.
pub(crate) async fn live(term: &TermContext, attachment: &Attachment) -> Result<Option<Attachment>, Error> {
    let found = term.attachments.get_opt(&attachment.name.to_string()).await?;
    Ok(found.and_then(|found| taken_in(term, attachment, found)))
}

/// What the driver said when the volume was attached, as the API server has it.
pub(crate) async fn attachment_metadata(
    term: &TermContext,
    attachment: &Attachment,
) -> Result<Option<std::collections::BTreeMap<String, String>>, Error> {
    let found = term.attachments.get_opt(&attachment.name.to_string()).await?;
    Ok(found.map(|found: VolumeAttachment| found.status.attachment_metadata))
}

enum Subresource {
    None,
    Status,
}

async fn send(
    term: &TermContext,
    attachment: &Attachment,
    subresource: Subresource,
    body: AttachmentPatch<'_>,
) -> Result<Option<Attachment>, Error> {
    let api = &term.attachments;
    let (name, parameters, patch) = (attachment.name.to_string(), PatchParams::default(), Patch::Merge(body));
    let answer = match subresource {
        Subresource::None => api.patch(&name, &parameters, &patch).await,
        Subresource::Status => api.patch_status(&name, &parameters, &patch).await,
    };
    match answer {
        Ok(answer) => Ok(taken_in(term, attachment, answer)),
        Err(Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Remembers an answer of the API server. One that is about another attachment of the name says that ours is gone.
fn taken_in(term: &TermContext, attachment: &Attachment, answer: VolumeAttachment) -> Option<Attachment> {
    let record = term.attachment_record(answer).filter(|record| record.uid == attachment.record.uid)?;
    let record = Arc::new(record);
    term.remembered.answered(&record);
    Some(Attachment { name: attachment.name.clone(), record })
}
