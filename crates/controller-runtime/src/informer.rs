//! Caches of the objects that a term works on, kept current by watches.
//!
//! The flow: a term makes an [`Informer`] of the process's [`Informers`] → the collection's one watch lists again
//! (`shared_watch.rs`, on `kube_runtime::watcher`, behind `guard.rs`) and hands on each object as JSON (`raw.rs`) → in a
//! first list an object that cannot concern the projection is dropped (`mention.rs`), all others are decoded one by one
//! (`decode.rs`, `intake.rs`) → the [`Projection`] makes a record of each (`projection.rs`), which goes into the store (`store.rs`) → the
//! subscribers are told (`cache.rs`). Wire objects are dropped at once. With the term its informers go, and with the
//! last informer of a collection the watch: a standby has no caches and watches nothing but its Lease.
//!
//! What it promises: [`Informer::synced`] returns after a list that began after the informer was made. Every change is
//! delivered, in order per key, except that changes in quick succession or during an outage may show as one; an object
//! that vanished while nothing was watched is delivered as deleted by the next list.
//! What it does not promise: that a record is current.

mod cache;
mod collection;
mod decode;
mod guard;
mod intake;
mod malformed;
mod managed_fields;
mod mention;
mod projection;
mod raw;
mod shared_watch;
mod store;
mod trouble;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::coop::consume_budget;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::cache::Cache;
pub use self::cache::Change;
pub use self::collection::Collection;
use self::intake::{Intake, Sink};
pub use self::mention::Mention;
pub use self::projection::Projection;
use self::shared_watch::SharedWatch;
use self::store::Store;
use crate::continuity::Continuity;
use crate::kube_client::ApiServer;
use crate::tasks::Tasks;

/// The watches of one process: one for each collection that some term needs. Clones share them.
#[derive(Clone)]
pub struct Informers {
    server: ApiServer,
    continuity: Continuity,
    /// Weak: tasks hold informers.
    tasks: Weak<Tasks>,
    watches: Arc<Mutex<HashMap<Collection, Weak<SharedWatch>>>>,
}

impl Informers {
    /// Watches of `server`, as tasks of `tasks`. What is noticed of the server is told to `continuity`.
    pub fn new(server: ApiServer, continuity: Continuity, tasks: &Arc<Tasks>) -> Self {
        Self { server, continuity, tasks: Arc::downgrade(tasks), watches: Arc::default() }
    }

    /// A cache of all objects of the projection's kind. With `resync`, every record is delivered again each time this
    /// period is over (`None` and zero: never).
    pub fn all<P: Projection>(&self, projection: P, resync: Option<Duration>) -> Informer<P> {
        self.of(Collection::of::<P::Wire>(), projection, resync)
    }

    /// The same for a part of the objects, or for another version of the kind.
    pub fn of<P: Projection>(&self, collection: Collection, projection: P, resync: Option<Duration>) -> Informer<P> {
        let cache = Arc::new(Cache::new(projection));
        let intake: Arc<dyn Sink> = Arc::new(Intake::new(Arc::clone(&cache)));
        let watch = self.watch(collection);
        let list = watch.join(Arc::downgrade(&intake));
        let ended = CancellationToken::new();
        if let (Some(every), Some(tasks)) = (resync.filter(|period| !period.is_zero()), self.tasks.upgrade()) {
            let (until, name) = (ended.clone(), format!("resync of {}", watch.collection()));
            let resync = resync_every(every, Arc::clone(&cache), watch.complete(), list);
            tasks.spawn(name, async move { until.run_until_cancelled(resync).await.unwrap_or_default() });
        }
        Informer { shared: Arc::new(Shared { cache, list, watch, _intake: intake, _resync: ended.drop_guard() }) }
    }

