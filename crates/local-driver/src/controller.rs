//! The Controller service: requests checked, volumes asked of the state, results as CSI says.

mod create_volume;
mod list_volumes;
mod publish_volume;

use std::collections::BTreeSet;
use std::sync::Arc;

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::controller_server::Controller;
use tonic::Status;

use crate::calls::serve_calls;
use crate::capabilities::{Capabilities, Capability};
use crate::state::{NodeId, Record, VolumeError, VolumeId, Volumes};
use crate::topology::Topology;
use crate::volume_capability;

pub(crate) use publish_volume::PUBLISHED_TO;

#[derive(Debug)]
pub(crate) struct ControllerService {
    pub(crate) capabilities: Arc<Capabilities>,
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) node_id: NodeId,
    /// Nodes besides this one; none given means that any is accepted.
    pub(crate) known_nodes: BTreeSet<String>,
    pub(crate) max_volumes_per_node: Option<u32>,
    pub(crate) topology: Topology,
}

serve_calls! {
    Controller for ControllerService;
    answers {
        controller_get_capabilities ControllerGetCapabilities(ControllerGetCapabilitiesRequest) -> ControllerGetCapabilitiesResponse;
        validate_volume_capabilities ValidateVolumeCapabilities(ValidateVolumeCapabilitiesRequest) -> ValidateVolumeCapabilitiesResponse;
        list_volumes ListVolumes(ListVolumesRequest) -> ListVolumesResponse;
        controller_get_volume ControllerGetVolume(ControllerGetVolumeRequest) -> ControllerGetVolumeResponse;
        get_capacity GetCapacity(GetCapacityRequest) -> GetCapacityResponse;
    }
    awaits {
        create_volume CreateVolume(CreateVolumeRequest) -> CreateVolumeResponse;
        delete_volume DeleteVolume(DeleteVolumeRequest) -> DeleteVolumeResponse;
        controller_publish_volume ControllerPublishVolume(ControllerPublishVolumeRequest) -> ControllerPublishVolumeResponse;
        controller_unpublish_volume ControllerUnpublishVolume(ControllerUnpublishVolumeRequest) -> ControllerUnpublishVolumeResponse;
    }
    refuses {
        controller_list_volume_health ControllerListVolumeHealth(ControllerListVolumeHealthRequest) -> ControllerListVolumeHealthResponse;
        controller_get_volume_health ControllerGetVolumeHealth(ControllerGetVolumeHealthRequest) -> ControllerGetVolumeHealthResponse;
        create_snapshot CreateSnapshot(CreateSnapshotRequest) -> CreateSnapshotResponse;
        delete_snapshot DeleteSnapshot(DeleteSnapshotRequest) -> DeleteSnapshotResponse;
        list_snapshots ListSnapshots(ListSnapshotsRequest) -> ListSnapshotsResponse;
        get_snapshot GetSnapshot(GetSnapshotRequest) -> GetSnapshotResponse;
        controller_expand_volume ControllerExpandVolume(ControllerExpandVolumeRequest) -> ControllerExpandVolumeResponse;
        controller_modify_volume ControllerModifyVolume(ControllerModifyVolumeRequest) -> ControllerModifyVolumeResponse;
    }
}

impl ControllerService {
    fn require(&self, capability: Capability) -> Result<(), Status> {
        if self.capabilities.has(capability) {
            return Ok(());
        }
        Err(Status::unimplemented(format!("{} is switched off by --capabilities", capability.name())))
    }

    async fn create_volume(&self, request: &csi::CreateVolumeRequest) -> Result<csi::CreateVolumeResponse, Status> {
        self.require(Capability::CreateDeleteVolume)?;
        let wanted = create_volume::check(request, &self.capabilities, &self.topology)?;
        let record = self.volumes.create(wanted).await?;
        Ok(csi::CreateVolumeResponse { volume: Some(self.described(&record)) })
    }

    async fn delete_volume(&self, request: &csi::DeleteVolumeRequest) -> Result<csi::DeleteVolumeResponse, Status> {
        self.require(Capability::CreateDeleteVolume)?;
        let id = volume_id(&request.volume_id)?;
        self.volumes.delete(&id).await?;
        Ok(csi::DeleteVolumeResponse {})
    }

    async fn controller_publish_volume(
        &self,
        request: &csi::ControllerPublishVolumeRequest,
    ) -> Result<csi::ControllerPublishVolumeResponse, Status> {
        self.require(Capability::PublishUnpublishVolume)?;
        let wanted = publish_volume::check(request, &self.capabilities)?;
        let record = self.existing(&wanted.id)?;
        publish_volume::check_node(&wanted.publication.node_id, &self.node_id, &self.known_nodes)?;
        if wanted.access != record.access {
            let message = format!("volume {} is a {} volume, not a {} one", record.id, record.access, wanted.access);
            return Err(Status::invalid_argument(message));
        }
        let publish_context = [(PUBLISHED_TO.to_owned(), wanted.publication.node_id.to_string())].into();
        self.volumes.publish(&wanted.id, wanted.publication, self.max_volumes_per_node).await?;
        Ok(csi::ControllerPublishVolumeResponse { publish_context })
    }

