//! What a sidecar serves over HTTP: metrics, the health of leader election, and the answer to profilers.
//!
//! The flow: [`bind`] → [`Server::run`] accepts, 64 connections at a time → `answer` decides by path alone.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use controller_runtime::leader_election::Health;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;
use crate::metrics::{self, Metrics};

mod address;

/// Connections served at a time; others wait in the kernel's queue.
const CONNECTIONS: usize = 64;
/// How long the head of a request may take, which is also how long an idle connection is kept.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection lives, so that one that never reads its answer does not hold its place for ever.
const CONNECTION_AGE: Duration = Duration::from_mins(5);
/// How long the answers under way may take when a connection is to end.
const GRACE: Duration = Duration::from_secs(5);
/// The pause after a failed accept: usually no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const HEALTH_PATH: &str = "/healthz/leader-election";
const PPROF_PATH: &str = "/debug/pprof/";

/// What to serve, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `host:port` as Go takes it: `:8080` means all interfaces, port 0 any free one.
    pub address: String,
    /// The path of the metrics, with its leading slash. One that ends in a slash covers all below it.
    pub metrics_path: String,
    /// Whether `/healthz/leader-election` is served.
    pub leader_election_health: bool,
    /// Whether `--enable-pprof` was given: profiles are then refused with a reason instead of not being found.
    pub pprof_asked: bool,
}

/// A server that listens but does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    content: Arc<Content>,
}

#[derive(Debug)]
struct Content {
    settings: Settings,
    metrics: Metrics,
    health: Health,
}

/// Takes the address. One that cannot be listened on ends the process with code 255.
pub async fn bind(settings: Settings, metrics: Metrics, health: Health) -> Result<Server, Exit> {
    let refuse = |error: std::io::Error| {
        Exit::fatal(format!(
            "cannot listen on {:?} for metrics and health: {error}; correct --http-endpoint or --metrics-address, \
             or free the port",
            settings.address
        ))
    };
    let listener = address::listen(&settings.address).await.map_err(refuse)?;
    let address = listener.local_addr().map_err(refuse)?;
    tracing::info!(%address, path = settings.metrics_path, "Serving metrics");
    if settings.pprof_asked {
        tracing::warn!(flag = "--enable-pprof", reason = NO_PROFILES.trim_end(), "Flag has no effect");
    }
    Ok(Server { listener, address, content: Arc::new(Content { settings, metrics, health }) })
}

impl Server {
    /// Where the server listens, with the port it was given for port 0.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown`, then lets the answers under way end, for at most some seconds.
    pub async fn run(self, shutdown: CancellationToken) {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let (stream, place) = tokio::select! {
                () = shutdown.cancelled() => break,
                // Ended connections are collected as they end, so the set does not grow.
                Some(_) = connections.join_next() => continue,
                accepted = self.accept(&places) => accepted,
            };
            connections.spawn(serve(stream, place, Arc::clone(&self.content), shutdown.clone()));
        }
        while connections.join_next().await.is_some() {}
    }

    /// The next connection, once there is a place for it.
    async fn accept(&self, places: &Arc<Semaphore>) -> (TcpStream, Option<OwnedSemaphorePermit>) {
        // The semaphore is never closed, so there always is a permit.
        let place = Arc::clone(places).acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => return (stream, place),
                Err(error) => {
                    tracing::warn!(%error, address = %self.address, "Cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn serve(
    stream: TcpStream,
    place: Option<OwnedSemaphorePermit>,
    content: Arc<Content>,
    shutdown: CancellationToken,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = content.answer(request.uri().path());
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // What a peer does to its connection is its own business: errors are not reported.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = end_of_connection(&shutdown) => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(GRACE, connection).await;
        }
    }
    drop(place);
}

async fn end_of_connection(shutdown: &CancellationToken) {
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = tokio::time::sleep(CONNECTION_AGE) => {}
    }
}

const NO_PROFILES: &str = "profiles of a Go runtime do not exist in this program; use perf on the process instead\n";

impl Content {
    fn answer(&self, path: &str) -> Response<Full<Bytes>> {
        let settings = &self.settings;
        let all_below = settings.metrics_path.ends_with('/') && path.starts_with(&settings.metrics_path);
        if path == settings.metrics_path {
            self.metrics()
        } else if settings.leader_election_health && path == HEALTH_PATH {
            match self.health.check() {
                Ok(()) => plain(StatusCode::OK, "ok"),
                Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {error}\n")),
            }
        } else if settings.pprof_asked && path.starts_with(PPROF_PATH) {
            plain(StatusCode::NOT_IMPLEMENTED, NO_PROFILES)
        } else if all_below {
            self.metrics()
        } else {
            plain(StatusCode::NOT_FOUND, "404 page not found\n")
        }
    }

    fn metrics(&self) -> Response<Full<Bytes>> {
        respond(StatusCode::OK, metrics::CONTENT_TYPE, self.metrics.render())
    }
}

fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    respond(status, "text/plain; charset=utf-8", text)
}

fn respond(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests;
