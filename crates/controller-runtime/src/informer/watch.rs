//! The task behind an informer: list, watch, recover, for ever.
//!
//! 1. Without a position it lists: by a watch that begins with all objects, or in pages where the server refuses that.
//! 2. From a position it watches. Events and bookmarks move the position on.
//! 3. What happens after a failure is decided in `failure.rs`; the store is only ever changed in place.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep, timeout};

use super::cache::Cache;
use super::complaint::Complaint;
use super::decode::{self, Event};
use super::failure::{Doing, Failure, Recovery, recovery};
use super::intake::Intake;
use super::pause::Pause;
use super::projection::Projection;
use super::source::{From, Lines, Source};
use super::store::Store;
use crate::jitter::random;

/// A watch without a line for this long is taken for dead. The server sends a bookmark about each minute.
const SILENCE: Duration = Duration::from_secs(90);
/// The server is asked to end each watch after five to ten minutes, so that watches spread over its replicas.
const SHORTEST_WATCH: Duration = Duration::from_mins(5);
/// A watch that ended sooner than this and without an event does not count as working.
const TOO_SHORT: Duration = Duration::from_secs(5);
/// The longest time a server's Retry-After is honoured for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(1);

/// How far an informer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// The first list is being asked for, or has been.
    pub(super) begun: bool,
    /// At least one list was complete.
    pub(super) synced: bool,
    /// All changes up to this resourceVersion are in the store and have been delivered.
    pub(super) version: u64,
}

/// How lists are made.
#[derive(Debug)]
enum Method {
    /// By a watch that begins with the list.
    WatchList,
    /// In pages, because the watch-list was refused with this. Not yet known whether that helps.
    PagesOnTrial(String),
    /// In pages.
    Pages,
}

/// How a step ended that did not fail.
enum Ended {
    /// A list is complete; the watch comes next.
    Listed,
    /// The server ended the watch, or the connection did.
    Watched { moved: bool, lasted: Duration },
    /// Somebody waits for a version that may be long in coming.
    Behind,
}

/// The task that keeps an informer current. Nothing happens until it is run.
#[must_use = "an informer stays empty unless its task is run"]
pub struct InformerTask<P: Projection> {
    intake: Intake<P>,
    source: Source,
    progress: watch::Sender<Progress>,
    wanted: watch::Receiver<u64>,
    resync: Option<Duration>,
    state: State,
}

struct State {
    method: Method,
    /// Where to watch on from; `None` when a list is needed.
    position: Option<u64>,
    /// Watch-lists in a row that ended before they were complete.
    incomplete: u32,
    /// When the last list was complete.
    listed: Option<Instant>,
    pause: Pause,
    complaint: Complaint,
}

impl<P: Projection> InformerTask<P> {
    pub(super) fn new(
        cache: Arc<Cache<P>>,
        source: Source,
        progress: watch::Sender<Progress>,
        wanted: watch::Receiver<u64>,
        resync: Option<Duration>,
    ) -> Self {
        Self {
            intake: Intake::new(cache),
            source,
            progress,
            wanted,
            resync,
            state: State {
                method: Method::WatchList,
                position: None,
                incomplete: 0,
                listed: None,
                pause: Pause::new(),
                complaint: Complaint::default(),
            },
        }
    }

    /// Keeps the informer current until the future is dropped. It never ends by itself: every failure is retried, with
    /// backoff, and said once at WARN.
    pub async fn run(mut self) {
        let resync = resync(self.intake.cache(), self.progress.subscribe(), self.resync);
        tokio::select! {
            () = self.keep_current() => {}
            () = resync => {}
        }
    }

    async fn keep_current(&mut self) {
        loop {
            let doing = match (self.state.position, &self.state.method) {
                (Some(_), _) => Doing::Watch,
                (None, Method::WatchList) => Doing::WatchList,
                (None, Method::PagesOnTrial(_) | Method::Pages) => Doing::List,
            };
            let delay = match self.step(doing).await {
                Ok(ended) => self.after_end(&ended),
                Err(failure) => {
                    // A watch that began with its list has become one like any other.
                    let listed = doing == Doing::WatchList && self.state.position.is_some();
                    self.after_failure(if listed { Doing::Watch } else { doing }, &failure)
                }
            };
            if !delay.is_zero() {
                sleep(delay).await;
            }
        }
    }

