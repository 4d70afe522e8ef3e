//! Detaching: the call, at each id of the node, and letting the attachment go.

use std::sync::Arc;

use csi_client::{Admission, CallError, Code};
use csi_proto::csi::v1::ControllerUnpublishVolumeRequest;
use storage_kube::credentials::Credentials;
use storage_kube::names::NodeId;
use tracing::{info, warn};

use super::attach::{node_id, secrets};
use super::node_ids::{NodeIds, is_published_for_another};
use super::{Attachment, node_detaches, patch, write};
use crate::call_slots::CallKind;
use crate::error::AttachmentError;
use crate::migration;
use crate::records::VolumeRecord;
use crate::source;
use crate::still_wanted;
use crate::term_context::TermContext;

/// Detaches a volume and lets the attachment go.
pub(crate) async fn detach(term: &TermContext, attachment: &Attachment) -> Result<(), AttachmentError> {
    unpublish_where_published(term, attachment, still_wanted::while_detaching(term, attachment)).await?;
    term.remembered.set_unpublished(&attachment.record.uid);
    node_detaches::left(term, &attachment.name, attachment.record.node());
    term.left_behind.settled(&attachment.name);
    release(term, attachment).await
}

/// Takes our finalizer off. The status is written only for an attachment that stays for the sake of other finalizers: with
/// the last one the object is gone.
pub(crate) async fn release(term: &TermContext, attachment: &Attachment) -> Result<(), AttachmentError> {
    let released = write::metadata(term, attachment, |record| patch::release(record, &term.settings.finalizer))
        .await
        .map_err(|source| AttachmentError::Release { source: Box::new(source) })?;
    let Some(left) = released.filter(|left| !left.record.finalizers().is_empty()) else { return Ok(()) };
    if left.record.says_attached() {
        write::status(term, &left, patch::detached(&left.record))
            .await
            .map_err(|source| AttachmentError::SaveDetached { source: Box::new(source) })?;
    }
    Ok(())
}

/// The driver still lists a volume of an attachment that was let go: unpublishes it once more.
pub(crate) async fn unpublish_again(term: &TermContext, attachment: &Attachment) -> Result<(), AttachmentError> {
    warn!(attachment = %attachment.name, "the CSI driver still lists the volume as attached: detaching it again");
    unpublish_where_published(term, attachment, still_wanted::while_detaching(term, attachment)).await
}

/// The driver does not list the volume at a node that is gone. Says once what is waited for.
///
/// `attached=false` would strand the attachment: kube-controller-manager's `csiAttacher.VolumesAreAttached` reads the field
/// once a minute, `MarkVolumeAsDetached` then forgets volume and node, and `reconciler.reconcile` deletes attachments of
/// what it remembers alone.
pub(crate) fn await_deletion(term: &TermContext, attachment: &Attachment) {
    let uid = &attachment.record.uid;
    if !term.remembered.was_told(uid, AWAITS_DELETION) {
        info!(attachment = %attachment.name, node = %attachment.record.node(), "{AWAITS_DELETION}");
        term.remembered.told(uid, Some(AWAITS_DELETION.to_owned()));
    }
}

pub(crate) const AWAITS_DELETION: &str = "the CSI driver does not list the volume at its node, and is not known to be registered there: \
    waiting until the node is back or kube-controller-manager deletes the VolumeAttachment, six minutes after the last pod, \
    or at once with the taint node.kubernetes.io/out-of-service";

async fn unpublish_where_published(
    term: &TermContext,
    attachment: &Attachment,
    wanted: Arc<dyn Admission>,
) -> Result<(), AttachmentError> {
    let volume = source::to_detach(term, attachment).await?;
    unpublish_volume(term, attachment, &volume, wanted).await
}

/// Unpublishes the volume at every id of the attachment's node. The node may get another id while a call waits for the driver,
/// so the ids are read again until each has been called. A failure at one id keeps none of the others from being called.
pub(crate) async fn unpublish_volume(
    term: &TermContext,
    attachment: &Attachment,
    volume: &VolumeRecord,
    wanted: Arc<dyn Admission>,
) -> Result<(), AttachmentError> {
    let secrets = secrets(term, volume).await?;
    let (mut called, mut outcome) = (Vec::new(), Ok(()));
    loop {
        let ids = NodeIds::of(term, attachment);
        let Some(node) = ids.all().find(|id| !called.contains(*id)).cloned() else { break };
        let answer = unpublish(term, attachment, volume, &node, &secrets, Arc::clone(&wanted)).await;
        outcome = outcome.and(answer);
        called.push(node);
    }
    if called.is_empty() {
        // Why no id is known.
        node_id(term, attachment)?;
    }
    outcome
}

/// One call, unless another attachment has the volume at this id. Only OK means detached: a driver for which an unknown
/// volume or node is detached answers OK itself (CSI spec, `ControllerUnpublishVolume`). But a driver that does not find an id
/// which the node does not have any more has nothing there; that it does not find the volume is its answer at the node's present
/// id too.
pub(crate) async fn unpublish(
    term: &TermContext,
    attachment: &Attachment,
    volume: &VolumeRecord,
    node: &NodeId,
    secrets: &Credentials,
    wanted: Arc<dyn Admission>,
) -> Result<(), AttachmentError> {
    let handle = source::handle(volume)?;
    let request = ControllerUnpublishVolumeRequest {
        volume_id: handle.to_string(),
        node_id: node.to_string(),
        secrets: secrets.expose(),
    };
    // Until the call has ended nobody else publishes the volume here.
    let _turn = term.call_turns.take(&(handle, node.clone())).await;
    if is_published_for_another(term, attachment, node) {
        info!(attachment = %attachment.name, node_id = %node, "volume stays attached, another VolumeAttachment has it at this node id");
        return Ok(());
    }
    let slot = term.slot(CallKind::Ordinary).await?;
    let driver = term.driver.provided(wanted).for_migrated(migration::is_migratable(volume));
    let answer = driver.controller_unpublish_volume(request).await;
    term.mismatches.call_ended(&attachment.record.uid);
    drop(slot);
    match answer {
        Ok(_) => {
            info!(attachment = %attachment.name, node = %attachment.record.node(), node_id = %node, "volume detached");
            Ok(())
        }
        Err(CallError::Status { code: Code::NotFound, message, .. })
            if NodeIds::of(term, attachment).registered().is_some_and(|registered| registered != node) =>
        {
            info!(attachment = %attachment.name, node_id = %node, answer = message, "the CSI driver does not know the id that the node had before");
            Ok(())
        }
        Err(error) => Err(AttachmentError::Unpublish(error)),
    }
}
