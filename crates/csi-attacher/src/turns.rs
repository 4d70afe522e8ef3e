//! Whose turn it is: what must not run twice at a time for one key.

use std::hash::Hash;
use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

type Locks<K> = Mutex<HashMap<K, Arc<tokio::sync::Mutex<()>>>>;

/// Holds only keys whose turn somebody has, or waits for.
pub(crate) struct Turns<K> {
    locks: Arc<Locks<K>>,
}

impl<K> Default for Turns<K> {
    fn default() -> Self {
        Self { locks: Arc::default() }
    }
}

impl<K: Clone + Eq + Hash> Turns<K> {
    /// Waits until nobody else of this term has the turn of the key; first come, first served.
    pub(crate) async fn take(&self, key: &K) -> Turn<K> {
        let lock = Arc::clone(self.locks.lock().entry(key.clone()).or_default());
        Turn { held: Some(lock.lock_owned().await), key: key.clone(), locks: Arc::clone(&self.locks) }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.locks.lock().len()
    }
}

/// The turn of one key; ends when it is dropped.
pub(crate) struct Turn<K: Eq + Hash> {
    held: Option<OwnedMutexGuard<()>>,
    key: K,
    locks: Arc<Locks<K>>,
}

impl<K: Eq + Hash> Drop for Turn<K> {
    fn drop(&mut self) {
        self.held = None;
        let mut locks = self.locks.lock();
        // Nobody else waits: the table's own reference is the last.
        if locks.get(&self.key).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.key);
        }
    }
}
