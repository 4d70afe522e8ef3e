//! A cache of one kind of object, kept current by a watch.
//!
//! The flow: the task reads pages or watch lines (`source.rs`), drops what cannot concern the projection (`mention.rs`), decodes them object by object (`decode.rs`, `intake.rs`),
//! lets the [`Projection`] make a record of each (`projection.rs`), puts it into the store (`store.rs`) and tells the
//! subscribers (`cache.rs`). Wire objects are dropped at once. `watch.rs` runs it all and recovers from failures.
//!
//! What it promises: every change is delivered, in order per key, except that changes in quick succession or during an
//! outage may show as one; an object that vanished while nothing was watched is delivered as deleted by the next list.
//! What it does not promise: that a record is current. Only [`Informer::caught_up`] gives a lower bound.

mod cache;
mod complaint;
mod decode;
mod failure;
mod intake;
mod malformed;
mod managed_fields;
mod mention;
mod pause;
mod projection;
mod source;
mod store;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use tokio::sync::watch::{Receiver, Sender};
use tokio::time::timeout;

use self::cache::Cache;
pub use self::cache::Change;
use self::complaint::Complaint;
use self::failure::Failure;
pub use self::mention::Mention;
use self::pause::Pause;
pub use self::projection::Projection;
use self::source::Source;
use self::store::Store;
pub use self::watch::InformerTask;
use self::watch::Progress;
use crate::jitter::random;

/// How long the barrier waits for a version before it asks the server for a newer one.
const BARRIER_PATIENCE: Duration = Duration::from_mins(1);

/// How long the barrier's first question may take, twice as long each time. The client may offer it connections that have
/// been dead since before the term, and finds that out by silence alone.
const FIRST_LIMIT: Duration = Duration::from_secs(2);

/// Why an informer cannot do what was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The task that keeps it current is gone.
    #[error("the cache of {resource} is no longer kept current because its task has ended; the process is stopping")]
    Stopped {
        /// Such as `persistentvolumes`.
        resource: String,
    },
}

/// A handle on the cache; clones share it.
pub struct Informer<P: Projection> {
    shared: Arc<Shared<P>>,
}

struct Shared<P: Projection> {
    cache: Arc<Cache<P>>,
    source: Source,
    progress: Receiver<Progress>,
    /// The highest version anybody waits for.
    wanted: Sender<u64>,
}

impl<P: Projection> Clone for Informer<P> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<P: Projection> fmt::Debug for Informer<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("resource", &self.shared.source.to_string())
            .field("progress", &*self.shared.progress.borrow())
            .finish_non_exhaustive()
    }
}

impl<P: Projection> Informer<P> {
    /// An empty cache of the collection behind `api`, and the task that fills it and keeps it current. With `resync`, every
    /// record is delivered again each time this period is over (`None` and zero: never).
    pub fn new(api: Api<P::Wire>, projection: P, resync: Option<Duration>) -> (Self, InformerTask<P>) {
        Self::of(Source::new(api), projection, resync)
    }

    /// The same for those objects of a collection that have certain labels. `path` is the collection's, such as
    /// `/apis/storage.k8s.io/v1/namespaces/storage/csistoragecapacities`; `labels` is a selector (`key=value,…`). An object
    /// that loses a label is delivered as deleted.
    pub fn labelled(
        client: &kube::Client,
        path: &str,
        labels: &str,
        projection: P,
        resync: Option<Duration>,
    ) -> (Self, InformerTask<P>) {
        Self::of(Source::labelled::<P::Wire>(client, path, labels), projection, resync)
    }

    fn of(source: Source, projection: P, resync: Option<Duration>) -> (Self, InformerTask<P>) {
        let cache = Arc::new(Cache::new(projection));
        let (progress, seen) = tokio::sync::watch::channel(Progress::default());
        let (wanted, asked) = tokio::sync::watch::channel(0);
        let task = InformerTask::new(cache.clone(), source.clone(), progress, asked, resync);
        let shared = Arc::new(Shared { cache, source, progress: seen, wanted });
        (Self { shared }, task)
    }

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

    /// Waits until the first list is complete and delivered; without limit, for ever if the task is gone.
    pub async fn synced(&self) {
        let mut progress = self.shared.progress.clone();
        if progress.wait_for(|progress| progress.synced).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether the first list is complete and delivered.
    pub fn is_synced(&self) -> bool {
        self.shared.progress.borrow().synced
    }

    /// Waits until everything that had happened when this was called is in the cache and delivered.
    ///
    /// Before the task has run, it waits for the first list, which then begins after this call. Later it asks the server
    /// for the collection's resourceVersion and waits for that. Because a quiet collection gets a bookmark only each
    /// minute, a cache that is behind is listed again in place. Waits without limit while the server cannot be reached;
    /// fails only when the informer's task is gone.
    pub async fn caught_up(&self) -> Result<(), Error> {
        let mut first = self.shared.progress.clone();
        if !first.borrow().begun {
            return first.wait_for(|progress| progress.synced).await.map(drop).map_err(|_| self.stopped());
        }
        let mut patient = true;
        loop {
            let target = self.live_version().await?;
            let mut progress = self.shared.progress.clone();
            progress.wait_for(|progress| progress.synced).await.map_err(|_| self.stopped())?;
            if progress.borrow().version < target {
                self.shared.wanted.send_if_modified(|wanted| {
                    // After a wait in vain the target may be one that was taken back, by a restore for example.
                    let change = if patient { *wanted < target } else { *wanted != target };
                    if change {
                        *wanted = target;
                    }
                    change
                });
            }
            let reached = progress.wait_for(|progress| progress.version >= target);
            match timeout(BARRIER_PATIENCE, reached).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(_)) => return Err(self.stopped()),
                Err(_) => patient = false,
            }
        }
    }

    /// Calls `handler` with every record as a new one, then with every change, until the subscription is dropped.
    ///
    /// The handler is called within the informer's task: it must return at once, such as by adding the key to a queue, and
    /// must not subscribe to the same informer. It may read the informer, which has the change already.
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

    /// [`subscribe`](Self::subscribe) for what lives shorter than the informer, such as a leader term: the handler does not keep
    /// `owner` alive, and does nothing once it is gone.
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

    async fn live_version(&self) -> Result<u64, Error> {
        let source = &self.shared.source;
        let mut pause = Pause::new();
        let mut complaint = Complaint::default();
        let mut limit = FIRST_LIMIT;
        loop {
            let answer = timeout(limit, source.live_version()).await;
            let answer = answer.unwrap_or(Err(Failure::NoAnswer(limit)));
            limit = (limit * 2).min(BARRIER_PATIENCE);
            match answer {
                Ok(version) => return Ok(version),
                Err(failure) => {
                    let text = format!(
                        "cannot list {source}: {failure}; no work is done before its current version is known, trying again"
                    );
                    if complaint.is_new(&text) {
                        tracing::warn!("{text}");
                    }
                }
            }
            tokio::time::sleep(pause.next(random())).await;
            if self.shared.progress.has_changed().is_err() {
                return Err(self.stopped());
            }
        }
    }

    fn stopped(&self) -> Error {
        Error::Stopped { resource: self.shared.source.to_string() }
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
