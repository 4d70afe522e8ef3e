//! The Node service: who this node is. Publishing is refused; unpublishing has nothing to do where nothing is.

use std::fs;
use std::io;

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::node_server::Node;
use tonic::Status;

use crate::calls::serve_calls;

#[derive(Debug)]
pub(crate) struct NodeService {
    pub(crate) node_id: String,
}

serve_calls! {
    Node for NodeService;
    answers {
        node_get_info NodeGetInfo(NodeGetInfoRequest) -> NodeGetInfoResponse;
        node_get_capabilities NodeGetCapabilities(NodeGetCapabilitiesRequest) -> NodeGetCapabilitiesResponse;
        node_publish_volume NodePublishVolume(NodePublishVolumeRequest) -> NodePublishVolumeResponse;
        node_unpublish_volume NodeUnpublishVolume(NodeUnpublishVolumeRequest) -> NodeUnpublishVolumeResponse;
    }
    awaits {}
    refuses {
        node_stage_volume NodeStageVolume(NodeStageVolumeRequest) -> NodeStageVolumeResponse;
        node_unstage_volume NodeUnstageVolume(NodeUnstageVolumeRequest) -> NodeUnstageVolumeResponse;
        node_get_volume_stats NodeGetVolumeStats(NodeGetVolumeStatsRequest) -> NodeGetVolumeStatsResponse;
        node_get_volume_health NodeGetVolumeHealth(NodeGetVolumeHealthRequest) -> NodeGetVolumeHealthResponse;
        node_get_storage_health NodeGetStorageHealth(NodeGetStorageHealthRequest) -> NodeGetStorageHealthResponse;
        node_expand_volume NodeExpandVolume(NodeExpandVolumeRequest) -> NodeExpandVolumeResponse;
    }
}

#[expect(
    clippy::unnecessary_wraps,
    clippy::trivially_copy_pass_by_ref,
    clippy::unused_self,
    reason = "the shape serve_calls! asks for"
)]
impl NodeService {
    fn node_get_info(&self, _: &csi::NodeGetInfoRequest) -> Result<csi::NodeGetInfoResponse, Status> {
        Ok(csi::NodeGetInfoResponse { node_id: self.node_id.clone(), ..csi::NodeGetInfoResponse::default() })
    }

    fn node_get_capabilities(
        &self,
        _: &csi::NodeGetCapabilitiesRequest,
    ) -> Result<csi::NodeGetCapabilitiesResponse, Status> {
        Ok(csi::NodeGetCapabilitiesResponse::default())
    }

    fn node_publish_volume(
        &self,
        request: &csi::NodePublishVolumeRequest,
    ) -> Result<csi::NodePublishVolumeResponse, Status> {
        given("volume_id", &request.volume_id)?;
        given("target_path", &request.target_path)?;
        if request.volume_capability.is_none() {
            return Err(Status::invalid_argument("volume_capability is required"));
        }
        Err(Status::unimplemented("this driver does not mount volumes"))
    }

    fn node_unpublish_volume(
        &self,
        request: &csi::NodeUnpublishVolumeRequest,
    ) -> Result<csi::NodeUnpublishVolumeResponse, Status> {
        given("volume_id", &request.volume_id)?;
        given("target_path", &request.target_path)?;
        // Idempotent as CSI asks: a path that is not there has nothing published, and we publish nothing.
        match fs::symlink_metadata(&request.target_path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(csi::NodeUnpublishVolumeResponse {}),
            _ => Err(Status::unimplemented("this driver does not unmount volumes")),
        }
    }
}

fn given(field: &str, value: &str) -> Result<(), Status> {
    if value.is_empty() { Err(Status::invalid_argument(format!("{field} is required"))) } else { Ok(()) }
}
