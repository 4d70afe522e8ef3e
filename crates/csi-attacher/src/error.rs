//! What can go wrong with an attachment or a volume. Where the Go attacher has a text that tools look for, it is kept.

use std::time::Duration;

use csi_client::{CallError, Code};
use storage_kube::names::{AttachmentName, NodeId, NodeName, VolumeName};
use storage_kube::{access_mode, credentials, secret_ref::SecretRef};
use thiserror::Error;

/// Why the volume of an attachment is not known.
#[derive(Debug, Error)]
pub(crate) enum SourceError {
    #[error(
        "both InlineCSIVolumeSource and PersistentVolumeName specified in VolumeAttachment source: keep one of them"
    )]
    Both,
    #[error(
        "neither InlineCSIVolumeSource nor PersistentVolumeName specified in VolumeAttachment source: name a volume"
    )]
    Neither,
    #[error("persistentvolume \"{volume}\" not found")]
    Missing { volume: VolumeName },
    #[error(
        "persistentvolume \"{volume}\" not found, and it was gone before this process started, so it is not known what to \
         detach: detach the volume at the backend, then remove the finalizer {finalizer} from VolumeAttachment {attachment}"
    )]
    Lost { volume: VolumeName, attachment: AttachmentName, finalizer: String },
    #[error("persistentvolume \"{volume}\" could not be read: {source}")]
    Unreadable { volume: VolumeName, source: Box<kube::Error> },
    #[error("PersistentVolume \"{volume}\" is marked for deletion")]
    Deleting { volume: VolumeName },
    #[error(
        "PersistentVolume \"{volume}\" was made anew for another volume, and the one before may be attached: delete \
         VolumeAttachment {attachment}, so that it is detached"
    )]
    Replaced { volume: VolumeName, attachment: AttachmentName },
    #[error("could not find a CSI volume source: only volumes with spec.csi can be attached by this csi-attacher")]
    NotCsi,
    #[error("the volume belongs to CSI driver {driver}: name that driver in spec.attacher")]
    OtherDriver { driver: String },
    #[error("the volume cannot be translated for its CSI driver: {0}")]
    Untranslatable(Box<csi_translation::Error>),
}

/// Why a volume is not attached, or not detached. All of them are tried again with growing delay, for ever.
#[derive(Debug, Error)]
pub(crate) enum AttachmentError {
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("could not add PersistentVolume finalizer: {source}")]
    ProtectVolume { source: Box<kube::Error> },
    #[error(transparent)]
    Capability(#[from] access_mode::Error),
    #[error("failed to load secret \"{secret}\": {source}")]
    Secret { secret: SecretRef, source: Box<credentials::Error> },
    #[error("csinode.storage.k8s.io \"{node}\" not found")]
    NodeMissing { node: NodeName },
    #[error(
        "CSINode {node} cannot be read: allow the ServiceAccount of the csi-attacher to get, list and watch csinodes of \
         storage.k8s.io"
    )]
    NodesForbidden { node: NodeName },
    #[error("CSINode {node} does not contain driver {driver}")]
    DriverMissing { node: NodeName, driver: String },
    #[error("node {node} has as many volumes as its CSINode allows, and one of them is being detached")]
    NodeFull { node: NodeName, wait: Duration },
    #[error("not sent: node {node} does not have the id {node_id} any more")]
    NodeChanged { node: NodeName, node_id: NodeId },
    #[error("could not save VolumeAttachment: {source}")]
    Hold { source: Box<kube::Error> },
    #[error("could not detach the volume from node id {node_id}, where it was before: {source}")]
    OldNode { node_id: String, source: CallError },
    #[error(transparent)]
    Publish(CallError),
    #[error(
        "the volume is attached, but the publish context of the CSI driver has {size} bytes, and a VolumeAttachment takes no \
         more than {limit}: the driver must be changed"
    )]
    ContextTooLarge { size: usize, limit: usize },
    #[error("the volume is attached, but status of VolumeAttachment could not be saved: {source}")]
    SaveAttached { source: Box<kube::Error> },
    #[error(transparent)]
    Unpublish(CallError),
    #[error("could not mark as detached: {source}")]
    Release { source: Box<kube::Error> },
    #[error("the volume is detached, but status of VolumeAttachment could not be saved: {source}")]
    SaveDetached { source: Box<kube::Error> },
    #[error("not sent: this process is ending")]
    Draining,
}

impl AttachmentError {
    /// The node whose `CSINode` is not there, lacks the driver, or cannot be read (yet).
    pub(crate) fn missing_node(&self) -> Option<&NodeName> {
        match self {
            Self::NodeMissing { node } | Self::NodesForbidden { node } | Self::DriverMissing { node, .. } => Some(node),
            _ => None,
        }
    }

    /// gRPC code for `status.attachError.errorCode`.
    pub(crate) fn code(&self) -> Option<Code> {
        match self {
            // That of `OldNode` is about a detach: kubelet would take RESOURCE_EXHAUSTED for a full node.
            Self::Publish(call) | Self::Unpublish(call) => Some(call.code()),
            _ => None,
        }
    }

    /// Nothing was tried: a condition of the call did not hold any more, or the term is ending.
    pub(crate) fn is_withdrawn(&self) -> bool {
        match self {
            Self::Draining => true,
            Self::Publish(call) | Self::OldNode { source: call, .. } | Self::Unpublish(call) => {
                matches!(call, CallError::Denied { .. })
            }
            Self::ProtectVolume { source }
            | Self::Hold { source }
            | Self::SaveAttached { source }
            | Self::Release { source }
            | Self::SaveDetached { source } => controller_runtime::gate_closed(source),
            _ => false,
        }
    }

    /// Whether it belongs into the attachment's status: what only kept the status from being written does not.
    pub(crate) fn belongs_into_status(&self) -> bool {
        !matches!(self, Self::SaveAttached { .. } | Self::SaveDetached { .. })
    }

    /// Told once, not at every try: nothing about it changes until somebody changes an object.
    pub(crate) fn is_told_once(&self) -> bool {
        self.missing_node().is_some() || self.is_hopeless()
    }

    /// Trying again soon will not help.
    pub(crate) fn is_hopeless(&self) -> bool {
        matches!(self, Self::Source(SourceError::Lost { .. }))
    }
}

/// Why a volume keeps our finalizer.
#[derive(Debug, Error)]
#[error("finalizer of PersistentVolume {volume} could not be removed: {source}")]
pub(crate) struct ReleaseVolumeError {
    pub(crate) volume: VolumeName,
    pub(crate) source: Box<kube::Error>,
}
