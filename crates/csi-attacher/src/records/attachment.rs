//! Attachments (VolumeAttachments) of this driver.

use std::sync::Arc;

use controller_runtime::{Mention, Projection};
use storage_kube::names::{AttachmentName, NodeId, NodeName, VolumeName};
use storage_kube::uid::Uid;
use storage_kube::wire::{VolumeAttachment, VolumeAttachmentSource};
use storage_kube::{annotations, finalizers};

use super::{Interners, VolumeRecord, version};
use crate::settings::Settings;

/// What is to be attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AttachmentSource {
    /// The PersistentVolume of this name.
    Volume(VolumeName),
    /// A volume without an object, described in the attachment itself.
    Inline(Box<VolumeRecord>),
    /// Both, which says nothing.
    Both,
    /// Neither.
    Neither,
}

/// All of an attachment that many attachments at one node have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AttachmentShape {
    node: NodeName,
    published_node: Option<NodeId>,
    finalizers: Option<Arc<Vec<String>>>,
}

/// One attachment of this driver. Its name is the key, and not repeated in here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of the object")]
pub(crate) struct AttachmentRecord {
    pub(crate) uid: Uid,
    /// 0 when it is not known.
    pub(crate) resource_version: u64,
    pub(crate) source: AttachmentSource,
    shape: Arc<AttachmentShape>,
    /// `metadata.deletionTimestamp` is set.
    pub(crate) deleting: bool,
    /// `status.attached`.
    pub(crate) attached: bool,
    /// `status.attachError` is there.
    pub(crate) attach_error: bool,
    /// `status.detachError` is there.
    pub(crate) detach_error: bool,
    /// `status.attachmentMetadata` is there, which an attached volume alone should have.
    pub(crate) publish_context: bool,
}

impl AttachmentRecord {
    /// The PersistentVolume it names, if it names one.
    pub(crate) fn volume(&self) -> Option<&VolumeName> {
        match &self.source {
            AttachmentSource::Volume(name) => Some(name),
            AttachmentSource::Inline(_) | AttachmentSource::Both | AttachmentSource::Neither => None,
        }
    }

    /// The node to attach to.
    pub(crate) fn node(&self) -> &NodeName {
        &self.shape.node
    }

    /// The id the volume was or is about to be published at.
    pub(crate) fn published_node(&self) -> Option<&NodeId> {
        self.shape.published_node.as_ref()
    }

    /// All finalizers, in order.
    pub(crate) fn finalizers(&self) -> &[String] {
        self.shape.finalizers.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Whether the volume may be published: our finalizer goes on before the first call.
    pub(crate) fn is_held(&self, settings: &Settings) -> bool {
        finalizers::contains(self.finalizers(), &settings.finalizer)
    }

    /// Whether the status says anything that is wrong once the volume is detached.
    pub(crate) fn says_attached(&self) -> bool {
        self.attached || self.detach_error
    }

    /// Whether nothing differs but what our own writes change: such an update need not end a backoff.
    pub(crate) fn asks_the_same(&self, other: &Self) -> bool {
        // In full, so that a new field is decided about.
        let Self { uid, resource_version: _, source, shape, deleting, attached, .. } = self;
        let Self { attach_error: _, detach_error: _, publish_context: _, .. } = self;
        let AttachmentShape { node, published_node: _, finalizers: _ } = &**shape;
        *uid == other.uid
            && *node == other.shape.node
            && *source == other.source
            && *deleting == other.deleting
            && *attached == other.attached
    }
}

/// Keeps the attachments of this driver.
pub(crate) struct AttachmentProjection {
    pub(crate) driver: String,
    mention: Mention,
    pub(crate) interners: Arc<Interners>,
}

impl AttachmentProjection {
    pub(crate) fn new(settings: &Settings, interners: &Arc<Interners>) -> Self {
        let driver = settings.driver.clone();
        Self { mention: Mention::of([&*driver]), driver, interners: Arc::clone(interners) }
    }

    fn source(&self, source: VolumeAttachmentSource) -> AttachmentSource {
        match (source.persistent_volume_name, source.inline_volume_spec) {
            (Some(name), None) => AttachmentSource::Volume(VolumeName::shared(&name, &self.interners.names)),
            (None, Some(spec)) => {
                AttachmentSource::Inline(Box::new(VolumeRecord::inline(*spec, &self.driver, &self.interners)))
            }
            (Some(_), Some(_)) => AttachmentSource::Both,
            (None, None) => AttachmentSource::Neither,
        }
    }
}

impl Projection for AttachmentProjection {
    type Wire = VolumeAttachment;
    type Key = AttachmentName;
    type Record = AttachmentRecord;
    type Group = VolumeName;

    fn may_concern(&self, json: &[u8]) -> bool {
        self.mention.may_be_in(json)
    }

    fn key(&self, attachment: &VolumeAttachment) -> Option<AttachmentName> {
        attachment.metadata.name.as_deref().map(AttachmentName::from)
    }

    fn project(&self, mut attachment: VolumeAttachment) -> Option<AttachmentRecord> {
        if attachment.spec.attacher != self.driver {
            return None;
        }
        let finalizers = attachment.metadata.finalizers.take();
        let metadata = &attachment.metadata;
        let annotation = metadata.annotations.as_ref().and_then(|all| all.get(annotations::PUBLISHED_NODE_ID));
        let shape = AttachmentShape {
            node: self.interners.names.intern(&attachment.spec.node_name).into(),
            published_node: annotation
                .filter(|id| !id.is_empty())
                .map(|id| NodeId::from(self.interners.names.intern(id))),
            finalizers: finalizers.map(|list| self.interners.finalizers.intern(list)),
        };
        Some(AttachmentRecord {
            uid: Uid::from(metadata.uid.as_deref().unwrap_or_default()),
            resource_version: version(metadata),
            shape: self.interners.attachment_shapes.intern(shape),
            deleting: metadata.deletion_timestamp.is_some(),
            source: self.source(attachment.spec.source),
            attached: attachment.status.attached,
            attach_error: attachment.status.attach_error,
            detach_error: attachment.status.detach_error,
            publish_context: !attachment.status.attachment_metadata.is_empty(),
        })
    }

    fn group(&self, attachment: &AttachmentRecord) -> Option<VolumeName> {
        attachment.volume().cloned()
    }
}
