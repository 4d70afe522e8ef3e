//! What a sidecar serves over HTTP: metrics, the health of leader election, and the answer to profilers.
//!
//! The flow: [`bind`] → [`Server::run`] → `answer` decides by path alone. A program that serves something else has a
//! [`Listener`] and answers for itself.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use controller_runtime::leader_election::Health;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

use crate::exit::Exit;
use crate::metrics::{self, Metrics};

mod address;
mod listener;

pub use listener::Listener;

/// What every answer is.
pub type Answer = Response<Full<Bytes>>;

/// Where Go programs have their profiles.
pub const PPROF_PATH: &str = "/debug/pprof/";

const HEALTH_PATH: &str = "/healthz/leader-election";

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
    listener: Listener,
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
    let listener = Listener::bind(&settings.address).await.map_err(refuse)?;
    let address = listener.local_address();
    tracing::info!(%address, path = settings.metrics_path, "Serving metrics");
    if settings.pprof_asked {
        tracing::warn!(flag = "--enable-pprof", reason = NO_PROFILES.trim_end(), "Flag has no effect");
    }
    Ok(Server { listener, content: Arc::new(Content { settings, metrics, health }) })
}

impl Server {
    /// Where the server listens, with the port it was given for port 0.
    pub fn local_address(&self) -> SocketAddr {
        self.listener.local_address()
    }

    /// Serves until `shutdown`, then lets the answers under way end, for at most some seconds.
    pub async fn run(self, shutdown: CancellationToken) {
        let Self { listener, content } = self;
        let answer = move |request: Request<Incoming>| std::future::ready(content.answer(request.uri().path()));
        listener.serve(shutdown, answer).await;
    }
}

/// The answer to all requests below [`PPROF_PATH`], code 501.
pub const NO_PROFILES: &str =
    "profiles of a Go runtime do not exist in this program; use perf on the process instead\n";

impl Content {
    fn answer(&self, path: &str) -> Answer {
        let settings = &self.settings;
        let all_below = covers(&settings.metrics_path, path);
        if path == settings.metrics_path {
            scrape(&self.metrics)
        } else if settings.leader_election_health && path == HEALTH_PATH {
            match self.health.check() {
                Ok(()) => plain(StatusCode::OK, "ok"),
                Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {error}\n")),
            }
        } else if settings.pprof_asked && path.starts_with(PPROF_PATH) {
            plain(StatusCode::NOT_IMPLEMENTED, NO_PROFILES)
        } else if all_below {
            scrape(&self.metrics)
        } else {
            not_found()
        }
    }
}

/// Whether a path that was registered answers the path of a request: the same, or, where it ends in a slash, all below it.
pub fn covers(registered: &str, path: &str) -> bool {
    path == registered || registered.ends_with('/') && path.starts_with(registered)
}

/// The answer to a scrape.
pub fn scrape(metrics: &Metrics) -> Answer {
    respond(StatusCode::OK, metrics::CONTENT_TYPE, metrics.render())
}

/// The answer to a path that nothing is served under, in Go's words.
pub fn not_found() -> Answer {
    plain(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// An answer in plain text, with the content type Go gives it.
pub fn plain(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    respond(status, "text/plain; charset=utf-8", text)
}

fn respond(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests;
