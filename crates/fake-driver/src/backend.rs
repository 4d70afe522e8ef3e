//! The default behaviour: volumes in memory, answered at once.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::csi::v1::plugin_capability::service::Type as PluginService;
use tonic::Status;

use crate::place::{Capacities, Placement, topology};

/// What the driver says of itself. Changes hold for the next call; drivers change it between restarts.
#[derive(Clone, Debug, PartialEq)]
pub struct Identity {
    /// `GetPluginInfo.name`; may be made empty or invalid.
    pub name: String,
    /// `GetPluginInfo.vendor_version`.
    pub vendor_version: String,
    /// `Probe.ready`; `None` leaves the field out, which means ready (CSI "Probe").
    pub ready: Option<bool>,
    /// The services of `GetPluginCapabilities`.
    pub plugin_capabilities: Vec<PluginService>,
    /// The RPCs of `ControllerGetCapabilities`. The calls themselves are served whether listed or not.
    pub controller_capabilities: Vec<ControllerCapability>,
    /// The answer to `NodeGetInfo`; `None` is a driver without node service.
    pub node: Option<csi::NodeGetInfoResponse>,
    /// Where volumes are made, so far as CreateVolume says. Holds for the volumes there are, too.
    pub placement: Placement,
}

impl Identity {
    /// Switches a capability of the Controller service on or off.
    pub fn set(&mut self, capability: ControllerCapability, on: bool) {
        self.controller_capabilities.retain(|one| *one != capability);
        self.controller_capabilities.extend(on.then_some(capability));
    }

    /// Switches `VOLUME_ACCESSIBILITY_CONSTRAINTS`, a service of the plugin, on or off.
    pub fn set_topology(&mut self, on: bool) {
        let constraints = PluginService::VolumeAccessibilityConstraints;
        self.plugin_capabilities.retain(|one| *one != constraints);
        self.plugin_capabilities.extend(on.then_some(constraints));
    }

    /// Puts the node into a place, as `NodeGetInfo` answers; without segments, nowhere.
    pub fn set_node_topology(&mut self, segments: &[(&str, &str)]) {
        let node = self.node.get_or_insert_default();
        node.accessible_topology = (!segments.is_empty()).then(|| topology(segments));
    }
}

impl Default for Identity {
    fn default() -> Self {
        Self {
            name: "fake.csi.example.com".to_owned(),
            vendor_version: "1.0.0".to_owned(),
            ready: Some(true),
            plugin_capabilities: vec![PluginService::ControllerService],
            controller_capabilities: vec![ControllerCapability::CreateDeleteVolume],
            node: Some(csi::NodeGetInfoResponse { node_id: "node-1".to_owned(), ..Default::default() }),
            placement: Placement::default(),
        }
    }
}

/// A volume the driver holds.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendVolume {
    /// The handle: `handle-<n>-of-<name>`, where n counts the creations of that name.
    pub id: String,
    /// `CreateVolumeRequest.name`.
    pub name: String,
    /// Bytes; what was required, else the limit, else 0.
    pub capacity_bytes: i64,
    /// The request that made it, secrets included.
    pub request: csi::CreateVolumeRequest,
}

#[derive(Debug, Default)]
#[doc(hidden)]
pub struct Backend {
    pub(crate) identity: Identity,
    pub(crate) capacities: Capacities,
    volumes: BTreeMap<String, BackendVolume>,
    creations: HashMap<String, u64>,
    /// Node ids by handle.
    published: BTreeMap<String, BTreeSet<String>>,
}

impl Backend {
    pub(crate) fn volumes(&self) -> Vec<BackendVolume> {
        self.volumes.values().cloned().collect()
    }

