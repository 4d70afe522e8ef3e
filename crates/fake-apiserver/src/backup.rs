//! The store put back to an earlier state, as when a backup of etcd is restored without raising its revision.

use crate::{FakeApiServer, store::Store, watch::Cut};

/// What the server held at one moment.
#[derive(Clone, Debug)]
pub struct Backup(Store);

impl FakeApiServer {
    /// Objects, resourceVersion and history of this moment. Nobody notices.
    pub fn backup(&self) -> Backup {
        Backup(self.shared.state.lock().store.clone())
    }

    /// Puts a backup of this server back. The connections of all open watches break, as when the API server starts anew.
    /// The next resourceVersions have been given out before, and a watch from one of them is silent until it has passed.
    /// A watch from before the backup gets 410.
    pub fn restore(&self, backup: &Backup) {
        let mut state = self.shared.state.lock();
        state.store.set_back_to(&backup.0);
        state.cuts.push(Cut::SetBack);
        drop(state);
        self.shared.wake();
    }
}
