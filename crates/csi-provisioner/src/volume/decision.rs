//! What a volume needs, from its record alone. Pure.
//!
//! With reclaim policy Delete (`docs/provisioner-volumes.md` has the same table for users):
//!
//! | phase | not deleted | deleted, with our finalizer | deleted, without |
//! |---|---|---|---|
//! | Bound | put our finalizer on | wait for the claim | told |
//! | Released | reclaim | reclaim | told |
//! | Failed | told | reclaim | told |
//! | Pending, Available | nothing: binding is kube-controller-manager's | reclaim without a claim, else told | told |
//!
//! What the phases mean is decided in the `PersistentVolumeController` of kube-controller-manager:
//!
//! - Released and Failed: the claim is gone, or bound to another volume (`syncVolume`). Failed is written only after that, by
//!   `reclaimVolume`, `recycleVolumeOperation` and `deleteVolumeOperation`, and stays while the claim reference does.
//! - Bound: the claim is there and names the volume. Also a deleted volume stays Bound until the claim is gone.
//! - Pending, Available: no claim is bound. A deleted volume in this phase is not bound any more (`FindMatchingVolume`,
//!   `checkVolumeSatisfyClaim`), with one exception: a volume reserved by name, without the claim's UID, for a claim that names
//!   the volume too (`syncUnboundClaim`). And a claim that was bound before somebody removed the volume's claim reference is
//!   bound again (`syncBoundClaim`): `volume/unclaimed.rs` asks for such claims before the volume is deleted.

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
    /// Say what has to happen first, or that nothing will.
    Tell(VolumeWait),
}

/// Why a volume that is deleted, or could be reclaimed, is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolumeWait {
    /// It is deleted, and goes with its claim.
    Bound,
    /// It was deleted before its claim was bound, and cannot be bound any more.
    NeverBound,
    /// It is deleted, and reserved for a claim by name.
    Reserved,
    /// It is deleted without our finalizer: somebody took that off to keep the backend volume, or has deleted that already.
    Unprotected,
    /// kube-controller-manager has given it up. The Go provisioner never deletes such a volume, and people rely on that.
    Failed,
    /// It is deleted, and this release does not know its phase or its reclaim policy.
    Unknown,
}

/// Decides what a volume needs (KEP-2644 for the finalizer).
pub(crate) fn decide(volume: &VolumeRecord) -> VolumeDecision {
    match volume.reclaim_policy {
        Some(ReclaimPolicy::Delete) if volume.reachable => to_be_reclaimed(volume),
        Some(ReclaimPolicy::Retain | ReclaimPolicy::Recycle)
            if volume.protected && (volume.reachable || volume.deleting) =>
        {
            VolumeDecision::Unprotect
        }
        Some(ReclaimPolicy::Other) | None if volume.reachable && volume.deleting && volume.protected => {
            VolumeDecision::Tell(VolumeWait::Unknown)
        }
        // What this node does not reach, the provisioner of a node that does looks after.
        Some(ReclaimPolicy::Delete | ReclaimPolicy::Retain | ReclaimPolicy::Recycle | ReclaimPolicy::Other) | None => {
            VolumeDecision::Nothing
        }
    }
}

/// With reclaim policy Delete.
fn to_be_reclaimed(volume: &VolumeRecord) -> VolumeDecision {
    use VolumePhase::{Available, Bound, Failed, Other, Pending, Released};
    let reserved_for = || volume.claim.as_ref().map(|_| volume.claim_uid().is_some());
    match (&volume.phase, volume.deleting, volume.protected) {
        (Some(Bound), false, false) => VolumeDecision::Protect,
        (Some(Bound), true, true) => VolumeDecision::Tell(VolumeWait::Bound),
        (Some(Released), false, _) | (Some(Released | Failed), true, true) => VolumeDecision::Reclaim,
        (Some(Failed), false, _) => VolumeDecision::Tell(VolumeWait::Failed),
        (Some(Pending | Available) | None, true, true) => match reserved_for() {
            None => VolumeDecision::Reclaim,
            Some(true) => VolumeDecision::Tell(VolumeWait::NeverBound),
            Some(false) => VolumeDecision::Tell(VolumeWait::Reserved),
        },
        (Some(Other), true, true) => VolumeDecision::Tell(VolumeWait::Unknown),
        (_, true, false) => VolumeDecision::Tell(VolumeWait::Unprotected),
        (Some(Bound), false, true) | (Some(Pending | Available | Other) | None, false, _) => VolumeDecision::Nothing,
    }
}
