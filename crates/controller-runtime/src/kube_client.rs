//! Kubernetes clients that never wait without end and never retry behind the caller's back.
//!
//! kube's own stack (TLS, credentials, trace layer) with one layer more, `Timeouts`: an answer must begin within the
//! timeout and, unless it is a watch, also end within it. A watch may live as long as it asked for (`timeoutSeconds`)
//! and a little longer: one that outlives this sits on a dead connection. Dead connections are found this way and not
//! by TCP keepalive, which kube's connector does not offer.

pub(crate) mod overload;

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube::client::{Body, ClientBuilder};
use tokio::time::{Instant, Sleep};
use tower::{BoxError, Layer, Service};

/// How much longer than its `timeoutSeconds` a watch may live before its connection is taken for dead.
const WATCH_GRACE: Duration = Duration::from_secs(30);

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// TLS material, credentials or proxy settings of the configuration are not usable.
    #[error("kubernetes client for {server}: {source}; check the kubeconfig or the service account files")]
    Configuration {
        /// The API server the configuration names.
        server: http::Uri,
        /// What kube found wrong.
        #[source]
        source: Box<kube::Error>,
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

/// A client for `config` without default retries. `timeout` bounds connecting, the time until the answer begins and,
/// except for watches, until it is complete. Must be called inside a tokio runtime.
///
/// # Errors
/// [`ClientError::Configuration`] when the configuration is not usable.
pub fn client(config: &kube::Config, timeout: Duration) -> Result<kube::Client, ClientError> {
    let mut config = config.clone();
    // kube retries even a POST on 429, 503 and 504; the work queue and the renew loop know better when.
    config.default_retry = false;
    config.connect_timeout = Some(config.connect_timeout.map_or(timeout, |limit| limit.min(timeout)));
    let server = config.cluster_url.clone();
    let builder = ClientBuilder::try_from(config)
        .map_err(|source| ClientError::Configuration { server, source: Box::new(source) })?;
    Ok(builder.with_layer(&Timeouts { limit: timeout }).build())
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

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let limit = self.limit;
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
                return Err(late.into());
            };
            let deadline = whole.map(|whole| {
                let late = RequestTimeout { awaited: "the end of the answer", limit: whole, ..late };
                (Box::pin(tokio::time::sleep_until(sent + whole)), late)
            });
            Ok(answer.map_err(Into::into)?.map(|inner| TimedBody { inner, deadline }))
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

pub(crate) struct TimedBody<B> {
    inner: B,
    deadline: Option<(Pin<Box<Sleep>>, RequestTimeout)>,
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
        let Some((sleep, late)) = &mut self.deadline else { return Poll::Pending };
        sleep.as_mut().poll(context).map(|()| Some(Err(late.clone().into())))
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
