//! The connections to the registration socket: HTTP/2 behind the authority filter, bounded in number, streams and age.

use std::pin::pin;
use std::time::Duration;

use csi_client::{SocketExecutor, SocketTasks};
use csi_proto::pluginregistration::v1::registration_server::RegistrationServer;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tower::Service as _;
use tracing::debug;

use crate::authority_filter::AuthorityFilter;
use crate::registration_service::RegistrationService;

/// Connections at a time; others wait in the kernel's queue. Kubelet has one, and only while it registers.
const CONNECTIONS: usize = 16;
/// Calls at a time on one connection.
const STREAMS: u32 = 8;
/// How long a connection lives, so that one that says nothing does not hold its place for ever. Longer than kubelet needs to
/// register a driver.
const CONNECTION_AGE: Duration = Duration::from_mins(5);
/// How long the answers under way may take when a connection is to end.
const GRACE: Duration = Duration::from_secs(5);

/// All connections. Dropped, they are cut.
pub(crate) struct Connections {
    serving: JoinSet<()>,
    streams: SocketTasks,
}

impl Connections {
    pub(crate) fn new() -> Self {
        Self { serving: JoinSet::new(), streams: SocketTasks::new() }
    }

    /// Whether one more is served.
    pub(crate) fn have_place(&self) -> bool {
        self.serving.len() < CONNECTIONS
    }

    /// Serves one more.
    pub(crate) fn add(&mut self, stream: UnixStream, service: RegistrationService) {
        self.serving.spawn(serve(stream, service, self.streams.executor()));
    }

    /// The end of any connection. Pending while there is none.
    pub(crate) async fn one_ended(&mut self) {
        if self.serving.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

async fn serve(stream: UnixStream, service: RegistrationService, executor: SocketExecutor) {
    let server = RegistrationServer::new(service);
    let service = service_fn(move |request: Request<Incoming>| server.clone().call(request));
    let connection = http2::Builder::new(executor)
        .max_concurrent_streams(STREAMS)
        .serve_connection(TokioIo::new(AuthorityFilter::new(stream)), service);
    let mut connection = pin!(connection);
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = tokio::time::sleep(CONNECTION_AGE) => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(GRACE, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = outcome {
        debug!(error = chain(&error), "A connection to the registration socket broke");
    }
}

/// An error with its causes: hyper keeps what the filter said in them.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
