//! The Node service: this node, and the volumes mounted on it.
//!
//! The flow of one call: `request` checks (pure) → the volume's turn is taken, so that one volume is worked on once
//! at a time → `stage`, `publish` or `stats` look at what is mounted and attached, and change it, on a blocking
//! thread. Nothing is remembered: a driver that starts anew goes on with what the kernel has.

mod ephemeral;
mod error;
mod expand;
mod file_system;
mod mount_flags;
mod mount_point;
mod publish;
mod request;
mod stage;
mod stats;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::node_server::Node;
use tokio::task::spawn_blocking;
use tonic::Status;

use crate::calls::serve_calls;
use crate::capabilities::{Capabilities, Capability};
use crate::controller::PUBLISHED_TO;
use crate::state::{Access, NodeId, Record, VolumeId, Volumes};
use crate::topology::Topology;
use ephemeral::EphemeralVolumes;
use error::NodeError;
use publish::Source;

#[derive(Debug)]
pub(crate) struct NodeService {
    node_id: NodeId,
    max_volumes: Option<u32>,
    topology: Topology,
    capabilities: Arc<Capabilities>,
    volumes: Arc<Volumes>,
    ephemeral: Arc<EphemeralVolumes>,
}

serve_calls! {
    Node for NodeService;
    answers {
        node_get_info NodeGetInfo(NodeGetInfoRequest) -> NodeGetInfoResponse;
        node_get_capabilities NodeGetCapabilities(NodeGetCapabilitiesRequest) -> NodeGetCapabilitiesResponse;
    }
    awaits {
        node_stage_volume NodeStageVolume(NodeStageVolumeRequest) -> NodeStageVolumeResponse;
        node_unstage_volume NodeUnstageVolume(NodeUnstageVolumeRequest) -> NodeUnstageVolumeResponse;
        node_publish_volume NodePublishVolume(NodePublishVolumeRequest) -> NodePublishVolumeResponse;
        node_unpublish_volume NodeUnpublishVolume(NodeUnpublishVolumeRequest) -> NodeUnpublishVolumeResponse;
        node_get_volume_stats NodeGetVolumeStats(NodeGetVolumeStatsRequest) -> NodeGetVolumeStatsResponse;
        node_expand_volume NodeExpandVolume(NodeExpandVolumeRequest) -> NodeExpandVolumeResponse;
    }
    refuses {
        node_get_volume_health NodeGetVolumeHealth(NodeGetVolumeHealthRequest) -> NodeGetVolumeHealthResponse;
        node_get_storage_health NodeGetStorageHealth(NodeGetStorageHealthRequest) -> NodeGetStorageHealthResponse;
    }
}

impl NodeService {
    /// `state_dir` also holds the inline volumes, in a directory of their own.
    pub(crate) fn new(
        node_id: NodeId,
        max_volumes: Option<u32>,
        topology: Topology,
        capabilities: Arc<Capabilities>,
        volumes: Arc<Volumes>,
        state_dir: &Path,
    ) -> Self {
        let ephemeral = Arc::new(EphemeralVolumes(state_dir.join("ephemeral")));
        Self { node_id, max_volumes, topology, capabilities, volumes, ephemeral }
    }

    #[expect(clippy::unnecessary_wraps, clippy::trivially_copy_pass_by_ref, reason = "the shape serve_calls! asks for")]
    fn node_get_info(&self, _: &csi::NodeGetInfoRequest) -> Result<csi::NodeGetInfoResponse, Status> {
        Ok(csi::NodeGetInfoResponse {
            node_id: self.node_id.to_string(),
            max_volumes_per_node: self.max_volumes.map_or(0, i64::from),
            accessible_topology: self.topology.accessible(),
        })
    }