    fn watch(&self, collection: Collection) -> Arc<SharedWatch> {
        let mut watches = self.watches.lock();
        watches.retain(|_, watch| watch.strong_count() > 0);
        if let Some(watch) = watches.get(&collection).and_then(Weak::upgrade) {
            return watch;
        }
        // A process that is ending has no tasks any more: the informer stays empty.
        let tasks = self.tasks.upgrade().unwrap_or_default();
        let watch = Arc::new(SharedWatch::start(collection.clone(), &self.server, &self.continuity, &tasks));
        watches.insert(collection, Arc::downgrade(&watch));
        watch
    }
}

impl fmt::Debug for Informers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informers").finish_non_exhaustive()
    }
}

/// Delivers every record again, each time `every` is over after the first list.
async fn resync_every<P: Projection>(
    every: Duration,
    cache: Arc<Cache<P>>,
    mut complete: tokio::sync::watch::Receiver<u64>,
    list: u64,
) {
    if complete.wait_for(|complete| *complete >= list).await.is_err() {
        return;
    }
    loop {
        sleep(every).await;
        for key in cache.read(Store::keys) {
            cache.redeliver(&key);
            consume_budget().await;
        }
    }
}

/// A handle on a cache; clones share it, and the last one ends it.
pub struct Informer<P: Projection> {
    shared: Arc<Shared<P>>,
}

struct Shared<P: Projection> {
    cache: Arc<Cache<P>>,
    /// The number of the first list that began after the informer was made.
    list: u64,
    watch: Arc<SharedWatch>,
    _intake: Arc<dyn Sink>,
    _resync: DropGuard,
}

impl<P: Projection> Clone for Informer<P> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<P: Projection> fmt::Debug for Informer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("collection", &self.shared.watch.collection().to_string())
            .field("synced", &self.is_synced())
            .finish_non_exhaustive()
    }
}

impl<P: Projection> Informer<P> {
    /// The record of `key`, if it is known.
    pub fn get(&self, key: &P::Key) -> Option<Arc<P::Record>> {
        self.shared.cache.read(|store| store.get(key))
    }

    /// All keys, in no order.
    pub fn keys(&self) -> Vec<P::Key> {
        self.shared.cache.read(Store::keys)
    }

    /// The keys of all records of `group`, in no order.
    pub fn in_group(&self, group: &P::Group) -> Vec<P::Key> {
        self.shared.cache.in_group(group)
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.shared.cache.read(Store::len)
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until a list that began after this informer was made is complete and delivered: everything that had happened
    /// by then is in the cache. Without limit, for ever if the process is ending.
    pub async fn synced(&self) {
        let mut complete = self.shared.watch.complete();
        if complete.wait_for(|complete| *complete >= self.shared.list).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether the first list is complete and delivered.
    pub fn is_synced(&self) -> bool {
        *self.shared.watch.complete().borrow() >= self.shared.list
    }

    /// Calls `handler` with every record as a new one, then with every change, until the subscription is dropped.
    ///
    /// The handler is called within the task of the watch: it must return at once, such as by adding the key to a queue,
    /// and must not subscribe to the same informer. It may read the informer, which has the change already.
    #[must_use = "dropping the subscription ends it"]
    pub fn subscribe(&self, handler: impl Fn(Change<'_, P>) + Send + Sync + 'static) -> Subscription {
        let number = self.shared.cache.subscribe(Arc::new(handler));
        let cache = Arc::downgrade(&self.shared.cache);
        Subscription {
            end: Some(Box::new(move || {
                if let Some(cache) = cache.upgrade() {
                    cache.unsubscribe(number);
                }
            })),
        }
    }

    /// [`subscribe`](Self::subscribe) for what may be gone before the informer: the handler does not keep `owner` alive,
    /// and does nothing once it is gone.
    #[must_use = "dropping the subscription ends it"]
    pub fn subscribe_for<O: Send + Sync + 'static>(
        &self,
        owner: &Arc<O>,
        react: fn(&O, &Change<'_, P>),
    ) -> Subscription {
        let owner = Arc::downgrade(owner);
        self.subscribe(move |change| {
            if let Some(owner) = owner.upgrade() {
                react(&owner, &change);
            }
        })
    }
}

/// A handler's place among those an informer calls. Dropped, the handler is not called again.
pub struct Subscription {
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
