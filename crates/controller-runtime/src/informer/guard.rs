//! What stands before the requests of one watcher.
//!
//! - A watch is only resumed from a version that the server has reached. A server that was set back (etcd restored
//!   without a revision bump) accepts a watch from a future version and stays silent until it gets there: changes until
//!   then would be missed. So the server's version is read before each resumption, and before each list but the first,
//!   whose objects would reach a term that has seen later ones. A lower version is reported to the terms ([`Continuity`])
//!   and fails the request. Not detected: a server that has caught up before it is asked.
//! - A watch on which nothing comes, not even a bookmark, is ended: the server sends one about each minute.
//! - Watches that end at once are not opened in a loop, which the watcher would do.
//! - An overloaded server is left alone for as long as it asks.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{Request, Response, Uri};
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use kube_runtime::utils::Backoff as _;
use kube_runtime::watcher::DefaultBackoff;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::{Instant, Sleep, sleep};
use tower::BoxError;

use crate::continuity::Continuity;
use crate::kube_client::{AnswerBody, ApiServer, overload};

/// A watch that ended sooner than this does not count as working.
const TOO_SHORT: Duration = Duration::from_secs(5);

/// A watch without a byte for this long is taken for dead.
const SILENCE: Duration = Duration::from_secs(90);

/// Accept header of the list of one object that is made for its resourceVersion: metadata is enough.
const METADATA_ALONE: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// A request was not sent, because the server's version is below what was seen.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the API server has version {live} after {seen} was seen")]
pub(super) struct IsSetBack {
    seen: u64,
    live: u64,
}

pub(super) struct Guard {
    continuity: Continuity,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The highest version of the server that was seen.
    seen: u64,
    /// The last request was a list: the version that the next watch begins at is the server's own of this moment.
    listed: bool,
    /// When the present watch was answered; `None` while there is none.
    opened: Option<Instant>,
    backoff: DefaultBackoff,
}

impl Guard {
    pub(super) fn new(continuity: Continuity) -> Arc<Self> {
        Arc::new(Self { continuity, state: Mutex::default() })
    }

    /// The server behind this guard, for one watcher.
    pub(super) fn before(self: &Arc<Self>, server: &ApiServer) -> ApiServer {
        let guard = Arc::clone(self);
        server.behind(move |server, request| {
            let guard = Arc::clone(&guard);
            Box::pin(async move { guard.send(server, request).await })
        })
    }

    /// Whether there is a watch that has lasted long enough to be called working.
    pub(super) fn has_working_watch(&self) -> bool {
        self.state.lock().opened.is_some_and(|opened| opened.elapsed() >= TOO_SHORT)
    }

    async fn send(&self, server: ApiServer, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        let Some(position) = watch_position(request.uri()) else {
            self.state.lock().opened = None;
            if self.is_another_list(request.uri())
                && let Some(refusal) = self.ask(&server, request.uri(), 0).await?
            {
                return Ok(refusal);
            }
            let answer = self.pass(&server, request).await?;
            self.state.lock().listed = true;
            return Ok(answer);
        };
        let pause = self.pause_before_watch();
        sleep(pause).await;
        if std::mem::take(&mut self.state.lock().listed) {
            self.compare(position, position)?;
        } else if let Some(refusal) = self.ask(&server, request.uri(), position).await? {
            return Ok(refusal);
        }
        let answer = self.pass(&server, request).await?;
        if answer.status().is_success() {
            self.state.lock().opened = Some(Instant::now());
        }
        Ok(answer.map(|body| UnsyncBoxBody::new(Lively::new(body))))
    }

    fn pause_before_watch(&self) -> Duration {
        let mut state = self.state.lock();
        match state.opened.take() {
            Some(opened) if opened.elapsed() < TOO_SHORT => state.backoff.next().unwrap_or_default(),
            Some(_) => {
                state.backoff.reset();
                Duration::ZERO
            }
            None => Duration::ZERO,
        }
    }

    /// Whether a request begins a list, and something was seen before.
    fn is_another_list(&self, uri: &Uri) -> bool {
        self.state.lock().seen > 0 && parameter(uri, "continue").is_none()
    }

    /// Asks the server for its version and compares it. `Some`: the server refused to tell it; the refusal goes to the
    /// watcher.
    async fn ask(&self, server: &ApiServer, of: &Uri, position: u64) -> Result<Option<Response<AnswerBody>>, BoxError> {
        let question = Request::get(format!("{}?limit=1", of.path())).header(ACCEPT, METADATA_ALONE);
        let answer = self.pass(server, question.body(Body::empty())?).await?;
        if !answer.status().is_success() {
            return Ok(Some(answer));
        }
        self.compare(version(&answer.into_body().collect().await?.to_bytes())?, position)?;
        Ok(None)
    }

    /// Fails if the server was set back: its version is below `position`, or below another that was seen.
    fn compare(&self, live: u64, position: u64) -> Result<(), IsSetBack> {
        let mut state = self.state.lock();
        let seen = state.seen.max(position);
        if live < seen {
            state.seen = 0;
            drop(state);
            self.continuity.report_set_back(seen, live);
            return Err(IsSetBack { seen, live });
        }
        state.seen = live;
        Ok(())
    }

    async fn pass(&self, server: &ApiServer, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        let answer = overload::send(server.clone(), request).await;
        match &answer {
            Ok(_) => self.continuity.reached(),
            Err(_) => self.continuity.missed(),
        }
        answer
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

/// The body of a watch, which ends after a silence.
struct Lively {
    inner: AnswerBody,
    silence: Pin<Box<Sleep>>,
}

impl Lively {
    fn new(inner: AnswerBody) -> Self {
        Self { inner, silence: Box::pin(sleep(SILENCE)) }
    }
}

impl HttpBody for Lively {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            self.silence.as_mut().reset(Instant::now() + SILENCE);
            return Poll::Ready(frame);
        }
        self.silence.as_mut().poll(context).map(|()| None)
    }
}

/// From which version on a request watches. `None`: it is not a watch.
fn watch_position(uri: &Uri) -> Option<u64> {
    (parameter(uri, "watch")? == "true").then_some(())?;
    // resourceVersions are decimal numbers that grow (KEP-5504).
    parameter(uri, "resourceVersion")?.parse().ok()
}

fn parameter<'a>(uri: &'a Uri, name: &str) -> Option<&'a str> {
    let mut pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// The resourceVersion of a list.
fn version(list: &[u8]) -> Result<u64, BoxError> {
    #[derive(Deserialize)]
    struct List {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: String,
    }
    let list: List = serde_json::from_slice(list)?;
    Ok(list.metadata.resource_version.parse()?)
}
