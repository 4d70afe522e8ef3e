//! The writes to one claim and its volume: one after the other, although the steps of the claim run side by side.
//!
//! Whoever writes has the turn until the API server has answered, and writes what the answer before has left: the steps of one
//! claim never meet each other's writes as conflicts.

use tokio::sync::{Mutex, MutexGuard};

use crate::volume::Volume;

/// Of one run over a claim.
pub(crate) struct Writes(Mutex<Volume>);

impl Writes {
    /// To a claim with this volume.
    pub(crate) fn new(volume: Volume) -> Self {
        Self(Mutex::new(volume))
    }

    /// Waits for the turn to write; gives the volume as it is by then.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, Volume> {
        self.0.lock().await
    }

    /// The volume as the last write has left it.
    pub(crate) async fn volume(&self) -> Volume {
        self.turn().await.clone()
    }
}