    async fn step(&mut self, doing: Doing) -> Result<Ended, Failure> {
        let length = SHORTEST_WATCH.mul_f64(1.0 + random());
        // Before the request: who has not seen this may count on the list for everything up to here.
        let progress = *self.progress.borrow();
        self.publish(Progress { begun: true, ..progress });
        match (doing, self.state.position) {
            (Doing::List, _) => self.list().await,
            (Doing::Watch, Some(version)) => {
                let lines = self.source.watch(From::Version(version), length).await?;
                self.follow(lines, false).await
            }
            (Doing::WatchList | Doing::Watch, _) => {
                let lines = self.source.watch(From::List, length).await?;
                self.follow(lines, true).await
            }
        }
    }

    /// Lists in pages. The list is of the moment of its first page.
    async fn list(&mut self) -> Result<Ended, Failure> {
        let wanted = self.begin_list();
        let mut first_version = None;
        let mut more: Option<String> = None;
        loop {
            let body = self.source.page(more.as_deref()).await?;
            let page = decode::page(&body)?;
            for raw in page.items {
                self.intake.list(raw.get().as_bytes())?;
                consume_budget().await;
            }
            let version = *first_version.get_or_insert(page.version);
            more = page.more;
            if more.is_none() {
                self.end_list(version, wanted)?;
                return Ok(Ended::Listed);
            }
        }
    }

    /// Follows a watch to its end. With `listing`, it begins with a list.
    async fn follow(&mut self, mut lines: Lines, mut listing: bool) -> Result<Ended, Failure> {
        let opened = Instant::now();
        let mut moved = false;
        let wanted = if listing { self.begin_list() } else { 0 };
        loop {
            if !listing && *self.wanted.borrow_and_update() > self.progress.borrow().version {
                return Ok(Ended::Behind);
            }
            let line = tokio::select! {
                line = timeout(SILENCE, lines.next()) => line.unwrap_or(Err(Failure::Silence(SILENCE))),
                Ok(()) = self.wanted.changed(), if !listing => continue,
            };
            let line = match line {
                Ok(Some(line)) => line,
                Ok(None) if listing => return Err(Failure::Incomplete),
                Err(Failure::BrokenOff(cause)) if !listing => {
                    tracing::debug!("the watch of {} broke off: {cause}", self.source);
                    return Ok(Ended::Watched { moved, lasted: opened.elapsed() });
                }
                Ok(None) => return Ok(Ended::Watched { moved, lasted: opened.elapsed() }),
                Err(failure) => return Err(failure),
            };
            match decode::event(line)? {
                Event::Added(raw) if listing => self.intake.list(raw)?,
                // With a list still going on it may be one that the list has had already.
                Event::Added(raw) | Event::Modified(raw) => {
                    let version = self.intake.apply(raw, listing)?;
                    if !listing {
                        self.advance(version);
                    }
                }
                Event::Deleted(raw) => {
                    let version = self.intake.delete(raw)?;
                    if !listing {
                        self.advance(version);
                    }
                }
                Event::Bookmark { version, ends_list } if listing => {
                    if ends_list {
                        self.end_list(version, wanted)?;
                        listing = false;
                    }
                }
                Event::Bookmark { version, .. } => self.advance(version),
                Event::Error(status) => return Err(Failure::refused(*status, None)),
            }
            moved = true;
            consume_budget().await;
        }
    }

    /// Starts a list; returns the version it is to reach.
    fn begin_list(&mut self) -> u64 {
        self.intake.begin_list();
        *self.wanted.borrow_and_update()
    }

    /// Ends a list that is complete as of `version`.
    fn end_list(&mut self, version: u64, wanted: u64) -> Result<(), Failure> {
        self.intake.end_list();
        self.state.incomplete = 0;
        self.state.position = Some(version);
        self.state.listed = Some(Instant::now());
        if let Method::PagesOnTrial(cause) = &self.state.method {
            tracing::info!("{} is listed in pages from here on, because of its watch-list {cause}", self.source);
            self.state.method = Method::Pages;
        }
        self.publish(Progress { begun: true, synced: true, version });
        if version < wanted {
            return Err(Failure::Stale { listed: version, wanted });
        }
        Ok(())
    }

