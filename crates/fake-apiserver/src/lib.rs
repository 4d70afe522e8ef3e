//! A Kubernetes API server in memory, for tests: hand [`FakeApiServer::client`] to the code under test.
//!
//! A request goes `service` (record, scripted [`Reaction`]) → `route` (which verb on which resource) → `write`, `list`
//! or `watch` over one `store` of JSON objects. Everything happens on the caller's runtime, without threads or timers
//! of its own, so it works with tokio's paused clock.
//!
//! As in the real server: one resourceVersion counter; UIDs, creation times and generated names; 409 for taken names,
//! stale updates and wrong UIDs; preconditions of DELETE; finalizers and `deletionTimestamp`; merge, JSON and strategic
//! merge patches; `/status`; pages of one state; metadata alone for those that ask so; watches that replay, expire,
//! carry bookmarks and initial events, and are silent when they begin in the future; `Status` bodies.
//!
//! Not as in the real server: no validation of `spec`, no defaulting, no admission (namespaces need not exist, no
//! protection finalizers appear), no garbage collection, no server-side apply, no `managedFields`.
//! `resourceVersion` is small and dense.

mod arrange;
mod backup;
mod discovery;
mod list;
mod metadata;
mod object;
mod options;
mod patch;
mod reaction;
mod request;
mod resource;
mod route;
mod selector;
mod service;
mod status;
mod store;
mod validation;
mod watch;
mod write;

use std::sync::Arc;

use parking_lot::Mutex;

pub use crate::{
    backup::Backup,
    reaction::{Matcher, Reaction},
    request::Request,
    service::AnswerBody,
    status::Status,
};
use crate::{reaction::Script, store::Store, watch::Cut};

/// The server. Clones are handles to the same one.
#[derive(Clone)]
pub struct FakeApiServer {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    /// Counts requests and changes; whoever waits for either subscribes.
    changed: tokio::sync::watch::Sender<u64>,
}

struct State {
    store: Store,
    script: Script,
    requests: Vec<Arc<Request>>,
    watch_list: bool,
    reachable: bool,
    /// What a test has said of discovery, the last word last.
    served: Vec<discovery::Served>,
    /// Each time all open watches were ended.
    cuts: Vec<Cut>,
}

impl Default for FakeApiServer {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeApiServer {
    /// An empty server that is up.
    pub fn new() -> Self {
        let state = State {
            store: Store::default(),
            script: Script::default(),
            requests: Vec::new(),
            watch_list: true,
            reachable: true,
            served: Vec::new(),
            cuts: Vec::new(),
        };
        let shared = Shared { state: Mutex::new(state), changed: tokio::sync::watch::Sender::new(0) };
        Self { shared: Arc::new(shared) }
    }

    /// A client of this server, without retries, with `default` as its namespace. Needs a tokio runtime around it.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// The server as a tower service, for code that builds its own client stack over it.
    pub fn service(
        &self,
    ) -> impl tower::Service<
        http::Request<kube::client::Body>,
        Response = http::Response<AnswerBody>,
        Error = std::io::Error,
        Future: Send + 'static,
    > + Clone
    + Send
    + 'static {
        let shared = self.shared.clone();
        tower::service_fn(move |request| service::answer(shared.clone(), request))
    }

    /// Every request so far, oldest first, refused and unanswered ones included.
    pub fn requests(&self) -> Vec<Arc<Request>> {
        self.shared.state.lock().requests.clone()
    }

    /// The requests so far that a matcher selects.
    pub fn requests_of(&self, matcher: &Matcher) -> Vec<Arc<Request>> {
        self.requests().into_iter().filter(|request| matcher.matches(request)).collect()
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.shared.state.lock().requests.clear();
    }

    /// From here on, requests that `matcher` selects meet `reaction`. The first of several that match acts.
    pub fn react(&self, matcher: Matcher, reaction: Reaction) {
        self.shared.state.lock().script.add(matcher, reaction);
    }

    /// Ends all reactions; requests already delayed or hanging stay so.
    pub fn clear_reactions(&self) {
        self.shared.state.lock().script.clear();
    }

    /// Ends all open watches as `timeoutSeconds` would, after the events that are due.
    pub fn drop_watches(&self) {
        self.cut(Cut::Closed);
    }

    /// Breaks the connections of all open watches.
    pub fn break_watches(&self) {
        self.cut(Cut::Broken);
    }

    /// Ends all open watches with an `ERROR` event of code 410.
    pub fn expire_watches(&self) {
        self.cut(Cut::Expired);
    }

    /// Forgets the past: watches and lists from a resourceVersion up to the present one get 410. Open watches go on.
    pub fn compact(&self) {
        self.shared.state.lock().store.compact();
    }

    /// Sends a bookmark with the latest resourceVersion to every watch that allows them and did not begin there. Without
    /// that each gets one at most, two seconds before its `timeoutSeconds` are over.
    pub fn send_bookmarks(&self) {
        self.shared.state.lock().store.bookmark();
        self.shared.wake();
    }

    /// Refuses `sendInitialEvents` with 422, as a server without the `WatchList` feature.
    pub fn disable_watch_list(&self) {
        self.shared.state.lock().watch_list = false;
    }

    /// Drops a field, such as `allocatedResources` of `status`, from what is stored of a resource from here on, as a server
    /// with its feature off.
    pub fn drop_field(&self, plural: &str, parent: &'static str, field: &'static str) {
        self.shared.state.lock().store.drop_field(plural, parent, field);
    }

    /// Takes the server down (requests get connection errors, watches break) or up again. The objects stay.
    pub fn set_reachable(&self, reachable: bool) {
        self.shared.state.lock().reachable = reachable;
        if !reachable {
            self.cut(Cut::Broken);
        }
    }

    /// The resourceVersion of the latest write.
    pub fn resource_version(&self) -> u64 {
        self.shared.state.lock().store.revision()
    }

    fn cut(&self, cut: Cut) {
        self.shared.state.lock().cuts.push(cut);
        self.shared.wake();
    }
}

impl Shared {
    /// Records a request and says what happens to it.
    ///
    /// # Errors
    /// Connection refused while the server is down; such requests are not recorded.
    fn arrived(&self, request: Request) -> Result<Option<Reaction>, std::io::Error> {
        let mut state = self.state.lock();
        if !state.reachable {
            return Err(std::io::ErrorKind::ConnectionRefused.into());
        }
        let reaction = state.script.take(&request);
        state.requests.push(Arc::new(request));
        drop(state);
        self.wake();
        Ok(reaction)
    }

    fn wake(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// How watches ended first after `cuts` earlier times.
    fn cut_since(&self, cuts: usize) -> Option<Cut> {
        self.state.lock().cuts.get(cuts).copied()
    }
}
