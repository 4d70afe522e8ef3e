//! What this term has written and the cache does not show yet, by item.
//!
//! Without it the next look would create a second object, and every own write would be looked at again when its event
//! comes. Empty while nothing is being written.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use storage_kube::names::CapacityName;
use tokio::time::Instant;

use super::item::Item;
use crate::records::CapacityRecord;

/// After this time the API server is asked whether an object that the cache does not show is there: it may have been
/// deleted in a moment in which nothing was watched.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug)]
enum Own {
    /// No answer yet. Events of the item wait for it.
    Sent,
    /// The API server's answer, later than anything the cache has of this object.
    Answered { object: Arc<CapacityRecord>, asked: Instant },
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites(Mutex<HashMap<Item, Own>>);

impl OwnWrites {
    /// A write is sent.
    pub(crate) fn sent(&self, item: &Item) {
        self.0.lock().insert(item.clone(), Own::Sent);
    }

    /// It has no answer, or was refused, or the object is not ours any more.
    pub(crate) fn forget(&self, item: &Item) {
        let mut writes = self.0.lock();
        writes.remove(item);
        if writes.is_empty() {
            // The table that a round of writes grew is given back.
            *writes = HashMap::new();
        }
    }

    /// The API server has answered. `cached`: the objects of the item in the cache; `updated`: one of them was changed.
    /// Says whether they show something else that has happened.
    pub(crate) fn answered(
        &self,
        item: &Item,
        object: CapacityRecord,
        cached: &[Arc<CapacityRecord>],
        updated: bool,
    ) -> bool {
        let same = cached.iter().find(|one| one.name == object.name);
        let others = cached.iter().any(|one| one.name != object.name);
        match same {
            Some(same) if same.version >= object.version => {
                let changed_again = same.version > object.version;
                self.forget(item);
                others || changed_again
            }
            // It was there and is gone again.
            None if updated => {
                self.forget(item);
                true
            }
            Some(_) | None => {
                self.remember(item, Arc::new(object));
                others
            }
        }
    }

    /// The API server has this object; the cache does not show it, or not so yet.
    pub(crate) fn remember(&self, item: &Item, object: Arc<CapacityRecord>) {
        self.0.lock().insert(item.clone(), Own::Answered { object, asked: Instant::now() });
    }

    /// Whether a change in the cache is news, that is, more than the echo of an own write.
    pub(crate) fn is_news(&self, item: &Item, name: &CapacityName, new: Option<&CapacityRecord>) -> bool {
        let writes = self.0.lock();
        let object = match writes.get(item) {
            None => return true,
            Some(Own::Sent) => return false,
            Some(Own::Answered { object, .. }) => object,
        };
        if object.name != *name {
            return true;
        }
        let (seen, news) = match new {
            None => (true, true),
            Some(new) => (new.version >= object.version, new.version > object.version),
        };
        drop(writes);
        if seen {
            self.forget(item);
        }
        news
    }

    /// `cached` with what is known beyond it.
    pub(crate) fn newest(&self, item: &Item, mut cached: Vec<Arc<CapacityRecord>>) -> Vec<Arc<CapacityRecord>> {
        if let Some(Own::Answered { object, .. }) = self.0.lock().get(item) {
            cached.retain(|one| one.name != object.name);
            cached.push(Arc::clone(object));
        }
        cached
    }

    /// An object that the cache should have shown long since.
    pub(crate) fn overdue(&self, item: &Item) -> Option<Arc<CapacityRecord>> {
        match self.0.lock().get(item) {
            Some(Own::Answered { object, asked }) if asked.elapsed() >= PATIENCE => Some(Arc::clone(object)),
            Some(Own::Answered { .. } | Own::Sent) | None => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}
