//! The Controller service: requests checked, volumes asked of the state, results as CSI says.

mod create_volume;
mod list_volumes;

use std::sync::Arc;

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::controller_server::Controller;
use tonic::Status;

use crate::calls::serve_calls;
use crate::capabilities::{Capabilities, Capability};
use crate::state::{Record, VolumeId, Volumes};

#[derive(Debug)]
pub(crate) struct ControllerService {
    pub(crate) capabilities: Arc<Capabilities>,
    pub(crate) volumes: Arc<Volumes>,
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
    }
    refuses {
        controller_publish_volume ControllerPublishVolume(ControllerPublishVolumeRequest) -> ControllerPublishVolumeResponse;
        controller_unpublish_volume ControllerUnpublishVolume(ControllerUnpublishVolumeRequest) -> ControllerUnpublishVolumeResponse;
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
        let wanted = create_volume::check(request, &self.capabilities)?;
        let record = self.volumes.create(wanted).await?;
        Ok(csi::CreateVolumeResponse { volume: Some(described(&record)) })
    }

    async fn delete_volume(&self, request: &csi::DeleteVolumeRequest) -> Result<csi::DeleteVolumeResponse, Status> {
        self.require(Capability::CreateDeleteVolume)?;
        let id = volume_id(&request.volume_id)?;
        self.volumes.delete(&id).await?;
        Ok(csi::DeleteVolumeResponse {})
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
        let access = create_volume::access(&request.volume_capabilities, &self.capabilities);
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
        let entry =
            |record: Arc<Record>| csi::list_volumes_response::Entry { volume: Some(described(&record)), status: None };
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
        Ok(csi::ControllerGetVolumeResponse { volume: Some(described(&record)), status: None })
    }

    /// What is asked for a class with capabilities that no volume here can have is 0, not an error.
    fn get_capacity(&self, request: &csi::GetCapacityRequest) -> Result<csi::GetCapacityResponse, Status> {
        self.require(Capability::GetCapacity)?;
        let capabilities = &request.volume_capabilities;
        let possible = capabilities.is_empty() || create_volume::access(capabilities, &self.capabilities).is_ok();
        let available = if possible { self.volumes.available()? } else { 0 };
        Ok(csi::GetCapacityResponse {
            available_capacity: available,
            maximum_volume_size: Some(available),
            minimum_volume_size: None,
        })
    }

    fn existing(&self, id: &VolumeId) -> Result<Arc<Record>, Status> {
        self.volumes.get(id).ok_or_else(|| Status::not_found(format!("volume {id} does not exist")))
    }
}

fn volume_id(id: &str) -> Result<VolumeId, Status> {
    if id.is_empty() { Err(Status::invalid_argument("volume_id is required")) } else { Ok(VolumeId::from(id)) }
}

fn described(record: &Record) -> csi::Volume {
    csi::Volume { capacity_bytes: record.capacity_bytes, volume_id: record.id.to_string(), ..csi::Volume::default() }
}
