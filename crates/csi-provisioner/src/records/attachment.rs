//! Volume attachments: while one names a volume, the volume must not be reclaimed.

use std::sync::Arc;

use controller_runtime::Projection;
use storage_kube::names::{Interner, NodeName, VolumeName};
use storage_kube::uid::Uid;
use storage_kube::wire::VolumeAttachment;

use crate::migration::ProvisionerNames;

/// One attachment, as small as a volume's name: a large cluster has tens of thousands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AttachmentRecord {
    /// The volume it names.
    Of(VolumeName),
    /// The volume and the node it names. Only where the node tells whether the attachment is stale.
    OnNode(Box<(VolumeName, NodeName)>),
}

impl AttachmentRecord {
    pub(crate) fn volume(&self) -> &VolumeName {
        match self {
            Self::Of(volume) => volume,
            Self::OnNode(both) => &both.0,
        }
    }
}

/// Keeps which volumes of this driver have attachments, whatever the state of the attachment.
///
/// The attach/detach controller takes `spec.attacher` from the volume's driver, so attachments of other drivers cannot
/// name a volume of this one.
pub(crate) struct AttachmentProjection {
    pub(crate) names: ProvisionerNames,
    /// The one of the volumes.
    pub(crate) interner: Arc<Interner>,
    /// Whether the nodes are kept.
    pub(crate) with_nodes: bool,
}

impl Projection for AttachmentProjection {
    type Wire = VolumeAttachment;
    /// Names are long (`csi-` and a SHA-256 in hexadecimal digits); the UID tells attachments apart as well.
    type Key = Uid;
    type Record = AttachmentRecord;
    type Group = VolumeName;

    fn may_concern(&self, json: &[u8]) -> bool {
        self.names.may_be_in(json)
    }

    fn key(&self, attachment: &VolumeAttachment) -> Option<Uid> {
        attachment.metadata.uid.as_deref().map(Uid::from)
    }

    fn project(&self, attachment: VolumeAttachment) -> Option<AttachmentRecord> {
        if !self.names.is_driver(&attachment.spec.attacher) {
            return None;
        }
        let volume = attachment.spec.source.persistent_volume_name?;
        let volume = VolumeName::shared(&volume, &self.interner);
        if !self.with_nodes {
            return Some(AttachmentRecord::Of(volume));
        }
        let node = NodeName::from(self.interner.intern(&attachment.spec.node_name));
        Some(AttachmentRecord::OnNode(Box::new((volume, node))))
    }

    fn group(&self, attachment: &AttachmentRecord) -> Option<VolumeName> {
        Some(attachment.volume().clone())
    }
}
