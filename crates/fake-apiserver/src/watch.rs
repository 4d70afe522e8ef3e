//! Watches: a cursor into the history, read as fast as the client reads.

use std::{collections::VecDeque, future, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, stream};
use http_body::Frame;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    Shared, metadata, options,
    resource::Resource,
    route::Route,
    selector::Selector,
    status::Status,
    store::{CollectionId, Entry, Store, What},
};

/// How the watches of one epoch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The answer ends as after `timeoutSeconds`.
    Closed,
    /// The connection breaks in the middle.
    Broken,
    /// An `ERROR` event with code 410, then the end.
    Expired,
    /// The connection breaks, and what the watch has not read yet is no more.
    SetBack,
}

/// So long before its end a watch gets a last bookmark.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// One open watch.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    changed: watch::Receiver<u64>,
    resource: Resource,
    collection: CollectionId,
    namespace: String,
    selector: Selector,
    /// No event up to this revision is sent: the client has been there, or says so.
    from: u64,
    bookmarks: bool,
    /// Nor is a bookmark up to this one: of what was read of the collection at the beginning.
    bookmarks_from: u64,
    /// When the last bookmark is due.
    last_bookmark: Option<Instant>,
    /// The next entry of the history to look at.
    next: usize,
    /// How many times watches had been cut when this one began.
    cuts: usize,
    deadline: Option<Instant>,
    pending: VecDeque<Bytes>,
    metadata_only: bool,
    /// Events that are still let through before the connection breaks.
    left: Option<usize>,
    ended: bool,
}

/// A watch from where the request asks. From a version of the future it is silent until that is over.
///
/// # Errors
/// 422 for options that exclude each other, 500 for a version that is none.
pub(crate) fn open(
    shared: &Arc<Shared>,
    store: &Store,
    route: Route,
    metadata_only: bool,
    watch_list: bool,
    cuts: usize,
) -> Result<Watch, Status> {
    let query = &route.query;
    options::check_watch(query, watch_list)?;
    let initial = query.send_initial_events == Some(true);
    let version = match query.resource_version.as_str() {
        "" | "0" => 0,
        text => text.parse().map_err(|why| Status::internal_error(format!("invalid resource version: {why}")))?,
    };
    let present = initial || (version == 0 && query.send_initial_events.is_none());
    let deadline = query.timeout_seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut watch = Watch {
        shared: shared.clone(),
        changed: shared.changed.subscribe(),
        collection: CollectionId::from(&route.resource),
        from: if version == 0 || initial { store.revision() } else { version },
        bookmarks: query.allow_watch_bookmarks,
        bookmarks_from: 0,
        last_bookmark: deadline
            .map(|end| end - BOOKMARK_BEFORE_END)
            .filter(|at| query.allow_watch_bookmarks && *at > Instant::now()),
        next: store.history().len(),
        cuts,
        deadline,
        pending: VecDeque::new(),
        metadata_only,
        left: None,
        ended: false,
        selector: route.query.selector,
        namespace: route.namespace,
        resource: route.resource,
    };
    if initial && version > store.revision() {
        watch.add_error(&Status::too_large_version(version, store.revision()));
    } else if present {
        watch.add_present_objects(store);
        if initial && watch.bookmarks {
            watch.add_bookmark(store.revision(), true);
        }
    } else if version < store.watchable_from() {
        let why = format!("too old resource version: {version} ({})", store.watchable_from());
        watch.add_error(&Status::expired(why));
    } else {
        watch.next = store.history().partition_point(|entry| entry.revision <= version);
    }
    let of_collection = |entry: &&Entry| entry.what.collection() == Some(&watch.collection);
    let read = store.history().iter().rfind(of_collection).map(|entry| entry.revision);
    watch.bookmarks_from = watch.from.max(read.unwrap_or_default());
    Ok(watch)
}

impl Watch {
    /// The same, breaking off after so many events if a number is given.
    pub(crate) fn breaking_after(self, events: Option<usize>) -> Self {
        Self { left: events, ..self }
    }

    /// The body of the answer.
    pub(crate) fn frames(self) -> impl Stream<Item = Result<Frame<Bytes>, io::Error>> + Send {
        stream::unfold(self, |mut watch| async move { watch.step().await.map(|frame| (frame, watch)) })
    }