    pub(crate) fn add(&mut self, volume: BackendVolume) {
        self.volumes.insert(volume.name.clone(), volume);
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<BackendVolume> {
        let name = self.by_id(id)?.name.clone();
        self.volumes.remove(&name)
    }

    pub(crate) fn published_nodes(&self, id: &str) -> Vec<String> {
        self.published.get(id).map(|nodes| nodes.iter().cloned().collect()).unwrap_or_default()
    }

    pub(crate) fn publish(&mut self, id: &str, node: &str) {
        self.published.entry(id.to_owned()).or_default().insert(node.to_owned());
    }

    pub(crate) fn unpublish(&mut self, id: &str, node: &str) {
        if let Some(nodes) = self.published.get_mut(id) {
            nodes.remove(node);
            if nodes.is_empty() {
                self.published.remove(id);
            }
        }
    }

    fn described(&self, volume: &BackendVolume) -> csi::Volume {
        csi::Volume {
            volume_id: volume.id.clone(),
            capacity_bytes: volume.capacity_bytes,
            content_source: volume.request.volume_content_source.clone(),
            accessible_topology: self.identity.placement.of(volume.request.accessibility_requirements.as_ref()),
            ..csi::Volume::default()
        }
    }

    fn by_id(&self, id: &str) -> Option<&BackendVolume> {
        self.volumes.values().find(|volume| volume.id == id)
    }

    fn create(&mut self, request: &csi::CreateVolumeRequest) -> Result<BackendVolume, Status> {
        if request.name.is_empty() {
            return Err(Status::invalid_argument("fake driver: no volume name"));
        }
        let range = request.capacity_range.unwrap_or_default();
        if let Some(volume) = self.volumes.get(&request.name) {
            let fits = volume.capacity_bytes >= range.required_bytes
                && (range.limit_bytes == 0 || volume.capacity_bytes <= range.limit_bytes);
            let same = volume.request.parameters == request.parameters
                && volume.request.volume_content_source == request.volume_content_source;
            return if fits && same {
                Ok(volume.clone())
            } else {
                Err(Status::already_exists(format!(
                    "fake driver: volume {} exists with other properties",
                    request.name
                )))
            };
        }
        let creations = self.creations.entry(request.name.clone()).or_default();
        *creations += 1;
        let volume = BackendVolume {
            id: format!("handle-{creations}-of-{}", request.name),
            name: request.name.clone(),
            capacity_bytes: if range.required_bytes > 0 { range.required_bytes } else { range.limit_bytes },
            request: request.clone(),
        };
        self.add(volume.clone());
        Ok(volume)
    }
}

fn unscripted(rpc: &str) -> Status {
    Status::unimplemented(format!("fake driver: {rpc} has no default behaviour; script it"))
}

/// Signatures follow the table of RPCs.
#[expect(clippy::unnecessary_wraps, clippy::trivially_copy_pass_by_ref, reason = "one shape for all RPCs")]
impl Backend {
    pub(crate) fn get_plugin_info(
        &mut self,
        _: &csi::GetPluginInfoRequest,
    ) -> Result<csi::GetPluginInfoResponse, Status> {
        Ok(csi::GetPluginInfoResponse {
            name: self.identity.name.clone(),
            vendor_version: self.identity.vendor_version.clone(),
            ..csi::GetPluginInfoResponse::default()
        })
    }

    pub(crate) fn get_plugin_capabilities(
        &mut self,
        _: &csi::GetPluginCapabilitiesRequest,
    ) -> Result<csi::GetPluginCapabilitiesResponse, Status> {
        let capabilities = self.identity.plugin_capabilities.iter().map(|service| csi::PluginCapability {
            r#type: Some(csi::plugin_capability::Type::Service(csi::plugin_capability::Service {
                r#type: (*service).into(),
            })),
        });
        Ok(csi::GetPluginCapabilitiesResponse { capabilities: capabilities.collect() })
    }

    pub(crate) fn probe(&mut self, _: &csi::ProbeRequest) -> Result<csi::ProbeResponse, Status> {
        Ok(csi::ProbeResponse { ready: self.identity.ready })
    }

    pub(crate) fn node_get_info(&mut self, _: &csi::NodeGetInfoRequest) -> Result<csi::NodeGetInfoResponse, Status> {
        self.identity.node.clone().ok_or_else(|| Status::unimplemented("fake driver: no node service"))
    }

    pub(crate) fn controller_get_capabilities(
        &mut self,
        _: &csi::ControllerGetCapabilitiesRequest,
    ) -> Result<csi::ControllerGetCapabilitiesResponse, Status> {
        use csi::controller_service_capability::{Rpc, Type};
        let capabilities = self
            .identity
            .controller_capabilities
            .iter()
            .map(|rpc| csi::ControllerServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: (*rpc).into() })) });
        Ok(csi::ControllerGetCapabilitiesResponse { capabilities: capabilities.collect() })
    }

    pub(crate) fn create_volume(
        &mut self,
        request: &csi::CreateVolumeRequest,
    ) -> Result<csi::CreateVolumeResponse, Status> {
        let volume = self.create(request)?;
        Ok(csi::CreateVolumeResponse { volume: Some(self.described(&volume)) })
    }

    pub(crate) fn delete_volume(
        &mut self,
        request: &csi::DeleteVolumeRequest,
    ) -> Result<csi::DeleteVolumeResponse, Status> {
        if request.volume_id.is_empty() {
            return Err(Status::invalid_argument("fake driver: no volume id"));
        }
        self.remove(&request.volume_id);
        Ok(csi::DeleteVolumeResponse {})
    }

    pub(crate) fn controller_publish_volume(
        &mut self,
        request: &csi::ControllerPublishVolumeRequest,
    ) -> Result<csi::ControllerPublishVolumeResponse, Status> {
        if request.volume_id.is_empty() || request.node_id.is_empty() || request.volume_capability.is_none() {
            return Err(Status::invalid_argument("fake driver: no volume id, node id or capability"));
        }
        self.publish(&request.volume_id, &request.node_id);
        Ok(csi::ControllerPublishVolumeResponse::default())
    }

    pub(crate) fn controller_unpublish_volume(
        &mut self,
        request: &csi::ControllerUnpublishVolumeRequest,
    ) -> Result<csi::ControllerUnpublishVolumeResponse, Status> {
        if request.volume_id.is_empty() {
            return Err(Status::invalid_argument("fake driver: no volume id"));
        }
        if request.node_id.is_empty() {
            // CSI: from all nodes.
            self.published.remove(&request.volume_id);
        }
        self.unpublish(&request.volume_id, &request.node_id);
        Ok(csi::ControllerUnpublishVolumeResponse {})
    }

    pub(crate) fn list_volumes(&mut self, _: &csi::ListVolumesRequest) -> Result<csi::ListVolumesResponse, Status> {
        use csi::list_volumes_response::{Entry, VolumeStatus};
        let mut ids: BTreeSet<&str> = self.volumes.values().map(|volume| volume.id.as_str()).collect();
        ids.extend(self.published.keys().map(String::as_str));
        let says_where =
            self.identity.controller_capabilities.contains(&ControllerCapability::ListVolumesPublishedNodes);
        let entries = ids.into_iter().map(|id| Entry {
            volume: Some(self.by_id(id).map_or_else(
                || csi::Volume { volume_id: id.to_owned(), ..csi::Volume::default() },
                |volume| self.described(volume),
            )),
            status: says_where.then(|| VolumeStatus { published_node_ids: self.published_nodes(id) }),
        });
        Ok(csi::ListVolumesResponse { entries: entries.collect(), next_token: String::new() })
    }

    pub(crate) fn controller_get_volume(
        &mut self,
        request: &csi::ControllerGetVolumeRequest,
    ) -> Result<csi::ControllerGetVolumeResponse, Status> {
        let volume = self
            .by_id(&request.volume_id)
            .ok_or_else(|| Status::not_found(format!("fake driver: no volume {}", request.volume_id)))?;
        Ok(csi::ControllerGetVolumeResponse { volume: Some(self.described(volume)), status: None })
    }

    pub(crate) fn get_capacity(
        &mut self,
        request: &csi::GetCapacityRequest,
    ) -> Result<csi::GetCapacityResponse, Status> {
        Ok(self.capacities.of(request))
    }

    pub(crate) fn validate_volume_capabilities(
        &mut self,
        request: &csi::ValidateVolumeCapabilitiesRequest,
    ) -> Result<csi::ValidateVolumeCapabilitiesResponse, Status> {
        use csi::validate_volume_capabilities_response::Confirmed;
        if self.by_id(&request.volume_id).is_none() {
            return Err(Status::not_found(format!("fake driver: no volume {}", request.volume_id)));
        }
        let confirmed = Confirmed { volume_capabilities: request.volume_capabilities.clone(), ..Confirmed::default() };
        Ok(csi::ValidateVolumeCapabilitiesResponse { confirmed: Some(confirmed), message: String::new() })
    }
}

