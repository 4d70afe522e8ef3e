//! Watches: a cursor into the history, read as fast as the client reads.

use std::{collections::VecDeque, future, io, sync::Arc};

use bytes::Bytes;
use futures_util::{Stream, stream};
use http_body::Frame;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    Shared, metadata,
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
}

/// One open watch.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    changed: watch::Receiver<u64>,
    resource: Resource,
    collection: CollectionId,
    namespace: String,
    selector: Selector,
    bookmarks: bool,
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

/// A watch from where the request asks.
///
/// # Errors
/// 422 for initial events without `resourceVersionMatch=NotOlderThan`, or when the server has no watch-list.
pub(crate) fn open(
    shared: &Arc<Shared>,
    store: &Store,
    route: Route,
    watch_list: bool,
    cuts: usize,
) -> Result<Watch, Status> {
    let query = &route.query;
    let initial = query.send_initial_events;
    if initial && !watch_list {
        let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        return Err(Status::invalid(&route.resource, "", "sendInitialEvents", &format!("Forbidden: {why}")));
    }
    if initial && query.resource_version_match != "NotOlderThan" {
        let why = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        return Err(Status::invalid(&route.resource, "", "resourceVersionMatch", why));
    }
    let version = match query.resource_version.as_str() {
        "" | "0" => 0,
        text => text.parse().map_err(|_| Status::bad_request(format!("resourceVersion: Invalid value: {text:?}")))?,
    };
    let mut watch = Watch {
        shared: shared.clone(),
        changed: shared.changed.subscribe(),
        collection: CollectionId::from(&route.resource),
        bookmarks: query.allow_watch_bookmarks,
        next: store.history().len(),
        cuts,
        deadline: query.timeout_seconds.map(|s| Instant::now() + std::time::Duration::from_secs(s)),
        pending: VecDeque::new(),
        metadata_only: false,
        left: None,
        ended: false,
        selector: route.query.selector,
        namespace: route.namespace,
        resource: route.resource,
    };
    if initial || version == 0 {
        watch.add_present_objects(store);
        if initial && watch.bookmarks {
            watch.add_bookmark(store.revision(), true);
        }
    } else if version < store.compacted() {
        watch.add_expired(&format!("too old resource version: {version} ({})", store.compacted()));
    } else {
        watch.next = store.history().partition_point(|entry| entry.revision <= version);
    }
    Ok(watch)
}

impl Watch {
    /// The same, breaking off after so many events if a number is given.
    pub(crate) fn breaking_after(self, events: Option<usize>) -> Self {
        Self { left: events, ..self }
    }

    /// The same, with the metadata of the objects alone.
    pub(crate) fn of_metadata(self, metadata_only: bool) -> Self {
        Self { metadata_only, ..self }
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
                self.read_history();
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
                Some(Cut::Broken) => return Some(self.broken()),
                Some(Cut::Expired) => {
                    self.add_expired("the provided resource version is too old");
                    continue;
                }
                None => {}
            }
            let deadline = self.deadline;
            let timeout = async move {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = self.changed.changed() => changed.ok()?,
                () = timeout => return None,
            }
        }
    }

    fn broken(&mut self) -> Result<Frame<Bytes>, io::Error> {
        self.ended = true;
        Err(io::ErrorKind::ConnectionReset.into())
    }

    fn read_history(&mut self) {
        let shared = self.shared.clone();
        let state = shared.state.lock();
        for entry in &state.store.history()[self.next..] {
            self.add_entry(entry);
        }
        self.next = state.store.history().len();
    }

    fn add_entry(&mut self, entry: &Entry) {
        match &entry.what {
            What::Bookmark if self.bookmarks => self.add_bookmark(entry.revision, false),
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

    fn add_expired(&mut self, why: &str) {
        self.add_event("ERROR", &Status::expired(why).body());
        self.ended = true;
    }

    fn add_event(&mut self, kind: &str, object: &Value) {
        let metadata = (self.metadata_only && kind != "ERROR").then(|| metadata::alone(object));
        let object = metadata.as_ref().unwrap_or(object);
        // In this order, as the API server writes it.
        self.pending.push_back(Bytes::from(format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")));
    }
}