    /// The next chunk of the body; none at its end.
    async fn step(&mut self) -> Option<Result<Frame<Bytes>, io::Error>> {
        loop {
            self.changed.borrow_and_update();
            if !self.ended && self.pending.is_empty() {
                self.read_history(false);
            }
            if self.left == Some(0) && !self.ended {
                self.pending.clear();
                return Some(self.broken());
            }
            if let Some(event) = self.pending.pop_front() {
                self.left = self.left.map(|left| left.saturating_sub(1));
                return Some(Ok(Frame::data(event)));
            }
            if self.ended {
                return None;
            }
            match self.shared.cut_since(self.cuts) {
                Some(Cut::Closed) => return None,
                Some(Cut::Broken | Cut::SetBack) => return Some(self.broken()),
                Some(Cut::Expired) => {
                    self.add_error(&Status::expired("the provided resource version is too old"));
                    continue;
                }
                None => {}
            }
            tokio::select! {
                biased;
                changed = self.changed.changed() => changed.ok()?,
                () = at(self.last_bookmark) => {
                    self.last_bookmark = None;
                    self.read_history(true);
                }
                () = at(self.deadline) => return None,
            }
        }
    }

    fn broken(&mut self) -> Result<Frame<Bytes>, io::Error> {
        self.ended = true;
        Err(io::ErrorKind::ConnectionReset.into())
    }

    /// What has happened since it was read last, and if wanted a bookmark of where that led.
    fn read_history(&mut self, bookmark: bool) {
        let shared = self.shared.clone();
        let state = shared.state.lock();
        if state.cuts[self.cuts..].contains(&Cut::SetBack) {
            return;
        }
        for entry in &state.store.history()[self.next..] {
            self.add_entry(entry);
        }
        self.next = state.store.history().len();
        if bookmark && state.store.revision() > self.bookmarks_from {
            self.add_bookmark(state.store.revision(), false);
        }
    }

    fn add_entry(&mut self, entry: &Entry) {
        if entry.revision <= self.from {
            return;
        }
        match &entry.what {
            What::Bookmark if self.bookmarks && entry.revision > self.bookmarks_from => {
                self.add_bookmark(entry.revision, false);
            }
            What::Put { collection, old, new } if *collection == self.collection => {
                let before = old.as_ref().is_some_and(|old| self.sees(old));
                match (before, self.sees(new)) {
                    (false, true) => self.add_event("ADDED", new),
                    (true, true) => self.add_event("MODIFIED", new),
                    (true, false) => self.add_event("DELETED", new),
                    (false, false) => {}
                }
            }
            What::Removed { collection, old, last } if *collection == self.collection && self.sees(old) => {
                self.add_event("DELETED", last);
            }
            What::Put { .. } | What::Removed { .. } | What::Bookmark => {}
        }
    }

    fn sees(&self, object: &Value) -> bool {
        (self.namespace.is_empty() || crate::object::namespace(object) == self.namespace)
            && self.selector.matches(object)
    }

    fn add_present_objects(&mut self, store: &Store) {
        for object in store.objects(&self.resource, &self.namespace) {
            if self.selector.matches(&object) {
                self.add_event("ADDED", &object);
            }
        }
    }

    fn add_bookmark(&mut self, revision: u64, initial_events_end: bool) {
        let mut metadata = json!({ "resourceVersion": revision.to_string(), "creationTimestamp": null });
        if initial_events_end {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let (kind, version) = (self.resource.kind.clone(), self.resource.api_version());
        self.add_event("BOOKMARK", &json!({ "kind": kind, "apiVersion": version, "metadata": metadata }));
    }

    fn add_error(&mut self, status: &Status) {
        self.add_event("ERROR", &status.body());
        self.ended = true;
    }

    fn add_event(&mut self, kind: &str, object: &Value) {
        let metadata = (self.metadata_only && kind != "ERROR").then(|| metadata::alone(object));
        let object = metadata.as_ref().unwrap_or(object);
        // In this order, as the API server writes it.
        self.pending.push_back(Bytes::from(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")));
    }
}

/// Ends then; never without a time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => future::pending().await,
    }
}
