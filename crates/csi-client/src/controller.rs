//! The CSI Controller service.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use csi_proto::Sanitize;
use csi_proto::csi::v1 as csi;
use prost::Message;

use crate::driver::{Patience, Shared};
use crate::{CallError, Rpc};

/// Says whether a call may be sent. Asked immediately before each one, and the one that all calls of a client need
/// ([`Driver::controller`](crate::Driver::controller)) again before its request is written to the socket.
pub trait Admission: Send + Sync {
    /// The refusal's text goes into the call's error.
    fn admit(&self) -> Result<(), Denied>;

    /// Resolves when [`admit`](Self::admit) will refuse from then on: a call that still waits for a connection is given up.
    /// Never, unless it is implemented.
    fn withdrawn(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

/// Admits what both admit.
struct Both(Arc<dyn Admission>, Arc<dyn Admission>);

impl Admission for Both {
    fn admit(&self) -> Result<(), Denied> {
        self.0.admit()?;
        self.1.admit()
    }

    fn withdrawn(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            tokio::select! {
                () = self.0.withdrawn() => {}
                () = self.1.withdrawn() => {}
            }
        })
    }
}

/// Why a call may not be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied(pub String);

/// Sends Controller calls to the driver. Clones share the admission and the count.
#[derive(Clone)]
pub struct ControllerClient {
    shared: Arc<Shared>,
    /// Of all calls.
    term: Arc<dyn Admission>,
    /// Of these calls, `term` included.
    admission: Arc<dyn Admission>,
    in_flight: Arc<AtomicUsize>,
    migrated: bool,
}

impl ControllerClient {
    pub(crate) fn new(shared: Arc<Shared>, admission: Arc<dyn Admission>) -> Self {
        Self { shared, term: Arc::clone(&admission), admission, in_flight: Arc::default(), migrated: false }
    }

    /// The same client with one more condition: what a call was decided for must still hold when it is sent, which may be a
    /// while later when the driver is away.
    #[must_use]
    pub fn provided(&self, condition: Arc<dyn Admission>) -> Self {
        let admission = Arc::new(Both(Arc::clone(&self.admission), condition));
        Self { admission, ..self.clone() }
    }

    /// The same client for calls about an object that the driver takes over from a plugin built into Kubernetes, or not: they
    /// are counted apart ([`CallMetrics::label_migrated`](crate::CallMetrics::label_migrated)).
    #[must_use]
    pub fn for_migrated(&self, migrated: bool) -> Self {
        Self { migrated, ..self.clone() }
    }

    /// Calls that were admitted and have neither ended nor been dropped.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// A request that met the end of its connection before it was handed over is sent on the next one: it has reached nobody.
    async fn call<Req, Resp>(&self, rpc: Rpc, request: Req) -> Result<Resp, CallError>
    where
        Req: Message + Sanitize + Clone + 'static,
        Resp: Message + Sanitize + Default + 'static,
    {
        let method = rpc.method();
        let patience = Patience::starting(self.shared.caller.timeout);
        loop {
            let place = tokio::select! {
                biased;
                place = self.shared.place(method, patience) => Some(place?),
                () = self.admission.withdrawn() => None,
            };
            let Some((generation, _place)) = place else {
                let reason = self.admission.admit().err().map(|Denied(reason)| reason);
                let reason = reason.unwrap_or_else(|| "its admission was withdrawn".to_owned());
                return Err(CallError::Denied { method, reason });
            };
            let in_flight = InFlight::enter(&self.in_flight);
            let (caller, condition, term) = (&self.shared.caller, &*self.admission, Arc::clone(&self.term));
            let call = caller.admitted(&generation, method, self.migrated, request.clone(), condition, term);
            match call.await {
                Err(CallError::NotConnected { .. }) => drop(in_flight),
                outcome => return outcome,
            }
            patience.bound(generation.ended()).await;
        }
    }
}

/// Counts a call for as long as it lives.
struct InFlight<'a>(&'a AtomicUsize);

impl<'a> InFlight<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Gives the client one method per call.
macro_rules! methods {
    ($($method:ident $rpc:ident $request:ident $response:ident)+) => {
        impl ControllerClient {
            $(
                #[doc = concat!("`", stringify!($rpc), "` of the CSI Controller service. Waits up to the timeout for a connection, is then admitted and sent.")]
                pub async fn $method(&self, request: csi::$request) -> Result<csi::$response, CallError> {
                    self.call(Rpc::$rpc, request).await
                }
            )+
        }
    };
}

methods! {
    create_volume CreateVolume CreateVolumeRequest CreateVolumeResponse
    delete_volume DeleteVolume DeleteVolumeRequest DeleteVolumeResponse
    controller_publish_volume ControllerPublishVolume ControllerPublishVolumeRequest ControllerPublishVolumeResponse
    controller_unpublish_volume ControllerUnpublishVolume ControllerUnpublishVolumeRequest ControllerUnpublishVolumeResponse
    validate_volume_capabilities ValidateVolumeCapabilities ValidateVolumeCapabilitiesRequest ValidateVolumeCapabilitiesResponse
    list_volumes ListVolumes ListVolumesRequest ListVolumesResponse
    controller_list_volume_health ControllerListVolumeHealth ControllerListVolumeHealthRequest ControllerListVolumeHealthResponse
    controller_get_volume_health ControllerGetVolumeHealth ControllerGetVolumeHealthRequest ControllerGetVolumeHealthResponse
    get_capacity GetCapacity GetCapacityRequest GetCapacityResponse
    controller_get_capabilities ControllerGetCapabilities ControllerGetCapabilitiesRequest ControllerGetCapabilitiesResponse
    create_snapshot CreateSnapshot CreateSnapshotRequest CreateSnapshotResponse
    delete_snapshot DeleteSnapshot DeleteSnapshotRequest DeleteSnapshotResponse
    list_snapshots ListSnapshots ListSnapshotsRequest ListSnapshotsResponse
    get_snapshot GetSnapshot GetSnapshotRequest GetSnapshotResponse
    controller_expand_volume ControllerExpandVolume ControllerExpandVolumeRequest ControllerExpandVolumeResponse
    controller_get_volume ControllerGetVolume ControllerGetVolumeRequest ControllerGetVolumeResponse
    controller_modify_volume ControllerModifyVolume ControllerModifyVolumeRequest ControllerModifyVolumeResponse
}
