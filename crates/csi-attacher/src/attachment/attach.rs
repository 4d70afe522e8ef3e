//! Attaching: what has to be there first, the one call, and the status that says so.

use csi_client::{CallError, Code};
use csi_proto::csi::v1::ControllerPublishVolumeRequest;
use storage_kube::credentials::{self, Credentials};
use storage_kube::names::NodeId;
use tracing::{info, warn};

use super::decision::PublishContext;
use super::left_behind::Sent;
use super::node_ids::NodeIds;
use super::{Attachment, detach, is_first_attach, node_detaches, patch, request, write};
use crate::call_slots::CallKind;
use crate::error::{AttachmentError, SourceError};
use crate::migration;
use crate::records::{NodeRecord, VolumeRecord};
use crate::still_wanted;
use crate::term_context::TermContext;
use crate::{source, volume};

/// The most the API server takes as `status.attachmentMetadata` (validation of `VolumeAttachment`): bytes of all keys and
/// values.
const LARGEST_CONTEXT: usize = 256 << 10;

/// Attaches a volume: finalizers first, then the call, then the status.
pub(crate) async fn attach(term: &TermContext, attachment: Attachment) -> Result<(), AttachmentError> {
    let mut known = source::to_attach(term, &attachment).await?;
    same_volume(term, &attachment, &known)?;
    // Nothing is written to a volume of another driver.
    source::handle(&known)?;
    if let Some(name) = attachment.record.volume() {
        known = volume::protect(term, name, known).await?;
    }
    let mut request = request::publish(&term.settings, &known)?;
    let secrets = secrets(term, &known).await?;
    let node = node_id(term, &attachment)?;
    term.waiting_for_node.forget(attachment.record.node(), &attachment.name);
    let room = if is_first_attach(term, &attachment) {
        node_detaches::room(term, &attachment)
            .map_err(|wait| AttachmentError::NodeFull { node: attachment.record.node().clone(), wait })?
    } else {
        None
    };
    leave_old_node(term, &attachment, &known, &node, &secrets).await?;
    let Some(attachment) = hold(term, &attachment, &node).await? else { return Ok(()) };
    drop(room);
    request.node_id = node.to_string();
    request.secrets = secrets.expose();
    let answer = publish(term, &attachment, &known, &node, request).await;
    if may_be_published(&answer) {
        term.left_behind.note(Sent { attachment: attachment.clone(), volume: known });
    }
    if matches!(&answer, Err(AttachmentError::Publish(CallError::Status { code: Code::ResourceExhausted, .. }))) {
        term.node_detaches.refused(attachment.record.node(), &attachment.name);
    }
    let context = answer?;
    info!(attachment = %attachment.name, node = %attachment.record.node(), "volume attached");
    term.remembered.set_published(&attachment.record.uid, Some(context.clone()));
    record_attached(term, &attachment, context).await
}

/// Says in the status that the volume is attached. Once that is saved the publish context is not needed any more.
pub(crate) async fn record_attached(
    term: &TermContext,
    attachment: &Attachment,
    context: PublishContext,
) -> Result<(), AttachmentError> {
    let record = &attachment.record;
    let error_to_clear = record.attach_error || term.remembered.may_have_attach_error(&record.uid);
    // Left over from an earlier attach. A merge patch takes out only the keys that it names.
    let before = if record.publish_context {
        write::attachment_metadata(term, attachment).await.map_err(save_failed)?.unwrap_or_default()
    } else {
        PublishContext::new()
    };
    let saved = write::status(term, attachment, patch::attached(record, &before, &context, error_to_clear)).await;
    if saved.map_err(save_failed)?.is_some() {
        term.left_behind.settled(&attachment.name);
    }
    term.remembered.set_published(&record.uid, None);
    Ok(())
}

/// The status says that the volume is attached, and may say it with an earlier publish context: the context was changed by a
/// repeated call, or nobody knows whether the status was saved.
pub(crate) async fn record_context(
    term: &TermContext,
    attachment: &Attachment,
    context: PublishContext,
) -> Result<(), AttachmentError> {
    let before = write::attachment_metadata(term, attachment).await.map_err(save_failed)?;
    let changed = |before| patch::changed_metadata(&attachment.record, before, &context);
    if let Some(body) = before.as_ref().and_then(changed) {
        write::status(term, attachment, body).await.map_err(save_failed)?;
    }
    term.left_behind.settled(&attachment.name);
    term.remembered.set_published(&attachment.record.uid, None);
    Ok(())
}

fn save_failed(source: kube::Error) -> AttachmentError {
    AttachmentError::SaveAttached { source: Box::new(source) }
}

/// For a driver that does not publish: there is nothing to do, so it is done.
pub(crate) async fn mark_attached(term: &TermContext, attachment: &Attachment) -> Result<(), AttachmentError> {
    let nothing = PublishContext::new();
    let body = patch::attached(&attachment.record, &nothing, &nothing, attachment.record.attach_error);
    write::status(term, attachment, body).await.map_err(save_failed)?;
    Ok(())
}

