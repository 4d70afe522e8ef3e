//! What a volume waits for, said on the volume, and on its claim where that has to go first.
//!
//! Told at each look at the volume: when it changes, and at every resync, since events are kept for an hour.

use controller_runtime::EventKind;
use storage_kube::finalizers::VOLUME_PROTECTION;
use tracing::info;

use super::decision::VolumeWait;
use super::volume_reference;
use crate::claim::lost_volume;
use crate::records::VolumeRecord;
use crate::term_context::TermContext;

/// Says it in events and a log line.
pub(super) fn tell(term: &TermContext, volume: &VolumeRecord, wait: VolumeWait) {
    let text = text(volume, wait);
    info!(volume = %volume.name, "{text}");
    let (kind, reason) = match wait {
        VolumeWait::Bound | VolumeWait::Unprotected => (EventKind::Normal, "VolumeDelete"),
        VolumeWait::NeverBound | VolumeWait::Reserved | VolumeWait::Failed | VolumeWait::Unknown => {
            (EventKind::Warning, "VolumeFailedDelete")
        }
    };
    term.events.record(&volume_reference(volume), kind, reason, text);
    if wait == VolumeWait::NeverBound {
        lost_volume::tell(term, volume);
    }
}

fn text(volume: &VolumeRecord, wait: VolumeWait) -> String {
    let name = &volume.name;
    let claim = volume.claim.as_ref().map(|claim| format!("{}/{}", claim.namespace, claim.name)).unwrap_or_default();
    let handle = volume.source.handle().map(|handle| format!(" {handle}")).unwrap_or_default();
    match wait {
        VolumeWait::Bound => {
            format!("persistentvolume {name} is deleted, and goes when claim {claim} is deleted too")
        }
        VolumeWait::NeverBound => format!(
            "persistentvolume {name} was deleted before claim {claim} was bound to it, and cannot be bound any more: delete \
             the claim, then the volume is deleted at the CSI driver and goes too"
        ),
        VolumeWait::Reserved => format!(
            "persistentvolume {name} is deleted, and reserved for claim {claim}: remove spec.claimRef, then the volume is \
             deleted at the CSI driver and goes; set persistentVolumeReclaimPolicy to Retain before to keep its data"
        ),
        VolumeWait::Unprotected => format!(
            "persistentvolume {name} is deleted without finalizer {VOLUME_PROTECTION}, so the CSI driver is not asked to delete \
             volume{handle}: that is done already, or the volume is kept there"
        ),
        VolumeWait::Failed if volume.protected => format!(
            "persistentvolume {name} is Failed: kube-controller-manager could not reclaim it, and volume{handle} is kept. Delete \
             the persistentvolume to have it deleted at the CSI driver, or set persistentVolumeReclaimPolicy to Retain"
        ),
        VolumeWait::Failed => format!(
            "persistentvolume {name} is Failed: kube-controller-manager could not reclaim it, and volume{handle} is kept. Without \
             finalizer {VOLUME_PROTECTION} it stays at the CSI driver when the persistentvolume is deleted"
        ),
        VolumeWait::Unknown => format!(
            "persistentvolume {name} is deleted, and its phase or persistentVolumeReclaimPolicy is unknown to this release: set \
             the policy to Retain to let it go and keep volume{handle} at the CSI driver"
        ),
    }
}
