//! `/healthz`: 200 while the driver is waited for or can be found at the registration socket, 500 when the socket does not answer for
//! it or kubelet refuses it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use csi_client::{SocketTasks, code_name};
use csi_proto::pluginregistration::v1::InfoRequest;
use csi_proto::pluginregistration::v1::registration_client::RegistrationClient;
use http::{Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use sidecar::http::{Answer, NO_PROFILES, PPROF_PATH, plain};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::metadata::MetadataValue;

use crate::registration_service::HEALTH_CHECK;
use crate::registration_socket::{AtPath, look};

const HEALTH_PATH: &str = "/healthz";
/// Checks at a time, so that they leave kubelet a place on the socket. Others wait within their time.
const CHECKS: usize = 4;

/// Which driver must be found where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registered {
    /// The registration socket.
    pub(crate) path: PathBuf,
    /// The driver's name.
    pub(crate) driver: String,
    /// Why kubelet refuses the driver; `None` when it does not, or has said nothing yet.
    pub(crate) refusal: Option<String>,
}

/// What is served over HTTP.
pub(crate) struct Health {
    /// `None` until the driver has said who it is.
    pub(crate) registered: watch::Receiver<Option<Registered>>,
    /// What a check may take in all.
    pub(crate) timeout: Duration,
    /// Whether profilers are told why there is nothing for them.
    pub(crate) pprof_asked: bool,
    pub(crate) places: Semaphore,
}

impl Health {
    pub(crate) fn new(registered: watch::Receiver<Option<Registered>>, timeout: Duration, pprof_asked: bool) -> Self {
        Self { registered, timeout, pprof_asked, places: Semaphore::new(CHECKS) }
    }

    /// Decides by path alone; any method will do.
    pub(crate) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let path = request.uri().path();
        if path == HEALTH_PATH {
            self.health().await
        } else if self.pprof_asked && path.starts_with(PPROF_PATH) {
            plain(StatusCode::NOT_IMPLEMENTED, NO_PROFILES)
        } else {
            plain(StatusCode::NOT_FOUND, "404 page not found\n")
        }
    }

    async fn health(&self) -> Answer {
        let registered = self.registered.borrow().clone();
        // A driver that is late is no reason to restart this container.
        let Some(Registered { path, driver, refusal }) = registered else {
            return plain(StatusCode::OK, "ok: waiting for the CSI driver");
        };
        let broken = |text| plain(StatusCode::INTERNAL_SERVER_ERROR, text);
        match look(&path) {
            Err(error) => return broken(format!("failed to stat the socket {}: {error}", path.display())),
            Ok(AtPath::Nothing) => return not_there(),
            Ok(AtPath::Other(kind)) => {
                let path = path.display();
                return broken(format!("file exists in socketPath {path} but it's not a socket.: it is a {kind}"));
            }
            Ok(AtPath::Socket) => {}
        }
        match timeout(self.timeout, self.name_at(&path)).await {
            Err(_) => broken(no_info("code = DeadlineExceeded desc = context deadline exceeded")),
            Ok(Err(text)) => broken(text),
            Ok(Ok(name)) if name != driver => broken(format!("invalid driver name {name}")),
            Ok(Ok(_)) => match refusal {
                Some(reason) => broken(format!("kubelet refuses the driver: {reason}")),
                None => plain(StatusCode::OK, "ok"),
            },
        }
    }

    /// Asks the socket as kubelet does, on a connection of its own.
    async fn name_at(&self, path: &Path) -> Result<String, String> {
        let refused = |error: &dyn std::fmt::Display| {
            format!("error connecting to node-registrar socket {}: {error}", path.display())
        };
        // The semaphore is never closed.
        let _place = self.places.acquire().await;
        let stream = UnixStream::connect(path).await.map_err(|error| refused(&error))?;
        let tasks = SocketTasks::new();
        let handshake = Builder::new(tasks.executor()).handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| refused(&error))?;
        let mut client = RegistrationClient::with_origin(Transport(sender), Uri::from_static("http://localhost"));
        let mut question = tonic::Request::new(InfoRequest {});
        question.metadata_mut().insert(HEALTH_CHECK, MetadataValue::from_static("1"));
        let asked = client.get_info(question);
        let answer = tokio::select! {
            biased;
            answer = asked => answer,
            // Its end shows in the answer, unless there will be none.
            _ = connection => Err(Status::unavailable("the socket closed the connection")),
        };
        match answer {
            Ok(info) => Ok(info.into_inner().name),
            Err(status) => Err(no_info(&format!("code = {} desc = {}", code_name(status.code()), status.message()))),
        }
    }
}

fn not_there() -> Answer {
    plain(StatusCode::NOT_FOUND, Bytes::from_static(b"registration socket does not exist"))
}

fn no_info(why: &str) -> String {
    format!("error getting info from node-registrar socket: rpc error: {why}")
}

/// Carries one call.
struct Transport(SendRequest<Body>);

impl tower::Service<Request<Body>> for Transport {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
