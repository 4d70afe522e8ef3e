//! One watch of a collection, which any number of caches share.
//!
//! `kube_runtime::watcher` lists and watches. Here each object is handed to the caches, failures are told, and it is
//! decided when the watcher begins anew: when a cache has joined, when a list could not be compared with the caches, and
//! when the position of the watch may be wrong.

use std::error::Error as _;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::core::Status;
use kube_runtime::utils::Backoff as _;
use kube_runtime::watcher::{self, DefaultBackoff, Event, watcher};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::collection::Collection;
use super::complaint::Complaint;
use super::guard::{Guard, IsSetBack};
use super::intake::Sink;
use crate::continuity::Continuity;
use crate::jitter::random;
use crate::kube_client::ApiServer;
use crate::tasks::Tasks;

/// Objects per page of a list. The memory that a list takes while it is read follows this.
const PAGE: u32 = 500;
/// The server is asked to end each watch after two and a half to five minutes: then it is asked for its version, and watches spread over
/// its replicas. A watch that outlives this by 5 s is taken for dead.
const SHORTEST_WATCH: Duration = Duration::from_secs(150);
/// Between two lists of which some object cannot be identified, at first and at most.
const FIRST_REPEAT: Duration = Duration::from_secs(1);
const LAST_REPEAT: Duration = Duration::from_mins(5);
/// How often it is looked whether a trouble is over.
const LOOK: Duration = Duration::from_secs(5);

/// Held by each cache of the collection; the last one ends the watch.
pub(super) struct SharedWatch {
    shared: Arc<Shared>,
    _running: DropGuard,
}

struct Shared {
    collection: Collection,
    sinks: Mutex<Vec<Joined>>,
    /// The number of the list that the last one to join needs.
    wanted: watch::Sender<u64>,
    /// The number of the last complete list.
    complete: watch::Sender<u64>,
}

#[derive(Clone)]
struct Joined {
    sink: Weak<dyn Sink>,
    /// The first list that began after it joined.
    list: u64,
}

impl SharedWatch {
    /// A watch that begins when the first cache has joined; its task belongs to `tasks`.
    pub(super) fn start(collection: Collection, server: &ApiServer, continuity: &Continuity, tasks: &Tasks) -> Self {
        let shared = Arc::new(Shared {
            collection,
            sinks: Mutex::default(),
            wanted: watch::Sender::new(0),
            complete: watch::Sender::new(0),
        });
        let ended = CancellationToken::new();
        let guard = Guard::new(continuity.clone());
        let client = guard.before(server).client();
        let (watched, until) = (Arc::clone(&shared), ended.clone());
        tasks.spawn(format!("watch of {}", shared.collection), async move {
            let metadata_only = watched.collection.is_metadata_only();
            let keep = async {
                // Boxed: these are the largest futures of an idle process.
                if metadata_only {
                    Box::pin(watched.keep::<true>(client, &guard)).await;
                } else {
                    Box::pin(watched.keep::<false>(client, &guard)).await;
                }
            };
            until.run_until_cancelled(keep).await;
        });
        Self { shared, _running: ended.drop_guard() }
    }

