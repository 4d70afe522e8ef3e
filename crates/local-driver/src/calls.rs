//! What every call passes: faults before and after the work, the journal, the log.

use std::sync::Arc;
use std::time::Duration;

use csi_proto::Sanitize;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use tonic::transport::server::UdsConnectInfo;
use tonic::{Code, Request, Response, Status};

use crate::fault::{Fault, Faults};
use crate::journal::{Entry, Journal, Moment};

/// The RPCs faults can be injected into.
pub(crate) const RPC_NAMES: &[&str] = &[
    "GetPluginInfo",
    "GetPluginCapabilities",
    "Probe",
    "CreateVolume",
    "DeleteVolume",
    "ControllerPublishVolume",
    "ControllerUnpublishVolume",
    "ValidateVolumeCapabilities",
    "ListVolumes",
    "ControllerListVolumeHealth",
    "ControllerGetVolumeHealth",
    "GetCapacity",
    "ControllerGetCapabilities",
    "CreateSnapshot",
    "DeleteSnapshot",
    "ListSnapshots",
    "GetSnapshot",
    "ControllerExpandVolume",
    "ControllerGetVolume",
    "ControllerModifyVolume",
    "NodeStageVolume",
    "NodeUnstageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeGetVolumeStats",
    "NodeGetVolumeHealth",
    "NodeGetStorageHealth",
    "NodeExpandVolume",
    "NodeGetCapabilities",
    "NodeGetInfo",
];

/// The layer around all services.
#[derive(Debug)]
pub(crate) struct Calls {
    faults: Faults,
    journal: Option<Journal>,
    running: TaskTracker,
}

impl Calls {
    pub(crate) fn new(faults: Vec<Fault>, journal: Option<Journal>) -> Self {
        Self { faults: Faults::new(faults), journal, running: TaskTracker::new() }
    }

    /// Waits until no call runs.
    pub(crate) async fn idle(&self) {
        self.running.close();
        self.running.wait().await;
    }

    /// Runs `work` on the request. A call that has begun ends whether its caller waits or not, as in a driver
    /// whose storage does not know of the caller's deadline.
    pub(crate) async fn run<R, T, F>(
        self: &Arc<Self>,
        rpc: &'static str,
        request: Request<R>,
        work: impl FnOnce(R) -> F + Send + 'static,
    ) -> Result<Response<T>, Status>
    where
        R: Sanitize + Send + 'static,
        T: Send + 'static,
        F: Future<Output = Result<T, Status>> + Send,
    {
        let calls = Arc::clone(self);
        let call = self.running.spawn(async move { calls.observed(rpc, request, work).await });
        let ended = call.await.map_err(|error| Status::internal(format!("{rpc} ended without a result: {error}")))?;
        ended.map(Response::new)
    }

    async fn observed<R, T, F>(
        &self,
        rpc: &'static str,
        request: Request<R>,
        work: impl FnOnce(R) -> F + Send,
    ) -> Result<T, Status>
    where
        R: Sanitize,
        F: Future<Output = Result<T, Status>>,
    {
        let started = Moment::now();
        let peer = request.extensions().get::<UdsConnectInfo>().and_then(|info| info.peer_cred);
        let peer_pid = peer.and_then(|peer| peer.pid());
        tracing::debug!(rpc, "call begins");
        let request = request.into_inner();
        let logged = self.journal.is_some() || tracing::enabled!(tracing::Level::DEBUG);
        let sanitized = if logged { request.sanitized() } else { String::new() };
        let result = self.faulty(rpc, work(request)).await;
        let (code, message) = match &result {
            Ok(_) => (Code::Ok, ""),
            Err(status) => (status.code(), status.message()),
        };
        tracing::debug!(rpc, request = sanitized, ?code, message, "call");
        if let Some(journal) = &self.journal {
            journal.write(&Entry { rpc, request: &sanitized, peer_pid, started, code, message });
        }
        result
    }

    async fn faulty<T>(&self, rpc: &str, work: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        let effect = self.faults.next(rpc);
        pause(effect.delay).await;
        let result = match (effect.instead(), effect.after()) {
            (Some(status), _) => Err(status),
            (None, Some(status)) => work.await.and(Err(status)),
            (None, None) => work.await,
        };
        pause(effect.answer_delay).await;
        result
    }
}

/// A sleep of zero would still wait for the next tick of the timer.
async fn pause(delay: Duration) {
    if !delay.is_zero() {
        sleep(delay).await;
    }
}

/// One service behind the layer.
#[derive(Debug)]
pub(crate) struct Served<S> {
    pub(crate) calls: Arc<Calls>,
    pub(crate) service: Arc<S>,
}

/// Implements a gRPC service for [`Served`]: `answers` and `awaits` have a method of the same name on the inner
/// service, the latter an async one; `refuses` answers UNIMPLEMENTED.
macro_rules! serve_calls {
    (
        $service:ident for $inner:ty;
        answers { $($method:ident $rpc:ident($request:ident) -> $response:ident;)* }
        awaits { $($slow_method:ident $slow_rpc:ident($slow_request:ident) -> $slow_response:ident;)* }
        refuses { $($no_method:ident $no_rpc:ident($no_request:ident) -> $no_response:ident;)* }
    ) => {
        #[tonic::async_trait]
        impl $service for crate::calls::Served<$inner> {
            $(async fn $method(&self, request: tonic::Request<csi::$request>) -> Result<tonic::Response<csi::$response>, tonic::Status> {
                let service = std::sync::Arc::clone(&self.service);
                self.calls.run(stringify!($rpc), request, move |request| async move { service.$method(&request) }).await
            })*
            $(async fn $slow_method(&self, request: tonic::Request<csi::$slow_request>) -> Result<tonic::Response<csi::$slow_response>, tonic::Status> {
                let service = std::sync::Arc::clone(&self.service);
                self.calls.run(stringify!($slow_rpc), request, move |request| async move { service.$slow_method(&request).await }).await
            })*
            $(async fn $no_method(&self, request: tonic::Request<csi::$no_request>) -> Result<tonic::Response<csi::$no_response>, tonic::Status> {
                let refused = concat!(stringify!($no_rpc), " is not implemented by this driver");
                self.calls.run(stringify!($no_rpc), request, move |_| async move { Err(tonic::Status::unimplemented(refused)) }).await
            })*
        }
    };
}
pub(crate) use serve_calls;
