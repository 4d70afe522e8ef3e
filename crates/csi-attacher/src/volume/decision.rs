//! What a volume needs, from its record alone. Pure.

use crate::migration;
use crate::records::VolumeRecord;
use crate::settings::Settings;

/// What to do with a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolumeDecision {
    /// Nothing now.
    Nothing,
    /// Take our finalizer off, which is at this place in the list.
    Release(usize),
}

/// Decides what a volume needs. `attached`: an attachment names it, whatever its state.
pub(crate) fn decide(settings: &Settings, volume: &VolumeRecord, attached: bool) -> VolumeDecision {
    match volume.finalizer_index(settings) {
        Some(index) if may_need_release(settings, volume) && !attached => VolumeDecision::Release(index),
        _ => VolumeDecision::Nothing,
    }
}

/// Whether our finalizer must go once nothing is attached: the volume is deleted, or its plugin attaches it again.
pub(crate) fn may_need_release(settings: &Settings, volume: &VolumeRecord) -> bool {
    volume.finalizer_index(settings).is_some() && (volume.shape.standing.deleting || migration::is_rolled_back(volume))
}
