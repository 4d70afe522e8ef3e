//! One watch of a collection, which any number of caches share.
//!
//! `kube_runtime::watcher` lists and watches. Here each object is handed to the caches, and it is decided when the watcher
//! begins anew, with a list: when a cache has joined, when some object of a list could not be identified, and when the
//! position of the watch may be wrong (`trouble.rs`).

use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use kube_runtime::watcher::{self, Event, watcher};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::collection::Collection;
use super::guard::Guard;
use super::intake::Sink;
use super::raw::Raw;
use super::trouble::Trouble;
use crate::continuity::Continuity;
use crate::jitter::random;
use crate::kube_client::ApiServer;
use crate::tasks::Tasks;

/// Objects per page of a list. The memory that a list takes while it is read follows this.
const PAGE: u32 = 100;
/// The server is asked to end each watch after two and a half to five minutes: then it is asked for its version, and
/// watches spread over its replicas. A watch that outlives this by 5 s is taken for dead.
const SHORTEST_WATCH: Duration = Duration::from_secs(150);
/// Between two lists while some object cannot be identified, at first and at most.
const FIRST_REPEAT: Duration = Duration::from_secs(1);
const LAST_REPEAT: Duration = Duration::from_mins(5);
/// How often it is looked whether a trouble is over.
const LOOK: Duration = Duration::from_secs(5);

/// Held by each cache of the collection; the last one ends the watch.
pub(super) struct SharedWatch {
    shared: Arc<Shared>,
    _running: DropGuard,
}

/// What the caches and the task of the watch share.
struct Shared {
    collection: Collection,
    caches: Mutex<Vec<Joined>>,
    /// Number of the list that the cache that joined last waits for.
    wanted: watch::Sender<u64>,
    /// The number of the last complete list.
    complete: watch::Sender<u64>,
}

#[derive(Clone)]
struct Joined {
    sink: Weak<dyn Sink>,
    /// Number of the first list begun after the cache joined.
    list: u64,
}

impl SharedWatch {
    /// A watch that begins when the first cache has joined; its task belongs to `tasks`.
    pub(super) fn start(collection: Collection, server: &ApiServer, continuity: &Continuity, tasks: &Tasks) -> Self {
        let shared = Arc::new(Shared {
            collection,
            caches: Mutex::default(),
            wanted: watch::Sender::new(0),
            complete: watch::Sender::new(0),
        });
        let guard = Guard::new(continuity.clone());
        let client = guard.before(server).client();
        let keeper = Keeper {
            wanted: shared.wanted.subscribe(),
            shared: Arc::clone(&shared),
            guard,
            trouble: Trouble::default(),
            repeat: FIRST_REPEAT,
        };
        let ended = CancellationToken::new();
        let until = ended.clone();
        tasks.spawn(format!("watch of {}", shared.collection), async move {
            // Boxed: they are the largest futures of an idle process.
            if keeper.shared.collection.is_metadata_only() {
                until.run_until_cancelled(Box::pin(keeper.run::<true>(client))).await;
            } else {
                until.run_until_cancelled(Box::pin(keeper.run::<false>(client))).await;
            }
        });
        Self { shared, _running: ended.drop_guard() }
    }

    /// Adds a cache and has the collection listed again; the other caches keep their records meanwhile. Returns the number
    /// of that list.
    pub(super) fn join(&self, sink: Weak<dyn Sink>) -> u64 {
        let mut caches = self.shared.caches.lock();
        let list = *self.shared.wanted.borrow() + 1;
        caches.retain(|other| other.sink.strong_count() > 0);
        caches.push(Joined { sink, list });
        self.shared.wanted.send_replace(list);
        list
    }

    /// The number of the last complete list.
    pub(super) fn complete(&self) -> watch::Receiver<u64> {
        self.shared.complete.subscribe()
    }

    pub(super) fn collection(&self) -> &Collection {
        &self.shared.collection
    }
}

/// The task of a watch.
struct Keeper {
    shared: Arc<Shared>,
    guard: Arc<Guard>,
    wanted: watch::Receiver<u64>,
    trouble: Trouble,
    /// How soon the next list with an object that cannot be identified is repeated.
    repeat: Duration,
}

