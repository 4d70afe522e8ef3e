//! Volume attachments: while one names a volume, the volume must not be reclaimed.

use std::sync::Arc;

use controller_runtime::Projection;
use storage_kube::names::{Interner, VolumeName};
use storage_kube::uid::Uid;
use storage_kube::wire::VolumeAttachment;

use crate::migration::ProvisionerNames;

/// Keeps which volumes of this driver have attachments, whatever the state of the attachment.
///
/// The attach/detach controller takes `spec.attacher` from the volume's driver, so attachments of other drivers cannot
/// name a volume of this one.
pub(crate) struct AttachmentProjection {
    pub(crate) names: ProvisionerNames,
    /// The one of the volumes.
    pub(crate) interner: Arc<Interner>,
}

impl Projection for AttachmentProjection {
    type Wire = VolumeAttachment;
    /// Names are long (`csi-` and a SHA-256 in hexadecimal digits); the UID tells attachments apart as well.
    type Key = Uid;
    type Record = VolumeName;
    type Group = VolumeName;

    fn may_concern(&self, json: &[u8]) -> bool {
        self.names.may_be_in(json)
    }

    fn key(&self, attachment: &VolumeAttachment) -> Option<Uid> {
        attachment.metadata.uid.as_deref().map(Uid::from)
    }

    fn project(&self, attachment: VolumeAttachment) -> Option<VolumeName> {
        if !self.names.is_driver(&attachment.spec.attacher) {
            return None;
        }
        let volume = attachment.spec.source.persistent_volume_name?;
        Some(VolumeName::shared(&volume, &self.interner))
    }

    fn group(&self, volume: &VolumeName) -> Option<VolumeName> {
        Some(volume.clone())
    }
}
