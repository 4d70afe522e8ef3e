//! One API server and the way of requests to it, before there is a client of kube on top.
//!
//! A client of kube has a queue and a task of its own. What stands between a caller and the server (a limit, a gate) is
//! therefore put around this and not around a client, and only the outermost layer becomes one.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use tower::{BoxError, Layer as _, Service, service_fn};

use super::transport::{Connections, transport};
use super::{ClientError, Timeouts};

/// What a server answers, as it comes.
pub type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;
/// The answer to one request, still to come.
pub type Answer = Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, BoxError>> + Send>>;

/// Where requests go. Clones share connections.
#[derive(Clone)]
pub struct ApiServer {
    send: Arc<dyn Fn(Request<Body>) -> Answer + Send + Sync>,
    /// None for a server that is not reached over a network.
    connections: Option<Arc<Connections>>,
    namespace: Arc<str>,
}

impl ApiServer {
    /// The server of `config`, without retries. `timeout` bounds connecting, the time until the answer begins and, except for
    /// watches, until it is complete. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When the configuration is not usable.
    pub fn of(config: &kube::Config, timeout: Duration) -> Result<Self, ClientError> {
        let connect_limit = config.connect_timeout.map_or(timeout, |limit| limit.min(timeout));
        let connections = Arc::new(Connections::of(config, connect_limit)?);
        let timed = Timeouts { limit: timeout }.layer(transport(config, &connections)?);
        let send = move |request| -> Answer {
            let answer = timed.clone().call(request);
            Box::pin(async move { Ok(answer.await?.map(BodyExt::boxed_unsync)) })
        };
        let namespace = config.default_namespace.as_str().into();
        Ok(Self { send: Arc::new(send), connections: Some(connections), namespace })
    }

    /// Lets no request that begins from here on use a connection that there is now, which may be dead without either side
    /// knowing. What is under way on it goes on.
    pub fn leave_connections(&self) {
        if let Some(connections) = &self.connections {
            connections.leave();
        }
    }

    /// The same server, reached through `layer`: it is given each request and this server, and sends the request when it
    /// may go.
    #[must_use]
    pub fn behind(&self, layer: impl Fn(Self, Request<Body>) -> Answer + Send + Sync + 'static) -> Self {
        let inner = self.clone();
        Self { send: Arc::new(move |request| layer(inner.clone(), request)), ..self.clone() }
    }

    /// Sends one request.
    pub fn send(&self, request: Request<Body>) -> Answer {
        (self.send)(request)
    }

    /// A client that sends its requests this way. Must be called inside a tokio runtime.
    pub fn client(&self) -> kube::Client {
        kube::Client::new(self.clone(), &*self.namespace)
    }
}

/// The way of a client that exists, such as one of a server in the same process, with time limits of 30 s.
impl From<&kube::Client> for ApiServer {
    fn from(client: &kube::Client) -> Self {
        let (client, namespace) = (client.clone(), client.default_namespace().into());
        let sending = service_fn(move |request| {
            let client = client.clone();
            async move { client.send(request).await }
        });
        let timed = Timeouts { limit: Duration::from_secs(30) }.layer(sending);
        let send = move |request| -> Answer {
            let answer = timed.clone().call(request);
            Box::pin(async move { Ok(answer.await?.map(BodyExt::boxed_unsync)) })
        };
        Self { send: Arc::new(send), connections: None, namespace }
    }
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").finish_non_exhaustive()
    }
}

impl Service<Request<Body>> for ApiServer {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        self.send(request)
    }
}