    /// Adds a cache; the collection is listed again for it, in place for those that have joined before. Returns the number
    /// of that list.
    pub(super) fn join(&self, sink: Weak<dyn Sink>) -> u64 {
        let mut sinks = self.shared.sinks.lock();
        let list = *self.shared.wanted.borrow() + 1;
        sinks.retain(|other| other.sink.strong_count() > 0);
        sinks.push(Joined { sink, list });
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

impl Shared {
    /// Keeps the caches current until the future is dropped. It never ends by itself: every failure is retried, with
    /// backoff, and told once at WARN.
    async fn keep<const METADATA_ONLY: bool>(&self, client: kube::Client, guard: &Guard) {
        let api = self.collection.api::<METADATA_ONLY>(client);
        let mut wanted = self.wanted.subscribe();
        let mut trouble = Trouble::default();
        let mut repeat = FIRST_REPEAT;
        loop {
            let list = *wanted.borrow_and_update();
            let sinks: Vec<Joined> = self.sinks.lock().iter().filter(|joined| joined.list <= list).cloned().collect();
            let each = |act: &dyn Fn(&dyn Sink)| {
                sinks.iter().filter_map(|joined| joined.sink.upgrade()).for_each(|sink| act(&*sink));
            };
            let mut events = std::pin::pin!(watcher(api.clone(), self.config()));
            let mut list_again = None;
            loop {
                let event = tokio::select! {
                    biased;
                    Ok(()) = wanted.changed() => break,
                    Some(event) = events.next() => event,
                    () = sleep_until(list_again.unwrap_or_else(Instant::now)), if list_again.is_some() => break,
                    () = sleep(LOOK), if trouble.lasts() => {
                        if guard.has_working_watch() {
                            trouble.is_over(&self.collection);
                        }
                        continue;
                    }
                };
                match event {
                    Ok(Event::Init) => each(&|sink| sink.begin_list()),
                    Ok(Event::InitApply(object)) => each(&|sink| sink.list(object.json())),
                    Ok(Event::InitDone) => {
                        let identified =
                            sinks.iter().filter_map(|joined| joined.sink.upgrade()).map(|sink| sink.end_list());
                        if identified.fold(true, |all, one| all & one) {
                            repeat = FIRST_REPEAT;
                        } else {
                            list_again = Some(self.list_again_after(&mut repeat));
                        }
                        self.complete.send_replace(list);
                    }
                    Ok(Event::Apply(object)) => {
                        trouble.is_over(&self.collection);
                        each(&|sink| sink.apply(object.json()));
                    }
                    Ok(Event::Delete(object)) => {
                        trouble.is_over(&self.collection);
                        let mut found = sinks.iter().filter_map(|joined| joined.sink.upgrade());
                        if !found.all(|sink| sink.delete(object.json())) {
                            list_again = Some(self.list_again_after(&mut repeat));
                        }
                    }
                    Err(error) => {
                        let pause = trouble.meets(&self.collection, &error);
                        let resumes = resumes_after(&error);
                        tokio::select! {
                            () = sleep(pause) => {}
                            Ok(()) = wanted.changed() => break,
                        }
                        if !resumes {
                            break;
                        }
                    }
                }
                consume_budget().await;
            }
        }
    }

    fn config(&self) -> watcher::Config {
        let length = SHORTEST_WATCH.mul_f64(1.0 + random());
        let config = watcher::Config::default().page_size(PAGE).timeout(u32::try_from(length.as_secs()).unwrap_or(300));
        match self.collection.labels() {
            Some(labels) => config.labels(labels),
            None => config,
        }
    }

    /// Deletions that only the present list would have shown cannot be told from the object that is not identified.
    fn list_again_after(&self, repeat: &mut Duration) -> Instant {
        let pause = *repeat;
        *repeat = (pause * 2).min(LAST_REPEAT);
        tracing::warn!(
            "an object among the {} is malformed and cannot be identified; deletions that only this list would have shown \
             are not acted on, it is listed again in {pause:?}",
            self.collection
        );
        Instant::now() + pause
    }
}

/// Whether the position of the watch is still good after a failure. Else the watcher begins anew, with a list: what cannot
/// be read now may be what came after the position, and going on from it could end here for ever.
fn resumes_after(error: &watcher::Error) -> bool {
    let passes = |status: &Status| {
        let lost = status.code == 410
            || matches!(status.reason.as_str(), "Expired" | "Gone")
            || status.message.contains("Too large resource version");
        !lost && matches!(status.code, 401 | 403 | 408 | 429 | 500..)
    };
    match error {
        watcher::Error::InitialListFailed(_) | watcher::Error::NoResourceVersion => true, // it lists again by itself
        watcher::Error::WatchError(status) => passes(status),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => match error {
            kube::Error::Api(status) => passes(status),
            kube::Error::SerdeError(_) => false,
            other => !is_set_back(other),
        },
    }
}

fn is_set_back(error: &kube::Error) -> bool {
    let mut cause = error.source();
    while let Some(present) = cause {
        if present.is::<IsSetBack>() {
            return true;
        }
        cause = present.source();
    }
    false
}

/// A failure that may last, and the pauses between attempts.
#[derive(Default)]
struct Trouble {
    complaint: Complaint,
    backoff: DefaultBackoff,
}

impl Trouble {
    fn lasts(&self) -> bool {
        self.complaint.lasts()
    }

    /// The watch yields something, or has been open for a while. A list alone is no reason to believe that all is well: it
    /// would be made again and again, without pause, if each watch after it failed.
    fn is_over(&mut self, collection: &Collection) {
        if self.complaint.is_over() {
            tracing::info!("{collection} can be watched again");
            self.backoff.reset();
        }
    }

    /// Tells the failure, if it is a new one, and says how long to wait.
    fn meets(&mut self, collection: &Collection, error: &watcher::Error) -> Duration {
        let text = describe(collection, error);
        if self.complaint.is_new(&text) {
            tracing::warn!("{text}");
        } else {
            tracing::debug!("{text}");
        }
        self.backoff.next().unwrap_or(LOOK)
    }
}

fn describe(collection: &Collection, error: &watcher::Error) -> String {
    let (verb, cause) = match error {
        watcher::Error::InitialListFailed(cause) => ("list", Ok(cause)),
        watcher::Error::WatchStartFailed(cause) | watcher::Error::WatchFailed(cause) => ("watch", Ok(cause)),
        watcher::Error::WatchError(status) => ("watch", Err(&**status)),
        watcher::Error::NoResourceVersion => {
            return format!("cannot watch {collection}: {error}; trying again with backoff");
        }
    };
    let refusal = match cause {
        Ok(kube::Error::Api(status)) => Some(&**status),
        Ok(_) => None,
        Err(status) => Some(status),
    };
    let cure = match refusal {
        Some(status) if status.code == 403 => {
            format!("the ServiceAccount of this process needs the verbs list and watch on {collection}")
        }
        _ => "trying again with backoff; what was known before is kept".to_owned(),
    };
    match (refusal, cause) {
        (Some(Status { code, reason, message, .. }), _) => {
            format!("cannot {verb} {collection}: the API server answers {code} {reason}: {message}; {cure}")
        }
        (None, Ok(cause)) => format!("cannot {verb} {collection}: {cause}; {cure}"),
        (None, Err(_)) => unreachable!("a status is a refusal"),
    }
}
