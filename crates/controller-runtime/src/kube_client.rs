//! Kubernetes clients that never wait without end and never retry behind the caller's back.
//!
//! A transport of our own (`transport.rs`: `credentials.rs`, `tls.rs`, `gathered-writes`) below kube's client, with a layer `Timeouts`: an answer
//! must begin within the timeout and, unless it is a watch, also end within it. A watch may live as long as it asked for
//! (`timeoutSeconds`) and a little longer: one that outlives this sits on a dead connection. Dead connections are found this way and not
//! by TCP keepalive, which says nothing of a server that hangs: after a request that got no answer in time, the next one has
//! a new connection. So it has after one whose sender the server did not know.

pub(crate) mod overload;

mod api_server;
mod credentials;
mod exec_plugin;
mod proxy;
mod socket;
mod tls;
mod transport;

use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper_util::client::legacy::connect::{CaptureConnection, capture_connection};
use kube::client::Body;
use tokio::time::{Instant, Sleep};
use tower::{BoxError, Layer, Service};

pub use api_server::{Answer, AnswerBody, ApiServer};

/// How much longer than its `timeoutSeconds` a watch may live before its connection is taken for dead.
const WATCH_GRACE: Duration = Duration::from_secs(30);

/// Why no client could be made, or a client has no way to its server.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The headers of an impersonation (`as`, `as-groups`...) cannot be sent.
    #[error("kubernetes client for {server}: {source}; correct the user of the kubeconfig")]
    Headers {
        /// The API server the configuration names.
        server: http::Uri,
        /// What kube found wrong.
        #[source]
        source: Box<kube::Error>,
    },
    /// A file of the configuration cannot be read.
    #[error("cannot read {}: {source}; check the kubeconfig or the service account of the pod", path.display())]
    Unreadable {
        /// Token, certificate or key.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Certificate authorities, the client certificate or its key are not usable.
    #[error(
        "certificates of the kubernetes configuration: {0}; check the kubeconfig or the service account of the pod"
    )]
    Certificate(String),
    /// A token, name or password with characters that a header cannot carry.
    #[error("the token or password of the kubernetes configuration has characters that cannot be sent; correct it")]
    Token,
    /// An `auth-provider` that is not built in.
    #[error(
        "auth-provider {0:?} of the kubeconfig is not supported; use a token, a client certificate or an exec plugin"
    )]
    AuthProvider(String),
    /// An exec plugin gave no credentials.
    #[error("the exec plugin {command:?} of the kubeconfig gives no credentials: {reason}")]
    ExecPlugin {
        /// The program.
        command: String,
        /// What went wrong.
        reason: String,
    },
    /// A proxy is asked for that cannot be used; its host.
    #[error(
        "the API server cannot be reached through the proxy {0}: only an http:// proxy to an https:// server is supported; correct proxy-url in the kubeconfig, HTTPS_PROXY or HTTP_PROXY, or name the server in NO_PROXY"
    )]
    Proxy(String),
    /// No connection came about in time.
    #[error("no connection to {server} within {limit:?}")]
    NotConnected {
        /// The API server.
        server: String,
        /// How long it was tried.
        limit: Duration,
    },
    /// The user agent has characters that a header cannot carry.
    #[error("user agent {0:?} cannot be sent as a header; use visible ASCII characters")]
    UserAgent(String),
}

/// A request that got no complete answer in time. Found in the source chain of `kube::Error`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{method} {path}: {awaited} did not arrive within {limit:?}; the API server or the way to it is too slow or gone"
)]
pub struct RequestTimeout {
    method: http::Method,
    path: String,
    awaited: &'static str,
    limit: Duration,
}

/// A client for `config` without retries, see [`ApiServer::of`].
///
/// # Errors
/// When the configuration is not usable.
pub fn client(config: &kube::Config, timeout: Duration) -> Result<kube::Client, ClientError> {
    Ok(ApiServer::of(config, timeout)?.client())
}

/// Makes clients of `config` introduce themselves as `agent`.
///
/// # Errors
/// [`ClientError::UserAgent`] when it cannot be a header.
pub fn set_user_agent(config: &mut kube::Config, agent: &str) -> Result<(), ClientError> {
    let value = HeaderValue::from_str(agent).map_err(|_| ClientError::UserAgent(agent.to_owned()))?;
    config.headers.retain(|(name, _)| name != USER_AGENT);
    config.headers.push((USER_AGENT, value));
    Ok(())
}

/// The layer that gives every request its time limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) limit: Duration,
}

impl<S> Layer<S> for Timeouts {
    type Service = Timed<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Timed { inner, limit: self.limit }
    }
}

#[derive(Clone)]
pub(crate) struct Timed<S> {
    inner: S,
    limit: Duration,
}

impl<S, B> Service<Request<Body>> for Timed<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<TimedBody<B>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let limit = self.limit;
        let connection = capture_connection(&mut request);
        let sent = Instant::now();
        let whole = body_limit(request.uri().query(), limit);
        let late = RequestTimeout {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            awaited: "the beginning of the answer",
            limit,
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let Ok(answer) = tokio::time::timeout_at(sent + limit, answer).await else {
                leave(&connection);
                return Err(late.into());
            };
            let answer = answer.map_err(Into::into)?;
            if answer.status() == StatusCode::UNAUTHORIZED {
                // Its client certificate may have expired: a new connection shows the one there is now.
                leave(&connection);
            }
            let deadline = whole.map(|whole| {
                let late = RequestTimeout { awaited: "the end of the answer", limit: whole, ..late };
                BodyDeadline { sleep: Box::pin(tokio::time::sleep_until(sent + whole)), late, connection }
            });
            Ok(answer.map(|inner| TimedBody { inner, deadline }))
        })
    }
}

/// How long after its sending a request may take until its answer is complete; none for a watch that set no limit.
fn body_limit(query: Option<&str>, limit: Duration) -> Option<Duration> {
    let parameter = |name: &str| {
        query?
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find_map(|(key, value)| (key == name).then_some(value))
    };
    if !matches!(parameter("watch"), Some("true" | "1")) {
        return Some(limit);
    }
    let seconds = parameter("timeoutSeconds")?.parse().ok()?;
    Some(limit.max(Duration::from_secs(seconds)) + WATCH_GRACE)
}

/// No other request shall share this connection any more.
fn leave(connection: &CaptureConnection) {
    if let Some(connection) = &*connection.connection_metadata() {
        connection.poison();
    }
}

pub(crate) struct TimedBody<B> {
    inner: B,
    deadline: Option<BodyDeadline>,
}

struct BodyDeadline {
    sleep: Pin<Box<Sleep>>,
    late: RequestTimeout,
    connection: CaptureConnection,
}

impl<B> HttpBody for TimedBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.inner).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let Some(BodyDeadline { sleep, late, connection }) = &mut self.deadline else { return Poll::Pending };
        sleep.as_mut().poll(context).map(|()| {
            leave(connection);
            Some(Err(late.clone().into()))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests;
