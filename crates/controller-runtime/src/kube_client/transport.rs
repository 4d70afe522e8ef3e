//! The way a request goes: base URL, headers, credentials, then a pooled connection over TCP and TLS.
//!
//! Over TLS it is HTTP/2 where the server offers that, as API servers do: requests and watches share one connection. Else
//! each request under way has its own.
//!
//! kube has such a stack as well; with it comes the code of every way to log in that ever was, which would be a tenth of
//! a program.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use gathered_writes::Gathered;
use http::header::AUTHORIZATION;
use http::uri::Scheme;
use http::{Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _};
use parking_lot::Mutex;
use tower::{BoxError, Layer as _, Service, ServiceExt as _};

use super::ClientError;
use super::credentials::Credentials;
use super::proxy::Proxy;
use super::socket::{Socket, Sockets};
use super::tls::Tls;

/// Bytes read at once, as many as a TLS record has at most. Left to itself hyper's buffer grows to 400 kB during a list, is
/// made anew for each read, and stays large.
const READ_BUFFER: usize = 16 << 10;

/// Bytes of one answer that HTTP/2 lets the server send before they are read.
const WINDOW: u32 = 256 << 10;
/// And of all answers on one connection. More than all watches and requests of a process can leave unread: those that
/// nobody reads yet must not hold up the others.
const CONNECTION_WINDOW: u32 = 16 << 20;

/// A connection with requests under way is asked for a sign of life this often, as client-go does...
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// ...and given up, with all its requests, when none has come for so long.
const PING_TIMEOUT: Duration = Duration::from_secs(15);

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// What requests to the server of `config` go through, over `connections`.
pub(super) fn transport(
    config: &kube::Config,
    connections: &Arc<Connections>,
) -> Result<
    impl Service<Request<Body>, Response = Response<Incoming>, Error = BoxError, Future: Send> + Clone + Send + Sync + use<>,
    ClientError,
> {
    let connections = Arc::clone(connections);
    let headers = config
        .extra_headers_layer()
        .map_err(|source| ClientError::Headers { server: config.cluster_url.clone(), source: Box::new(source) })?;
    Ok(config.base_uri_layer().layer(headers.layer(Authorized { connections })))
}

/// The connections to one server.
pub(super) struct Connections {
    credentials: Arc<Credentials>,
    connector: Connector,
    client: Mutex<Client<Connector, Body>>,
}

impl Connections {
    /// To the server of `config`. A connection must be there within `connect_limit`.
    pub(super) fn of(config: &kube::Config, connect_limit: Duration) -> Result<Self, ClientError> {
        let proxy = Proxy::of(config)?.map(Arc::new);
        let credentials = Arc::new(Credentials::of(&config.auth_info)?);
        let tls = Tls::of(config, credentials.clone())?;
        let connector = Connector { tls: Arc::new(tls), proxy, limit: connect_limit };
        let client = Mutex::new(client(connector.clone()));
        Ok(Self { credentials, connector, client })
    }

    /// No request that begins from here on uses a connection that there is now: it may be dead without either side knowing.
    pub(super) fn leave(&self) {
        *self.client.lock() = client(self.connector.clone());
    }
}

fn client(connector: Connector) -> Client<Connector, Body> {
    Client::builder(BoxingExecutor(TokioExecutor::new()))
        .timer(TokioTimer::new())
        .http1_read_buf_exact_size(READ_BUFFER)
        .http2_initial_stream_window_size(WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .build(connector)
}

/// Runs what HTTP/2 needs to move bytes. A request has a task of several kilobytes, which would be copied at each step to the
/// scheduler.
#[derive(Clone)]
struct BoxingExecutor(TokioExecutor);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for BoxingExecutor {
    fn execute(&self, task: F) {
        let task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(task);
        self.0.execute(task);
    }
}

/// Gives each request its credentials.
#[derive(Clone)]
struct Authorized {
    connections: Arc<Connections>,
}

impl Service<Request<Body>> for Authorized {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = Answer<Response<Incoming>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let (client, credentials) = (self.connections.client.lock().clone(), self.connections.credentials.clone());
        Box::pin(async move {
            if let Some(value) = credentials.header().await? {
                request.headers_mut().insert(AUTHORIZATION, value);
            }
            let (method, uri) = (request.method().clone(), request.uri().clone());
            let answer = client.request(request).await?;
            tracing::trace!(%method, path = uri.path(), status = answer.status().as_u16(), "the API server answers");
            if answer.status() == StatusCode::UNAUTHORIZED {
                credentials.were_refused();
            }
            Ok(answer)
        })
    }
}

#[derive(Clone)]
struct Connector {
    tls: Arc<Tls>,
    proxy: Option<Arc<Proxy>>,
    limit: Duration,
}

impl Service<Uri> for Connector {
    type Response = Gathered<MaybeHttpsStream<Socket>>;
    type Error = BoxError;
    type Future = Answer<Self::Response>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let (tls, proxy, limit) = (self.tls.clone(), self.proxy.clone(), self.limit);
        Box::pin(async move {
            let name = server.to_string();
            let connected = tokio::time::timeout(limit, connect(&tls, proxy.as_deref(), server)).await;
            let late = |_| Err(ClientError::NotConnected { server: name, limit }.into());
            connected.unwrap_or_else(late).map(Gathered::new)
        })
    }
}

async fn connect(tls: &Tls, proxy: Option<&Proxy>, server: Uri) -> Result<MaybeHttpsStream<Socket>, BoxError> {
    if server.scheme() != Some(&Scheme::HTTPS) {
        return Ok(MaybeHttpsStream::Http(Sockets::new().oneshot(server).await?));
    }
    let (config, name) = (tls.config().await?, tls.server_name());
    match proxy {
        Some(proxy) => HttpsConnector::new(proxy.tunnel(), config, true, name).call(server).await,
        None => HttpsConnector::new(Sockets::new(), config, true, name).call(server).await,
    }
}

#[cfg(test)]
mod tests;