macro_rules! no_default {
    ($($method:ident($request:ident) -> $response:ident;)*) => {
        impl Backend {
            $(pub(crate) fn $method(&mut self, _: &csi::$request) -> Result<csi::$response, Status> {
                Err(unscripted(stringify!($method)))
            })*
        }
    };
}
no_default! {
    controller_list_volume_health(ControllerListVolumeHealthRequest) -> ControllerListVolumeHealthResponse;
    controller_get_volume_health(ControllerGetVolumeHealthRequest) -> ControllerGetVolumeHealthResponse;
    create_snapshot(CreateSnapshotRequest) -> CreateSnapshotResponse;
    delete_snapshot(DeleteSnapshotRequest) -> DeleteSnapshotResponse;
    list_snapshots(ListSnapshotsRequest) -> ListSnapshotsResponse;
    get_snapshot(GetSnapshotRequest) -> GetSnapshotResponse;
    controller_expand_volume(ControllerExpandVolumeRequest) -> ControllerExpandVolumeResponse;
    controller_modify_volume(ControllerModifyVolumeRequest) -> ControllerModifyVolumeResponse;
    node_stage_volume(NodeStageVolumeRequest) -> NodeStageVolumeResponse;
    node_unstage_volume(NodeUnstageVolumeRequest) -> NodeUnstageVolumeResponse;
    node_publish_volume(NodePublishVolumeRequest) -> NodePublishVolumeResponse;
    node_unpublish_volume(NodeUnpublishVolumeRequest) -> NodeUnpublishVolumeResponse;
    node_get_volume_stats(NodeGetVolumeStatsRequest) -> NodeGetVolumeStatsResponse;
    node_get_volume_health(NodeGetVolumeHealthRequest) -> NodeGetVolumeHealthResponse;
    node_get_storage_health(NodeGetStorageHealthRequest) -> NodeGetStorageHealthResponse;
    node_expand_volume(NodeExpandVolumeRequest) -> NodeExpandVolumeResponse;
    node_get_capabilities(NodeGetCapabilitiesRequest) -> NodeGetCapabilitiesResponse;
}
