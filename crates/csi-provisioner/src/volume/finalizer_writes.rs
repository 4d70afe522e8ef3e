//! Our finalizer as the last write left it, until the cache shows that write: others change a new volume many times, and
//! each of their changes starts a look at it.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use storage_kube::uid::Uid;
use tokio::time::Instant;

/// A watch that was interrupted may never show the write, when somebody has undone it meanwhile. Then it is done again.
const TO_BE_SEEN: Duration = Duration::from_mins(1);

/// By the UID of the volume's object.
#[derive(Default)]
pub(crate) struct FinalizerWrites {
    /// Whether the finalizer is on, and since when.
    written: Mutex<HashMap<Uid, (bool, Instant)>>,
}

impl FinalizerWrites {
    /// Before the write, so that the cache cannot show it first.
    pub(crate) fn begin(&self, volume: Uid, on: bool) {
        self.written.lock().insert(volume, (on, Instant::now()));
    }

    /// Whether that was written and the cache does not show it yet.
    pub(crate) fn is_under_way(&self, volume: &Uid, on: bool) -> bool {
        let written = self.written.lock();
        written.get(volume).is_some_and(|(written, since)| *written == on && since.elapsed() < TO_BE_SEEN)
    }

    /// The cache shows the volume so.
    pub(crate) fn seen(&self, volume: &Uid, on: bool) {
        let mut written = self.written.lock();
        if written.get(volume).is_some_and(|(written, _)| *written == on) {
            written.remove(volume);
        }
    }

    /// The volume is gone from the cache, or the write has failed.
    pub(crate) fn forget(&self, volume: &Uid) {
        self.written.lock().remove(volume);
    }
}
