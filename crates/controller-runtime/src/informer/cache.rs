//! The store of an informer together with those who want to hear of its changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::projection::Projection;
use super::store::Store;

/// One change of one record, as subscribers see it.
pub struct Change<'a, P: Projection> {
    /// Whose record.
    pub key: &'a P::Key,
    /// The record before; `None` when it is new.
    pub old: Option<&'a Arc<P::Record>>,
    /// The record from here on; `None` when the object was deleted or is no longer kept.
    pub new: Option<&'a Arc<P::Record>>,
}

impl<P: Projection> Change<'_, P> {
    /// Whether nothing has changed and the record is only delivered again by the resync.
    pub fn is_resync(&self) -> bool {
        matches!((self.old, self.new), (Some(old), Some(new)) if Arc::ptr_eq(old, new))
    }
}

// Derives would ask for `P: Copy`.
impl<P: Projection> Clone for Change<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Projection> Copy for Change<'_, P> {}

type Handler<P> = Arc<dyn Fn(Change<'_, P>) + Send + Sync>;
type Handlers<P> = Arc<Vec<(u64, Handler<P>)>>;

pub(super) struct Cache<P: Projection> {
    projection: P,
    store: Mutex<Store<P>>,
    handlers: Mutex<Handlers<P>>,
    handlers_made: AtomicU64,
    /// Held over each change and its delivery, and over a new subscription and its replay, so that every subscriber sees
    /// the changes of a key in their order and none twice. Never taken by readers.
    delivery: Mutex<()>,
}

impl<P: Projection> Cache<P> {
    pub(super) fn new(projection: P) -> Self {
        Self {
            projection,
            store: Mutex::new(Store::default()),
            handlers: Mutex::new(Arc::new(Vec::new())),
            handlers_made: AtomicU64::new(0),
            delivery: Mutex::new(()),
        }
    }

    /// Runs `read` on the store, which it must not keep.
    pub(super) fn read<T>(&self, read: impl FnOnce(&Store<P>) -> T) -> T {
        read(&self.store.lock())
    }

    pub(super) fn in_group(&self, group: &P::Group) -> Vec<P::Key> {
        self.store.lock().in_group(&self.projection, group)
    }

    pub(super) fn may_concern(&self, json: &[u8]) -> bool {
        self.projection.may_concern(json)
    }

    pub(super) fn key(&self, object: &P::Wire) -> Option<P::Key> {
        self.projection.key(object)
    }

    /// Takes in an object as it is at `version` (zero: unknown). With `listed`, one whose version is known already is only
    /// marked.
    pub(super) fn observe(&self, object: P::Wire, version: u64, listed: bool) {
        let Some(key) = self.projection.key(&object) else {
            return;
        };
        if listed && self.store.lock().mark_unchanged(&key, version) {
            return;
        }
        match self.projection.project(object) {
            None => self.remove(&key),
            Some(record) => {
                let delivery = self.delivery.lock();
                let new = Arc::new(record);
                let old = self.store.lock().insert(&self.projection, &key, new.clone(), version);
                self.deliver(Change { key: &key, old: old.as_ref(), new: Some(&new) });
                drop(delivery);
            }
        }
    }

    /// Takes a record out, if there is one.
    pub(super) fn remove(&self, key: &P::Key) {
        let _delivery = self.delivery.lock();
        let old = self.store.lock().remove(&self.projection, key);
        if let Some(old) = &old {
            self.deliver(Change { key, old: Some(old), new: None });
        }
    }

    /// Starts a list.
    pub(super) fn begin_list(&self) {
        self.store.lock().begin_list();
    }

    /// Marks a record as listed without looking at it.
    pub(super) fn mark(&self, key: &P::Key) {
        self.store.lock().mark(key);
    }

    /// Ends a list that was complete: what it has not seen is deleted.
    pub(super) fn sweep(&self) {
        let unmarked = self.store.lock().unmarked();
        for key in &unmarked {
            self.remove(key);
        }
    }

    /// Delivers a record again, as a change that changes nothing.
    pub(super) fn redeliver(&self, key: &P::Key) {
        let _delivery = self.delivery.lock();
        if let Some(record) = self.read(|store| store.get(key)) {
            self.deliver(Change { key, old: Some(&record), new: Some(&record) });
        }
    }

    /// Adds a handler after calling it with every record as a new one. Returns the number to remove it by.
    pub(super) fn subscribe(&self, handler: Handler<P>) -> u64 {
        let _delivery = self.delivery.lock();
        for key in &self.read(Store::keys) {
            if let Some(record) = self.read(|store| store.get(key)) {
                handler(Change { key, old: None, new: Some(&record) });
            }
        }
        let number = self.handlers_made.fetch_add(1, Ordering::Relaxed);
        let mut handlers = self.handlers.lock();
        let mut more = handlers.to_vec();
        more.push((number, handler));
        *handlers = Arc::new(more);
        number
    }

    pub(super) fn unsubscribe(&self, number: u64) {
        let mut handlers = self.handlers.lock();
        let fewer = handlers.iter().filter(|(other, _)| *other != number).cloned().collect();
        *handlers = Arc::new(fewer);
    }

    /// Calls every handler. The store is not locked, so handlers can read it.
    fn deliver(&self, change: Change<'_, P>) {
        let handlers = self.handlers.lock().clone();
        for (_, handler) in handlers.iter() {
            handler(change);
        }
    }
}