/// The driver says that a volume which should be published is not: publishes it once more, at the id the node has now.
pub(crate) async fn publish_again(term: &TermContext, attachment: &Attachment) -> Result<(), AttachmentError> {
    warn!(attachment = %attachment.name, "the CSI driver does not list the volume as attached: attaching it again");
    let known = source::to_attach(term, attachment).await?;
    let mut request = request::publish(&term.settings, &known)?;
    let secrets = secrets(term, &known).await?;
    // Decided about while the node was registered. Whether it comes back the listings show.
    let Ok(node) = node_id(term, attachment) else { return Ok(()) };
    // Both ids of the node have been listed without the volume: from here on it is at the present one.
    let Some(attachment) = hold(term, attachment, &node).await? else { return Ok(()) };
    request.node_id = node.to_string();
    request.secrets = secrets.expose();
    let context = publish(term, &attachment, &known, &node, request).await?;
    info!(attachment = %attachment.name, "volume attached again");
    term.remembered.set_published(&attachment.record.uid, Some(context.clone()));
    record_context(term, &attachment, context).await
}

/// What was tried before must be the volume of this try: once it is published, only one of two could be detached.
fn same_volume(term: &TermContext, attachment: &Attachment, found: &VolumeRecord) -> Result<(), AttachmentError> {
    let (record, kept) = (&attachment.record, &term.caches.kept_volumes);
    if !record.is_held(&term.settings) {
        kept.forget(&record.uid);
    }
    match (record.volume(), kept.get(&record.uid)) {
        (Some(volume), Some(before)) if before.source != found.source => {
            Err(SourceError::Replaced { volume: volume.clone(), attachment: attachment.name.clone() }.into())
        }
        _ => Ok(()),
    }
}

/// Whether the driver may have published the volume, by its answer.
fn may_be_published(answer: &Result<PublishContext, AttachmentError>) -> bool {
    match answer {
        Ok(_) | Err(AttachmentError::ContextTooLarge { .. }) => true,
        Err(AttachmentError::Publish(call)) => call.was_sent(),
        Err(_) => false,
    }
}

/// The Secret of the volume; without a reference none are sent.
pub(crate) async fn secrets(term: &TermContext, volume: &VolumeRecord) -> Result<Credentials, AttachmentError> {
    let Some(secret) = &volume.shape.secret else { return Ok(Credentials::default()) };
    credentials::fetch(&term.api, secret)
        .await
        .map_err(|source| AttachmentError::Secret { secret: secret.clone(), source: Box::new(source) })
}

/// What the driver calls the node, as its kubelet registered it.
pub(crate) fn node_id(term: &TermContext, attachment: &Attachment) -> Result<NodeId, AttachmentError> {
    let node = attachment.record.node().clone();
    match term.node(attachment).as_deref() {
        Some(NodeRecord::Registered { id, .. }) => Ok(id.clone()),
        Some(NodeRecord::WithoutDriver) => {
            Err(AttachmentError::DriverMissing { node, driver: term.settings.driver.clone() })
        }
        None if !term.caches.nodes_are_known() => Err(AttachmentError::NodesForbidden { node }),
        None => Err(AttachmentError::NodeMissing { node }),
    }
}

/// An earlier try may have published the volume at an id that the node does not have any more: the attachment would be
/// forgotten there.
async fn leave_old_node(
    term: &TermContext,
    attachment: &Attachment,
    volume: &VolumeRecord,
    node: &NodeId,
    secrets: &Credentials,
) -> Result<(), AttachmentError> {
    let record = &attachment.record;
    let Some(old) = record.published_node().filter(|old| *old != node && record.is_held(&term.settings)) else {
        return Ok(());
    };
    info!(attachment = %attachment.name, old = %old, new = %node, "the node has another id than at the last try to attach");
    let wanted = still_wanted::while_attaching(term, attachment);
    detach::unpublish(term, attachment, volume, old, secrets, wanted).await.map_err(|error| match error {
        AttachmentError::Unpublish(source) => AttachmentError::OldNode { node_id: old.to_string(), source },
        other => other,
    })
}

/// Puts our finalizer on the attachment and notes the node id, before the first call. None: the attachment is gone, or about
/// to go, and nothing may be published for it any more.
async fn hold(
    term: &TermContext,
    attachment: &Attachment,
    node: &NodeId,
) -> Result<Option<Attachment>, AttachmentError> {
    let held = write::metadata(term, attachment, |record| {
        // The API server takes no new finalizers then.
        if record.deleting { None } else { patch::hold(record, &term.settings.finalizer, node) }
    });
    let held = held.await.map_err(|source| AttachmentError::Hold { source: Box::new(source) })?;
    Ok(held.filter(|held| !held.record.deleting))
}

async fn publish(
    term: &TermContext,
    attachment: &Attachment,
    volume: &VolumeRecord,
    node: &NodeId,
    request: ControllerPublishVolumeRequest,
) -> Result<PublishContext, AttachmentError> {
    // A detach of another attachment at this id must have ended.
    let _turn = term.call_turns.take(&(source::handle(volume)?, node.clone())).await;
    let kind = if is_first_attach(term, attachment) { CallKind::FirstAttach } else { CallKind::Ordinary };
    let slot = term.slot(kind).await?;
    let wanted = still_wanted::to_publish(term, attachment, node);
    let driver = term.driver.provided(wanted).for_migrated(migration::is_migratable(volume));
    let answer = driver.controller_publish_volume(request).await;
    term.mismatches.call_ended(&attachment.record.uid);
    drop(slot);
    let context = match answer {
        Ok(answer) => answer.publish_context,
        Err(CallError::Denied { .. }) if NodeIds::of(term, attachment).registered() != Some(node) => {
            return Err(AttachmentError::NodeChanged { node: attachment.record.node().clone(), node_id: node.clone() });
        }
        Err(error) => return Err(AttachmentError::Publish(error)),
    };
    let size = context.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > LARGEST_CONTEXT {
        Err(AttachmentError::ContextTooLarge { size, limit: LARGEST_CONTEXT })
    } else {
        Ok(context)
    }
}