    #[expect(clippy::unnecessary_wraps, clippy::trivially_copy_pass_by_ref, reason = "the shape serve_calls! asks for")]
    fn node_get_capabilities(
        &self,
        _: &csi::NodeGetCapabilitiesRequest,
    ) -> Result<csi::NodeGetCapabilitiesResponse, Status> {
        use csi::node_service_capability::{Rpc, Type};
        let capabilities = self
            .capabilities
            .of_node()
            .map(|one| csi::NodeServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: one.into() })) });
        Ok(csi::NodeGetCapabilitiesResponse { capabilities: capabilities.collect() })
    }

    async fn node_stage_volume(
        &self,
        request: &csi::NodeStageVolumeRequest,
    ) -> Result<csi::NodeStageVolumeResponse, Status> {
        self.require(Capability::StageUnstageVolume)?;
        let id = request::volume_id(&request.volume_id)?;
        let staging = request::path("staging_target_path", &request.staging_target_path)?;
        let usage = request::usage(request.volume_capability.as_ref(), &self.capabilities)?;
        let (_turn, record) = self.volumes.hold(&id).await.ok_or_else(|| NodeError::NotFound(id.clone()))?;
        check_access(&record, usage.access)?;
        self.check_published_here(&id, request.publish_context.get(PUBLISHED_TO))?;
        let content = self.content(&record)?;
        blocking(move || stage::stage(&id, &content.ready(&id)?, &staging, &usage)).await?;
        Ok(csi::NodeStageVolumeResponse {})
    }

    async fn node_unstage_volume(
        &self,
        request: &csi::NodeUnstageVolumeRequest,
    ) -> Result<csi::NodeUnstageVolumeResponse, Status> {
        self.require(Capability::StageUnstageVolume)?;
        let id = request::volume_id(&request.volume_id)?;
        let staging = request::path("staging_target_path", &request.staging_target_path)?;
        let _turn = self.volumes.turn(&id).await;
        blocking(move || stage::unstage(&id, &staging)).await?;
        Ok(csi::NodeUnstageVolumeResponse {})
    }

    async fn node_publish_volume(
        &self,
        request: &csi::NodePublishVolumeRequest,
    ) -> Result<csi::NodePublishVolumeResponse, Status> {
        let wanted = request::publish(request, &self.capabilities)?;
        if wanted.ephemeral {
            self.publish_ephemeral(wanted).await?;
            return Ok(csi::NodePublishVolumeResponse {});
        }
        let id = &wanted.id;
        let (_turn, record) = self.volumes.hold(id).await.ok_or_else(|| NodeError::NotFound(id.clone()))?;
        check_access(&record, wanted.usage.access)?;
        self.check_published_here(id, request.publish_context.get(PUBLISHED_TO))?;
        let content = self.content(&record)?;
        let source = match request.staging_target_path.as_str() {
            _ if !self.capabilities.has(Capability::StageUnstageVolume) => {
                let id = id.clone();
                Source::Content(blocking(move || content.ready(&id)).await?)
            }
            // CSI "NodePublishVolume Errors", "Staging target path not set".
            "" => {
                return Err(Status::failed_precondition("staging_target_path is required: the volume is staged first"));
            }
            path => Source::Staged { content: content.path, staging: request::path("staging_target_path", path)? },
        };
        blocking(move || publish::publish(&wanted, &source)).await?;
        Ok(csi::NodePublishVolumeResponse {})
    }

    async fn publish_ephemeral(&self, wanted: request::Publish) -> Result<(), Status> {
        if self.volumes.get(&wanted.id).is_some() {
            return Err(Status::invalid_argument(format!("volume {} is not an ephemeral volume", wanted.id)));
        }
        let _turn = self.volumes.turn(&wanted.id).await;
        let ephemeral = Arc::clone(&self.ephemeral);
        let published = blocking(move || {
            let published =
                ephemeral.create(&wanted.id).and_then(|content| publish::publish(&wanted, &Source::Content(content)));
            if published.is_err() {
                // Best effort: NodeUnpublishVolume removes it otherwise.
                let _ = ephemeral.remove_unused(&wanted.id);
            }
            published
        });
        Ok(published.await?)
    }

    async fn node_unpublish_volume(
        &self,
        request: &csi::NodeUnpublishVolumeRequest,
    ) -> Result<csi::NodeUnpublishVolumeResponse, Status> {
        let id = request::volume_id(&request.volume_id)?;
        let target = request::path("target_path", &request.target_path)?;
        let _turn = self.volumes.turn(&id).await;
        let ephemeral = Arc::clone(&self.ephemeral);
        let staged = self.capabilities.has(Capability::StageUnstageVolume);
        let unpublished = blocking(move || {
            publish::unpublish(&id, &target, staged)?;
            ephemeral.remove_unused(&id)
        });
        unpublished.await?;
        Ok(csi::NodeUnpublishVolumeResponse {})
    }

    async fn node_get_volume_stats(
        &self,
        request: &csi::NodeGetVolumeStatsRequest,
    ) -> Result<csi::NodeGetVolumeStatsResponse, Status> {
        self.require(Capability::GetVolumeStats)?;
        let id = request::volume_id(&request.volume_id)?;
        if request.volume_path.is_empty() {
            return Err(Status::invalid_argument("volume_path is required"));
        }
        let path = PathBuf::from(&request.volume_path);
        let (access, capacity) = match self.volumes.get(&id) {
            Some(record) => (record.access, record.capacity_bytes),
            None if self.ephemeral.find(&id).is_some() => (Access::Mount, 0),
            None => return Err(NodeError::NotFound(id).into()),
        };
        let usage = blocking(move || stats::stats(&id, access, capacity, &path)).await?;
        Ok(csi::NodeGetVolumeStatsResponse { usage })
    }

    async fn node_expand_volume(
        &self,
        request: &csi::NodeExpandVolumeRequest,
    ) -> Result<csi::NodeExpandVolumeResponse, Status> {
        self.require(Capability::NodeExpandVolume)?;
        let id = request::volume_id(&request.volume_id)?;
        if request.volume_path.is_empty() {
            return Err(Status::invalid_argument("volume_path is required"));
        }
        let path = PathBuf::from(&request.volume_path);
        let (_turn, record) = self.volumes.hold(&id).await.ok_or_else(|| NodeError::NotFound(id.clone()))?;
        let (access, has) = (record.access, record.capacity_bytes);
        let wanted = request.capacity_range.as_ref().map_or(0, |range| range.required_bytes);
        if wanted > has {
            return Err(NodeError::Smaller { id, has, wanted }.into());
        }
        blocking(move || expand::expand(&id, access, &path)).await?;
        Ok(csi::NodeExpandVolumeResponse { capacity_bytes: has })
    }

    fn require(&self, capability: Capability) -> Result<(), Status> {
        if self.capabilities.has(capability) {
            return Ok(());
        }
        Err(Status::unimplemented(format!("{} is switched off by --capabilities", capability.name())))
    }

    /// Paths that are mounted are to be absolute, whatever `--state-dir` is.
    fn content(&self, record: &Record) -> Result<Content, NodeError> {
        let content = self.volumes.content(record);
        let path = std::path::absolute(&content).map_err(NodeError::io("find", &content))?;
        Ok(Content { path, access: record.access })
    }

    /// The context that ControllerPublishVolume returned, where it is in use.
    fn check_published_here(&self, id: &VolumeId, found: Option<&String>) -> Result<(), NodeError> {
        let needed = self.capabilities.has(Capability::PublishUnpublishVolume);
        if !needed || found.is_some_and(|node| NodeId::from(node.as_str()) == self.node_id) {
            return Ok(());
        }
        let found = found.map_or_else(|| format!("no {PUBLISHED_TO}"), |node| format!("{PUBLISHED_TO}={node}"));
        Err(NodeError::NotPublishedHere { id: id.clone(), node_id: self.node_id.clone(), found })
    }
}