    /// A node that is not known, any more perhaps, has nothing published: that is what is wanted.
    async fn controller_unpublish_volume(
        &self,
        request: &csi::ControllerUnpublishVolumeRequest,
    ) -> Result<csi::ControllerUnpublishVolumeResponse, Status> {
        self.require(Capability::PublishUnpublishVolume)?;
        let id = volume_id(&request.volume_id)?;
        let node = publish_volume::node_id(&request.node_id)?;
        self.volumes.unpublish(&id, node.as_ref()).await?;
        Ok(csi::ControllerUnpublishVolumeResponse {})
    }

    #[expect(clippy::unnecessary_wraps, clippy::trivially_copy_pass_by_ref, reason = "the shape serve_calls! asks for")]
    fn controller_get_capabilities(
        &self,
        _: &csi::ControllerGetCapabilitiesRequest,
    ) -> Result<csi::ControllerGetCapabilitiesResponse, Status> {
        use csi::controller_service_capability::{Rpc, Type};
        let capabilities = self
            .capabilities
            .of_controller()
            .map(|one| csi::ControllerServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: one.into() })) });
        Ok(csi::ControllerGetCapabilitiesResponse { capabilities: capabilities.collect() })
    }

    fn validate_volume_capabilities(
        &self,
        request: &csi::ValidateVolumeCapabilitiesRequest,
    ) -> Result<csi::ValidateVolumeCapabilitiesResponse, Status> {
        use csi::validate_volume_capabilities_response::Confirmed;
        self.require(Capability::ControllerService)?;
        let id = volume_id(&request.volume_id)?;
        if request.volume_capabilities.is_empty() {
            return Err(Status::invalid_argument("volume_capabilities are required"));
        }
        let record = self.existing(&id)?;
        let access = volume_capability::access(&request.volume_capabilities, &self.capabilities);
        let refusal = match access {
            Err(status) => Some(status.message().to_owned()),
            Ok(access) if access != record.access => Some(format!("volume {id} is a {} volume", record.access)),
            Ok(_) if !request.mutable_parameters.is_empty() => Some("mutable_parameters are not supported".to_owned()),
            Ok(_) => None,
        };
        if let Some(message) = refusal {
            return Ok(csi::ValidateVolumeCapabilitiesResponse { confirmed: None, message });
        }
        let confirmed = Confirmed {
            volume_context: request.volume_context.clone(),
            volume_capabilities: request.volume_capabilities.clone(),
            parameters: request.parameters.clone(),
            ..Confirmed::default()
        };
        Ok(csi::ValidateVolumeCapabilitiesResponse { confirmed: Some(confirmed), message: String::new() })
    }

    fn list_volumes(&self, request: &csi::ListVolumesRequest) -> Result<csi::ListVolumesResponse, Status> {
        self.require(Capability::ListVolumes)?;
        let page = list_volumes::Page::of(request)?;
        let (records, next) = self.volumes.list(page.after, page.limit)?;
        let with_nodes = self.capabilities.has(Capability::ListVolumesPublishedNodes);
        let entry = |record: Arc<Record>| csi::list_volumes_response::Entry {
            volume: Some(self.described(&record)),
            status: with_nodes
                .then(|| csi::list_volumes_response::VolumeStatus { published_node_ids: record.published_nodes() }),
        };
        Ok(csi::ListVolumesResponse {
            entries: records.into_iter().map(entry).collect(),
            next_token: next.map(list_volumes::token).unwrap_or_default(),
        })
    }

    fn controller_get_volume(
        &self,
        request: &csi::ControllerGetVolumeRequest,
    ) -> Result<csi::ControllerGetVolumeResponse, Status> {
        self.require(Capability::GetVolume)?;
        let record = self.existing(&volume_id(&request.volume_id)?)?;
        let with_nodes = self.capabilities.has(Capability::ListVolumesPublishedNodes);
        let published_node_ids = if with_nodes { record.published_nodes() } else { Vec::new() };
        let status = csi::controller_get_volume_response::VolumeStatus { published_node_ids };
        Ok(csi::ControllerGetVolumeResponse { volume: Some(self.described(&record)), status: Some(status) })
    }

    /// What is asked for another place, or with capabilities that no volume here can have, is 0, not an error.
    fn get_capacity(&self, request: &csi::GetCapacityRequest) -> Result<csi::GetCapacityResponse, Status> {
        self.require(Capability::GetCapacity)?;
        let capabilities = &request.volume_capabilities;
        let here = request.accessible_topology.as_ref().is_none_or(|wanted| self.topology.is_in(wanted));
        let possible =
            here && (capabilities.is_empty() || volume_capability::access(capabilities, &self.capabilities).is_ok());
        let available = if possible { self.volumes.available()? } else { 0 };
        Ok(csi::GetCapacityResponse {
            available_capacity: available,
            maximum_volume_size: Some(available),
            minimum_volume_size: None,
        })
    }

    fn existing(&self, id: &VolumeId) -> Result<Arc<Record>, Status> {
        self.volumes.get(id).ok_or_else(|| VolumeError::NotFound(id.clone()).into())
    }

    fn described(&self, record: &Record) -> csi::Volume {
        csi::Volume {
            capacity_bytes: record.capacity_bytes,
            volume_id: record.id.to_string(),
            accessible_topology: self.topology.accessible().into_iter().collect(),
            ..csi::Volume::default()
        }
    }
}

fn volume_id(id: &str) -> Result<VolumeId, Status> {
    if id.is_empty() { Err(Status::invalid_argument("volume_id is required")) } else { Ok(VolumeId::from(id)) }
}
