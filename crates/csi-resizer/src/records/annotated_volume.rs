//! Volumes that carry the size their file system had before they grew (gate `AnnotateFsResize`).

use controller_runtime::{Mention, Projection};
use storage_kube::annotations::PRE_RESIZE_CAPACITY;
use storage_kube::names::VolumeName;
use storage_kube::wire::PersistentVolume;

/// Nothing is kept but that it is so: what follows is read live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnnotatedVolume {
    /// `spec.capacity.storage`, for which a change is looked at.
    capacity: Option<String>,
}

/// Keeps volumes with the annotation, which few have at a time.
pub(crate) struct AnnotatedVolumeProjection {
    mention: Mention,
}

impl AnnotatedVolumeProjection {
    pub(crate) fn new() -> Self {
        Self { mention: Mention::of([PRE_RESIZE_CAPACITY]) }
    }
}

impl Projection for AnnotatedVolumeProjection {
    type Wire = PersistentVolume;
    type Key = VolumeName;
    type Record = AnnotatedVolume;
    type Group = ();

    fn may_concern(&self, json: &[u8]) -> bool {
        self.mention.may_be_in(json)
    }

    fn decode(json: &[u8]) -> Result<PersistentVolume, serde_json::Error> {
        PersistentVolume::from_json(json)
    }

    fn key(&self, volume: &PersistentVolume) -> Option<VolumeName> {
        volume.metadata.name.as_deref().map(VolumeName::from)
    }

    fn project(&self, volume: PersistentVolume) -> Option<AnnotatedVolume> {
        let annotations = volume.metadata.annotations?;
        annotations
            .contains_key(PRE_RESIZE_CAPACITY)
            .then_some(AnnotatedVolume { capacity: volume.spec.capacity.storage })
    }
}
