//! What a volume needs, from its record alone. Pure.

use storage_kube::wire::{ReclaimPolicy, VolumePhase};

use crate::records::VolumeRecord;

/// What to do with a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolumeDecision {
    /// Nothing now.
    Nothing,
    /// Put our finalizer on: deleting the object first must not lose the backend volume.
    Protect,
    /// Take our finalizer off: the backend volume is to be kept.
    Unprotect,
    /// Delete it at the driver, then the object.
    Reclaim,
}

/// Decides what a volume needs (KEP-2644 for the finalizer).
pub(crate) fn decide(volume: &VolumeRecord) -> VolumeDecision {
    match volume.reclaim_policy {
        Some(ReclaimPolicy::Delete) => {}
        Some(ReclaimPolicy::Retain | ReclaimPolicy::Recycle)
            if volume.protected && (volume.reachable || volume.deleting) =>
        {
            return VolumeDecision::Unprotect;
        }
        _ => return VolumeDecision::Nothing,
    }
    if !volume.reachable {
        // The provisioner of a node that reaches it does all this.
        return VolumeDecision::Nothing;
    }
    match volume.phase {
        Some(VolumePhase::Bound) if !volume.protected && !volume.deleting => VolumeDecision::Protect,
        // Deleting without our finalizer: somebody took it off to keep the backend volume, or has deleted that already.
        Some(VolumePhase::Released) if volume.protected || !volume.deleting => VolumeDecision::Reclaim,
        _ => VolumeDecision::Nothing,
    }
}