/// One list and the watch after it.
struct Round {
    list: u64,
    /// Those that had joined before the list began.
    caches: Vec<Joined>,
    /// When the next one begins, whatever happens.
    ends: Option<Instant>,
}

impl Round {
    fn each(&self, act: impl Fn(&dyn Sink)) {
        self.caches.iter().filter_map(|joined| joined.sink.upgrade()).for_each(|sink| act(&*sink));
    }

    /// Whether `act` is true of all caches; it acts on each.
    fn all(&self, act: impl Fn(&dyn Sink) -> bool) -> bool {
        let sinks = self.caches.iter().filter_map(|joined| joined.sink.upgrade());
        sinks.fold(true, |all, sink| act(&*sink) & all)
    }
}

impl Keeper {
    /// Keeps the caches current until the future is dropped. It never ends by itself: every failure is retried, with
    /// backoff, and told once at WARN.
    async fn run<const METADATA_ONLY: bool>(mut self, client: kube::Client) {
        let api = self.shared.collection.api::<METADATA_ONLY>(client);
        loop {
            let list = *self.wanted.borrow_and_update();
            let caches = self.shared.caches.lock().iter().filter(|joined| joined.list <= list).cloned().collect();
            let events = pin!(watcher(api.clone(), self.config()));
            self.follow(events, Round { list, caches, ends: None }).await;
        }
    }

    fn config(&self) -> watcher::Config {
        let length = SHORTEST_WATCH.mul_f64(1.0 + random()).as_secs();
        let config = watcher::Config::default().page_size(PAGE).timeout(u32::try_from(length).unwrap_or(300));
        match self.shared.collection.labels() {
            Some(labels) => config.labels(labels),
            None => config,
        }
    }

    /// Returns when the collection is to be listed again.
    async fn follow<const METADATA_ONLY: bool>(
        &mut self,
        mut events: Pin<&mut impl Stream<Item = watcher::Result<Event<Raw<METADATA_ONLY>>>>>,
        mut round: Round,
    ) {
        loop {
            let ends = round.ends;
            let event = tokio::select! {
                biased;
                Ok(()) = self.wanted.changed() => return,
                Some(event) = events.next() => event,
                () = sleep_until(ends.unwrap_or_else(Instant::now)), if ends.is_some() => return,
                () = sleep(LOOK), if self.trouble.lasts() => {
                    if self.guard.has_working_watch() {
                        self.trouble.recovered(&self.shared.collection);
                    }
                    continue;
                }
            };
            match event {
                Ok(event) => self.take(event, &mut round),
                Err(error) => {
                    let pause = self.trouble.meets(&self.shared.collection, &error);
                    tokio::select! {
                        () = sleep(pause) => {}
                        Ok(()) = self.wanted.changed() => return,
                    }
                    if !self.trouble.keeps_position(&error) {
                        return;
                    }
                }
            }
            consume_budget().await;
        }
    }

    fn take<const METADATA_ONLY: bool>(&mut self, event: Event<Raw<METADATA_ONLY>>, round: &mut Round) {
        let identified = match event {
            Event::Init => {
                round.each(|sink| sink.begin_list());
                return;
            }
            Event::InitApply(object) => {
                round.each(|sink| sink.list(object.json()));
                return;
            }
            Event::InitDone => {
                let identified = round.all(|sink| sink.end_list());
                self.shared.complete.send_replace(round.list);
                if identified {
                    self.repeat = FIRST_REPEAT;
                }
                identified
            }
            Event::Apply(object) => {
                self.trouble.recovered(&self.shared.collection);
                round.each(|sink| sink.apply(object.json()));
                return;
            }
            Event::Delete(object) => {
                self.trouble.recovered(&self.shared.collection);
                round.all(|sink| sink.delete(object.json()))
            }
        };
        if !identified {
            round.ends = Some(Instant::now() + self.repeat);
            tracing::warn!(
                "cannot identify a malformed object among the {}; deletions may be missed until they are listed again in {:?}",
                self.shared.collection,
                self.repeat
            );
            self.repeat = (self.repeat * 2).min(LAST_REPEAT);
        }
    }
}
