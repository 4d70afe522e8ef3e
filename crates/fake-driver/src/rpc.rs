//! The RPCs the fake driver serves: one table that the journal, the script and the services are made from.

use std::any::Any;
use std::fmt;

use csi_proto::csi::v1 as csi;
use tonic::Status;

use crate::backend::Backend;

/// A request message of the CSI protocol that the fake driver answers.
///
/// Implemented for every request of the Identity, the Controller and the Node service, and for nothing else.
pub trait CsiRequest: Any + Clone + Send + Sync + Sized {
    /// The RPC that carries this request.
    const RPC: Rpc;
    /// What the RPC answers.
    type Response: Any + Send;

    /// The request as the journal keeps it.
    fn into_any(self) -> AnyRequest;

    /// The request inside a journal entry, if the entry is of this RPC.
    fn from_any(request: &AnyRequest) -> Option<&Self>;

    #[doc(hidden)]
    fn answer(&self, backend: &mut Backend) -> Result<Self::Response, Status>;
}

/// Hands the table of RPCs to the macro `$use_table`.
macro_rules! with_rpcs {
    ($use_table:ident) => {
        $use_table! {
            Identity {
                get_plugin_info GetPluginInfo(GetPluginInfoRequest) -> GetPluginInfoResponse;
                get_plugin_capabilities GetPluginCapabilities(GetPluginCapabilitiesRequest) -> GetPluginCapabilitiesResponse;
                probe Probe(ProbeRequest) -> ProbeResponse;
            }
            Controller {
                create_volume CreateVolume(CreateVolumeRequest) -> CreateVolumeResponse;
                delete_volume DeleteVolume(DeleteVolumeRequest) -> DeleteVolumeResponse;
                controller_publish_volume ControllerPublishVolume(ControllerPublishVolumeRequest) -> ControllerPublishVolumeResponse;
                controller_unpublish_volume ControllerUnpublishVolume(ControllerUnpublishVolumeRequest) -> ControllerUnpublishVolumeResponse;
                validate_volume_capabilities ValidateVolumeCapabilities(ValidateVolumeCapabilitiesRequest) -> ValidateVolumeCapabilitiesResponse;
                list_volumes ListVolumes(ListVolumesRequest) -> ListVolumesResponse;
                controller_list_volume_health ControllerListVolumeHealth(ControllerListVolumeHealthRequest) -> ControllerListVolumeHealthResponse;
                controller_get_volume_health ControllerGetVolumeHealth(ControllerGetVolumeHealthRequest) -> ControllerGetVolumeHealthResponse;
                get_capacity GetCapacity(GetCapacityRequest) -> GetCapacityResponse;
                controller_get_capabilities ControllerGetCapabilities(ControllerGetCapabilitiesRequest) -> ControllerGetCapabilitiesResponse;
                create_snapshot CreateSnapshot(CreateSnapshotRequest) -> CreateSnapshotResponse;
                delete_snapshot DeleteSnapshot(DeleteSnapshotRequest) -> DeleteSnapshotResponse;
                list_snapshots ListSnapshots(ListSnapshotsRequest) -> ListSnapshotsResponse;
                get_snapshot GetSnapshot(GetSnapshotRequest) -> GetSnapshotResponse;
                controller_expand_volume ControllerExpandVolume(ControllerExpandVolumeRequest) -> ControllerExpandVolumeResponse;
                controller_get_volume ControllerGetVolume(ControllerGetVolumeRequest) -> ControllerGetVolumeResponse;
                controller_modify_volume ControllerModifyVolume(ControllerModifyVolumeRequest) -> ControllerModifyVolumeResponse;
            }
            Node {
                node_stage_volume NodeStageVolume(NodeStageVolumeRequest) -> NodeStageVolumeResponse;
                node_unstage_volume NodeUnstageVolume(NodeUnstageVolumeRequest) -> NodeUnstageVolumeResponse;
                node_publish_volume NodePublishVolume(NodePublishVolumeRequest) -> NodePublishVolumeResponse;
                node_unpublish_volume NodeUnpublishVolume(NodeUnpublishVolumeRequest) -> NodeUnpublishVolumeResponse;
                node_get_volume_health NodeGetVolumeHealth(NodeGetVolumeHealthRequest) -> NodeGetVolumeHealthResponse;
                node_get_storage_health NodeGetStorageHealth(NodeGetStorageHealthRequest) -> NodeGetStorageHealthResponse;
                node_get_volume_stats NodeGetVolumeStats(NodeGetVolumeStatsRequest) -> NodeGetVolumeStatsResponse;
                node_expand_volume NodeExpandVolume(NodeExpandVolumeRequest) -> NodeExpandVolumeResponse;
                node_get_capabilities NodeGetCapabilities(NodeGetCapabilitiesRequest) -> NodeGetCapabilitiesResponse;
                node_get_info NodeGetInfo(NodeGetInfoRequest) -> NodeGetInfoResponse;
            }
        }
    };
}
pub(crate) use with_rpcs;

macro_rules! declare {
    ($($service:ident { $($method:ident $rpc:ident($request:ident) -> $response:ident;)* })*) => {
        /// An RPC of the Identity, the Controller or the Node service.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the names are those of the CSI specification")]
        pub enum Rpc { $($($rpc,)*)* }

        impl Rpc {
            /// The name as the CSI specification spells it.
            pub const fn name(self) -> &'static str {
                match self { $($(Rpc::$rpc => stringify!($rpc),)*)* }
            }
        }

        /// A decoded request in the journal.
        ///
        /// Its `Debug` is that of the message, which hides `csi_secret` fields; the fields themselves are real.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "the names are those of the CSI specification")]
        pub enum AnyRequest { $($($rpc(csi::$request),)*)* }

        impl AnyRequest {
            /// The RPC that carried the request.
            pub const fn rpc(&self) -> Rpc {
                match self { $($(AnyRequest::$rpc(_) => Rpc::$rpc,)*)* }
            }
        }

        $($(
            impl CsiRequest for csi::$request {
                const RPC: Rpc = Rpc::$rpc;
                type Response = csi::$response;

                fn into_any(self) -> AnyRequest {
                    AnyRequest::$rpc(self)
                }

                fn from_any(request: &AnyRequest) -> Option<&Self> {
                    match request {
                        AnyRequest::$rpc(request) => Some(request),
                        _ => None,
                    }
                }

                fn answer(&self, backend: &mut Backend) -> Result<csi::$response, Status> {
                    backend.$method(self)
                }
            }
        )*)*
    };
}
with_rpcs!(declare);

impl fmt::Display for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