/// The directory or file that is a volume.
#[derive(Debug)]
struct Content {
    path: PathBuf,
    access: Access,
}

impl Content {
    /// What there is to bind or to attach: of an image, the directory in it. To be called on a blocking thread.
    fn ready(self, id: &VolumeId) -> Result<PathBuf, NodeError> {
        match self.access {
            Access::Mount | Access::Block => Ok(self.path),
            Access::Image => file_system::mounted(id, &self.path),
        }
    }
}

/// Lets a volume that has grown do so where this node uses it.
pub(crate) async fn expand_here(volumes: &Volumes, id: &VolumeId) -> Result<(), Status> {
    let (_turn, record) = volumes.hold(id).await.ok_or_else(|| NodeError::NotFound(id.clone()))?;
    let (id, content) = (id.clone(), volumes.content(&record));
    Ok(blocking(move || expand::grow(&id, &content)).await?)
}

fn check_access(record: &Record, wanted: Access) -> Result<(), NodeError> {
    if record.access.as_used() == wanted {
        return Ok(());
    }
    let (is, wanted) = (record.access.to_string(), wanted.to_string());
    Err(NodeError::WrongAccess { id: record.id.clone(), is, wanted })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NodeError> + Send + 'static,
) -> Result<T, NodeError> {
    spawn_blocking(work).await.map_err(|_| NodeError::Interrupted)?
}
