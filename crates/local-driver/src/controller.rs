//! The Controller service: requests checked, volumes asked of the state, results as CSI says.

mod create_volume;
mod expand_volume;
mod mutable_parameters;
mod page;
mod publish_volume;
mod snapshots;

use std::collections::BTreeSet;
use std::sync::Arc;

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::controller_server::Controller;
use tonic::Status;

use crate::calls::serve_calls;
use crate::capabilities::{Capabilities, Capability};
use crate::node;
use crate::state::{ContentSource, NodeId, Record, Snapshots, StateError, VolumeId, Volumes, Wanted};
use crate::topology::{Places, Topology};
use crate::volume_capability;
use page::Page;

pub(crate) use publish_volume::PUBLISHED_TO;

#[derive(Debug)]
pub(crate) struct ControllerService {
    pub(crate) capabilities: Arc<Capabilities>,
    pub(crate) volumes: Arc<Volumes>,
    pub(crate) node_id: NodeId,
    /// Nodes besides this one; none given means that any is accepted.
    pub(crate) known_nodes: BTreeSet<String>,
    pub(crate) max_volumes_per_node: Option<u32>,
    pub(crate) places: Places,
    /// Keys that may be changed.
    pub(crate) mutable_parameters: mutable_parameters::Known,
    /// Bytes one volume may have.
    pub(crate) max_volume_size: Option<i64>,
    /// What ControllerExpandVolume says instead of the truth.
    pub(crate) answered_size: Option<i64>,
    pub(crate) snapshots: Snapshots,
}