    fn advance(&mut self, version: u64) {
        self.works();
        if version != 0 {
            self.state.position = Some(version);
            self.publish(Progress { begun: true, synced: true, version });
        }
    }

    fn publish(&self, progress: Progress) {
        self.progress.send_if_modified(|before| {
            let changed = *before != progress;
            *before = progress;
            changed
        });
    }

    /// The watch yields something. A list alone is no reason to believe that all is well: it would be made again and again,
    /// without pause, if each watch after it failed.
    fn works(&mut self) {
        self.state.pause.reset();
        if self.state.complaint.is_over() {
            tracing::info!("{} can be watched again", self.source);
        }
    }

    fn after_end(&mut self, ended: &Ended) -> Duration {
        match ended {
            Ended::Listed => Duration::ZERO,
            Ended::Behind => {
                tracing::debug!("{} is listed again to catch up", self.source);
                self.state.position = None;
                Duration::ZERO
            }
            Ended::Watched { moved, lasted } if *moved || *lasted >= TOO_SHORT => {
                self.works();
                Duration::ZERO
            }
            Ended::Watched { .. } => self.state.pause.next(random()),
        }
    }

    fn after_failure(&mut self, doing: Doing, failure: &Failure) -> Duration {
        let silent = matches!(failure, Failure::Silence(_));
        if doing == Doing::WatchList && (silent || matches!(failure, Failure::Incomplete)) {
            self.state.incomplete += 1;
        }
        match recovery(doing, failure, self.state.incomplete) {
            Recovery::Resume => {}
            Recovery::Relist => self.state.position = None,
            Recovery::ListInPages => {
                self.state.method = Method::PagesOnTrial(failure.to_string());
                return Duration::ZERO;
            }
        }
        if doing == Doing::Watch && silent {
            // The time it took is pause enough.
            tracing::debug!("{} is watched anew: {failure}", self.source);
            return Duration::ZERO;
        }
        let list_is_old = self.state.listed.is_none_or(|at| at.elapsed() >= TOO_SHORT);
        if doing == Doing::Watch && failure.is_lost_position() && list_is_old {
            tracing::info!("{} is listed again: {failure}", self.source);
            return Duration::ZERO;
        }
        if matches!(self.state.method, Method::PagesOnTrial(_)) && failure.is_forbidden() {
            // Pages are refused as well, so it was not the watch-list.
            self.state.method = Method::WatchList;
        }
        self.complain(doing, failure);
        let asked = failure.retry_after().unwrap_or_default();
        self.state.pause.next(random()).max(asked.min(LONGEST_RETRY_AFTER))
    }

    fn complain(&mut self, doing: Doing, failure: &Failure) {
        let verb = match doing {
            Doing::List => "list",
            Doing::WatchList | Doing::Watch => "watch",
        };
        let cure = if failure.is_forbidden() {
            format!("the ServiceAccount of this process needs the verbs list and watch on {}", self.source)
        } else {
            "trying again with backoff; what was known before is kept".to_owned()
        };
        let text = format!("cannot {verb} {}: {failure}; {cure}", self.source);
        if self.state.complaint.is_new(&text) {
            tracing::warn!("{text}");
        } else {
            tracing::debug!("{text}");
        }
    }
}

/// Delivers every record again, each time `every` is over after the first list. Pending for ever without a period.
async fn resync<P: Projection>(cache: Arc<Cache<P>>, mut progress: watch::Receiver<Progress>, every: Option<Duration>) {
    let every = every.filter(|period| !period.is_zero());
    let (Some(every), Ok(_)) = (every, progress.wait_for(|progress| progress.synced).await) else {
        return std::future::pending().await;
    };
    loop {
        sleep(every).await;
        for key in cache.read(Store::keys) {
            cache.redeliver(&key);
            consume_budget().await;
        }
    }
}
