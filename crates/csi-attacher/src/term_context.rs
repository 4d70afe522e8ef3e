//! Everything one leader term has: gated clients, queues, and what it remembers of its own work. It dies with the term.

use std::sync::Arc;

use controller_runtime::{Backoff, Projection as _, WorkQueue, WorkQueueMetrics};
use csi_client::ControllerClient;
use kube::Api;
use storage_kube::names::{AttachmentName, NodeId, VolumeHandle, VolumeName};
use storage_kube::wire::VolumeAttachment;
use tokio_util::sync::CancellationToken;

use crate::attachment::Attachment;
use crate::attachment::left_behind::LeftBehind;
use crate::attachment::node_detaches::NodeDetaches;
use crate::attachment::remembered::Remembered;
use crate::attachment::waiting_for_node::WaitingForNode;
use crate::caches::Caches;
use crate::call_slots::{CallKind, CallSlot, CallSlots};
use crate::error::AttachmentError;
use crate::reconcile::mismatches::Mismatches;
use crate::records::{AttachmentProjection, AttachmentRecord, NodeRecord, VolumeProjection, VolumeRecord};
use crate::settings::Settings;
use crate::turns::Turns;
use crate::volume::own_patches::OwnPatches;

/// The queues of one term.
pub(crate) struct Queues {
    pub(crate) attachments: WorkQueue<AttachmentName>,
    pub(crate) volumes: WorkQueue<VolumeName>,
}

impl Queues {
    pub(crate) fn new(backoff: Backoff, metrics: &WorkQueueMetrics) -> Self {
        Self {
            attachments: WorkQueue::new("csi-attacher-va", backoff, metrics),
            volumes: WorkQueue::new("csi-attacher-pv", backoff, metrics),
        }
    }
}

/// See the module.
pub(crate) struct TermContext {
    pub(crate) settings: Arc<Settings>,
    pub(crate) caches: Arc<Caches>,
    /// Writes pass while the term's gate is open.
    pub(crate) api: kube::Client,
    /// Attachments through `api`.
    pub(crate) attachments: Api<VolumeAttachment>,
    /// Calls pass while the term's gate is open.
    pub(crate) driver: ControllerClient,
    /// Cancelled when the term starts nothing new.
    pub(crate) draining: CancellationToken,
    pub(crate) queues: Queues,
    pub(crate) slots: CallSlots,
    /// To publish or unpublish a volume at a node id: two attachments may be about the same.
    pub(crate) call_turns: Turns<(VolumeHandle, NodeId)>,
    /// Make records of what did not come through the caches.
    pub(crate) attachment_projection: AttachmentProjection,
    pub(crate) volume_projection: VolumeProjection,
    pub(crate) remembered: Remembered,
    pub(crate) left_behind: LeftBehind,
    pub(crate) waiting_for_node: WaitingForNode,
    pub(crate) node_detaches: NodeDetaches,
    pub(crate) own_patches: OwnPatches,
    pub(crate) mismatches: Mismatches,
}

impl TermContext {
    /// The newest this term knows of an attachment: the cache, or the API server's answer to an own patch that the cache
    /// has not reached.
    pub(crate) fn attachment(&self, name: &AttachmentName) -> Option<Attachment> {
        let cached = self.caches.attachments.get(name)?;
        let record = self.remembered.newest(cached);
        Some(Attachment { name: name.clone(), record })
    }

    /// The record of an attachment that did not come through the cache; none for those of other drivers.
    pub(crate) fn attachment_record(&self, attachment: VolumeAttachment) -> Option<AttachmentRecord> {
        self.attachment_projection.project(attachment)
    }

    /// The same for a volume.
    pub(crate) fn volume(&self, name: &VolumeName) -> Option<Arc<VolumeRecord>> {
        let cached = self.caches.volume(name)?;
        Some(self.own_patches.newest(name, cached))
    }

    /// A slot for one call; none once the term starts nothing new.
    pub(crate) async fn slot(&self, kind: CallKind) -> Result<CallSlot, AttachmentError> {
        tokio::select! {
            biased;
            () = self.draining.cancelled() => Err(AttachmentError::Draining),
            slot = self.slots.acquire(kind) => Ok(slot),
        }
    }

    /// The attachment is gone: nothing of it is needed any more, but what may be left behind at the driver.
    pub(crate) fn forget(&self, name: &AttachmentName, attachment: &AttachmentRecord) {
        self.remembered.forget(&attachment.uid);
        self.mismatches.forget(&attachment.uid);
        self.waiting_for_node.forget(attachment.node(), name);
        self.node_detaches.forget(attachment.node(), name);
    }

    /// What the driver calls the node, or why that is not known.
    pub(crate) fn node(&self, attachment: &Attachment) -> Option<Arc<NodeRecord>> {
        self.caches.node(attachment.record.node())
    }
}