serve_calls! {
    Controller for ControllerService;
    answers {
        controller_get_capabilities ControllerGetCapabilities(ControllerGetCapabilitiesRequest) -> ControllerGetCapabilitiesResponse;
        validate_volume_capabilities ValidateVolumeCapabilities(ValidateVolumeCapabilitiesRequest) -> ValidateVolumeCapabilitiesResponse;
        list_volumes ListVolumes(ListVolumesRequest) -> ListVolumesResponse;
        controller_get_volume ControllerGetVolume(ControllerGetVolumeRequest) -> ControllerGetVolumeResponse;
        get_capacity GetCapacity(GetCapacityRequest) -> GetCapacityResponse;
        list_snapshots ListSnapshots(ListSnapshotsRequest) -> ListSnapshotsResponse;
        get_snapshot GetSnapshot(GetSnapshotRequest) -> GetSnapshotResponse;
    }
    awaits {
        create_volume CreateVolume(CreateVolumeRequest) -> CreateVolumeResponse;
        delete_volume DeleteVolume(DeleteVolumeRequest) -> DeleteVolumeResponse;
        controller_publish_volume ControllerPublishVolume(ControllerPublishVolumeRequest) -> ControllerPublishVolumeResponse;
        controller_unpublish_volume ControllerUnpublishVolume(ControllerUnpublishVolumeRequest) -> ControllerUnpublishVolumeResponse;
        create_snapshot CreateSnapshot(CreateSnapshotRequest) -> CreateSnapshotResponse;
        delete_snapshot DeleteSnapshot(DeleteSnapshotRequest) -> DeleteSnapshotResponse;
        controller_expand_volume ControllerExpandVolume(ControllerExpandVolumeRequest) -> ControllerExpandVolumeResponse;
        controller_modify_volume ControllerModifyVolume(ControllerModifyVolumeRequest) -> ControllerModifyVolumeResponse;
    }
    refuses {
        controller_list_volume_health ControllerListVolumeHealth(ControllerListVolumeHealthRequest) -> ControllerListVolumeHealthResponse;
        controller_get_volume_health ControllerGetVolumeHealth(ControllerGetVolumeHealthRequest) -> ControllerGetVolumeHealthResponse;
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
        let wanted = create_volume::check(request, &self.capabilities, &self.places, &self.mutable_parameters)?;
        let wanted = Wanted { size: expand_volume::within(wanted.size, self.max_volume_size)?, ..wanted };
        let record = self.volumes.create(wanted, &self.snapshots).await?;
        Ok(csi::CreateVolumeResponse { volume: Some(self.described(&record)) })
    }

    async fn delete_volume(&self, request: &csi::DeleteVolumeRequest) -> Result<csi::DeleteVolumeResponse, Status> {
        self.require(Capability::CreateDeleteVolume)?;
        let id = volume_id("volume_id", &request.volume_id)?;
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
        if wanted.access != record.access.as_used() {
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
        let id = volume_id("volume_id", &request.volume_id)?;
        let node = publish_volume::node_id(&request.node_id)?;
        self.volumes.unpublish(&id, node.as_ref()).await?;
        Ok(csi::ControllerUnpublishVolumeResponse {})
    }

    /// Without node expansion all is done here: the volumes are on this machine.
    async fn controller_expand_volume(
        &self,
        request: &csi::ControllerExpandVolumeRequest,
    ) -> Result<csi::ControllerExpandVolumeResponse, Status> {
        self.require(Capability::ExpandVolume)?;
        let wanted = expand_volume::check(request, &self.capabilities, self.max_volume_size)?;
        let record = self.existing(&wanted.id)?;
        if let Some(access) = wanted.access.filter(|access| *access != record.access.as_used()) {
            let message = format!("volume {} is a {} volume, not a {access} one", record.id, record.access);
            return Err(Status::invalid_argument(message));
        }
        let offline = self.capabilities.has(Capability::VolumeExpansionOffline);
        let record = self.volumes.expand(&wanted.id, wanted.size, offline).await?;
        let node_expansion_required = self.capabilities.has(Capability::NodeExpandVolume);
        if !node_expansion_required {
            node::expand_here(&self.volumes, &wanted.id).await?;
        }
        let capacity_bytes = self.answered_size.unwrap_or(record.capacity_bytes);
        Ok(csi::ControllerExpandVolumeResponse { capacity_bytes, node_expansion_required })
    }

    async fn controller_modify_volume(
        &self,
        request: &csi::ControllerModifyVolumeRequest,
    ) -> Result<csi::ControllerModifyVolumeResponse, Status> {
        self.require(Capability::ModifyVolume)?;
        let id = volume_id("volume_id", &request.volume_id)?;
        if request.mutable_parameters.is_empty() {
            return Err(Status::invalid_argument("mutable_parameters are required"));
        }
        mutable_parameters::check(&request.mutable_parameters, &self.mutable_parameters)?;
        self.volumes.modify(&id, request.mutable_parameters.clone()).await?;
        Ok(csi::ControllerModifyVolumeResponse {})
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
        let id = volume_id("volume_id", &request.volume_id)?;
        if request.volume_capabilities.is_empty() {
            return Err(Status::invalid_argument("volume_capabilities are required"));
        }
        let record = self.existing(&id)?;
        let access = volume_capability::access(&request.volume_capabilities, &self.capabilities);
        let refusal = match access {
            Err(status) => Some(status.message().to_owned()),
            Ok(access) if access != record.access.as_used() => {
                Some(format!("volume {id} is a {} volume", record.access))
            }
            Ok(_) => mutable_parameters::check_supported(
                &request.mutable_parameters,
                &self.mutable_parameters,
                &self.capabilities,
            )
            .err()
            .map(|status| status.message().to_owned()),
        };
        if let Some(message) = refusal {
            return Ok(csi::ValidateVolumeCapabilitiesResponse { confirmed: None, message });
        }
        let confirmed = Confirmed {
            volume_context: request.volume_context.clone(),
            volume_capabilities: request.volume_capabilities.clone(),
            parameters: request.parameters.clone(),
            mutable_parameters: request.mutable_parameters.clone(),
        };
        Ok(csi::ValidateVolumeCapabilitiesResponse { confirmed: Some(confirmed), message: String::new() })
    }

    fn list_volumes(&self, request: &csi::ListVolumesRequest) -> Result<csi::ListVolumesResponse, Status> {
        self.require(Capability::ListVolumes)?;
        let page = Page::of(request.max_entries, &request.starting_token)?;
        let (records, next) = self.volumes.list(page.after, page.limit)?;
        let with_nodes = self.capabilities.has(Capability::ListVolumesPublishedNodes);
        let entry = |record: Arc<Record>| csi::list_volumes_response::Entry {
            volume: Some(self.described(&record)),
            status: with_nodes
                .then(|| csi::list_volumes_response::VolumeStatus { published_node_ids: record.published_nodes() }),
        };
        Ok(csi::ListVolumesResponse {
            entries: records.into_iter().map(entry).collect(),
            next_token: next.map(page::token).unwrap_or_default(),
        })
    }

    fn controller_get_volume(
        &self,
        request: &csi::ControllerGetVolumeRequest,
    ) -> Result<csi::ControllerGetVolumeResponse, Status> {
        self.require(Capability::GetVolume)?;
        let record = self.existing(&volume_id("volume_id", &request.volume_id)?)?;
        let with_nodes = self.capabilities.has(Capability::ListVolumesPublishedNodes);
        let published_node_ids = if with_nodes { record.published_nodes() } else { Vec::new() };
        let status = csi::controller_get_volume_response::VolumeStatus { published_node_ids };
        Ok(csi::ControllerGetVolumeResponse { volume: Some(self.described(&record)), status: Some(status) })
    }

    /// What is asked for another place, or with capabilities that no volume here can have, is 0, not an error. All
    /// places share what there is, and parameters have no meaning.
    fn get_capacity(&self, request: &csi::GetCapacityRequest) -> Result<csi::GetCapacityResponse, Status> {
        self.require(Capability::GetCapacity)?;
        let capabilities = &request.volume_capabilities;
        let wanted = request.accessible_topology.as_ref().map(Topology::from);
        let served = wanted.is_none_or(|wanted| wanted.is_empty() || self.places.serves(&wanted));
        let possible =
            served && (capabilities.is_empty() || volume_capability::access(capabilities, &self.capabilities).is_ok());
        let available = if possible { self.volumes.available()? } else { 0 };
        Ok(csi::GetCapacityResponse {
            available_capacity: available,
            maximum_volume_size: Some(available.min(self.max_volume_size.unwrap_or(i64::MAX))),
            minimum_volume_size: None,
        })
    }

    fn existing(&self, id: &VolumeId) -> Result<Arc<Record>, Status> {
        let missing = || StateError::NotFound { kind: "volume", id: id.to_string() };
        self.volumes.get(id).ok_or_else(|| missing().into())
    }

    fn described(&self, record: &Record) -> csi::Volume {
        // A record of a driver without topology has no place.
        let place = record.place.as_ref().or_else(|| self.places.first());
        csi::Volume {
            capacity_bytes: record.capacity_bytes,
            volume_id: record.id.to_string(),
            content_source: record.source.as_ref().map(described_source),
            accessible_topology: place.and_then(Topology::accessible).into_iter().collect(),
            ..csi::Volume::default()
        }
    }
}

fn described_source(source: &ContentSource) -> csi::VolumeContentSource {
    use csi::volume_content_source::{SnapshotSource, Type, VolumeSource};
    let source = match source {
        ContentSource::Snapshot(id) => Type::Snapshot(SnapshotSource { snapshot_id: id.to_string() }),
        ContentSource::Volume(id) => Type::Volume(VolumeSource { volume_id: id.to_string() }),
    };
    csi::VolumeContentSource { r#type: Some(source) }
}

/// `field` is where the id stands in the request.
fn volume_id(field: &str, id: &str) -> Result<VolumeId, Status> {
    if id.is_empty() { Err(Status::invalid_argument(format!("{field} is required"))) } else { Ok(VolumeId::from(id)) }
}
