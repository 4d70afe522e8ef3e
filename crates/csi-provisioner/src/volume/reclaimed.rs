//! Volumes that the driver has deleted, until their objects are gone from the cache.

use std::collections::HashMap;

use parking_lot::Mutex;
use storage_kube::uid::Uid;

/// The last step done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// `DeleteVolume` succeeded; it must not be sent again.
    BackendDeleted,
    /// The object is deleted, or waits for its finalizers.
    ObjectDeleted,
    /// Our finalizer is off; nothing is left to do.
    Released,
}

/// How far each volume's reclaim has come, by the UID of its object.
#[derive(Default)]
pub(crate) struct Reclaimed {
    steps: Mutex<HashMap<Uid, Step>>,
}

impl Reclaimed {
    pub(crate) fn step(&self, volume: &Uid) -> Option<Step> {
        self.steps.lock().get(volume).copied()
    }

    pub(crate) fn set(&self, volume: Uid, step: Step) {
        self.steps.lock().insert(volume, step);
    }

    pub(crate) fn forget(&self, volume: &Uid) {
        self.steps.lock().remove(volume);
    }
}
