//! Volumes with a note of how big their file system was.

use std::sync::Arc;

use controller_runtime::{Mention, Projection};
use storage_kube::annotations::PRE_RESIZE_CAPACITY;
use storage_kube::names::{ClaimName, ClaimUid, Namespace, VolumeName};
use storage_kube::uid::Uid;
use storage_kube::wire::PersistentVolume;

use crate::settings::Settings;

/// Whose volume it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeNote {
    pub(crate) uid: ClaimUid,
    pub(crate) namespace: Namespace,
    pub(crate) name: ClaimName,
}

/// Keeps the volumes of this driver that have the note and a claim; few do at a time.
pub(crate) struct VolumeNoteProjection {
    settings: Arc<Settings>,
    mention: Mention,
}

impl VolumeNoteProjection {
    pub(crate) fn new(settings: &Arc<Settings>) -> Self {
        Self { settings: Arc::clone(settings), mention: Mention::of([PRE_RESIZE_CAPACITY]) }
    }

    /// May be the driver's, by its source alone.
    fn may_be_ours(&self, volume: &PersistentVolume) -> bool {
        match &volume.spec.csi {
            Some(csi) => csi.driver == self.settings.driver,
            None => self.settings.in_tree.is_some() && volume.spec.in_tree_plugin() == self.settings.in_tree,
        }
    }
}

impl Projection for VolumeNoteProjection {
    type Wire = PersistentVolume;
    type Key = VolumeName;
    type Record = VolumeNote;
    type Group = ClaimUid;

    fn may_concern(&self, json: &[u8]) -> bool {
        self.mention.may_be_in(json)
    }

    fn key(&self, volume: &PersistentVolume) -> Option<VolumeName> {
        volume.metadata.name.as_deref().map(VolumeName::from)
    }

    fn project(&self, volume: PersistentVolume) -> Option<VolumeNote> {
        let noted = volume.metadata.annotations.as_ref()?.contains_key(PRE_RESIZE_CAPACITY);
        if !noted || !self.may_be_ours(&volume) {
            return None;
        }
        let claim = volume.spec.claim_ref?;
        Some(VolumeNote {
            uid: ClaimUid(Uid::from(claim.uid.as_deref()?)),
            namespace: Namespace::from(claim.namespace),
            name: ClaimName::from(claim.name),
        })
    }

    fn group(&self, noted: &VolumeNote) -> Option<ClaimUid> {
        Some(noted.uid.clone())
    }
}
