//! Requests of the kind a kubelet makes, and their outcomes by code.

use std::path::Path;

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::node_client::NodeClient;
use csi_proto::csi::v1::volume_capability::access_mode::Mode;
use csi_proto::csi::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use tonic::Code;
use tonic::transport::Channel;

/// What one pod wants of one volume.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) publish: csi::NodePublishVolumeRequest,
}

impl Pod {
    /// A mount volume, staged at `staging`, for one node.
    pub(crate) fn of(volume_id: &str, staging: &Path, target: &Path) -> Self {
        let capability = csi::VolumeCapability {
            access_type: Some(AccessType::Mount(MountVolume::default())),
            access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        };
        let publish = csi::NodePublishVolumeRequest {
            volume_id: volume_id.to_owned(),
            staging_target_path: staging.display().to_string(),
            target_path: target.display().to_string(),
            volume_capability: Some(capability),
            ..csi::NodePublishVolumeRequest::default()
        };
        Self { publish }
    }

    pub(crate) fn block(mut self) -> Self {
        self.capability().access_type = Some(AccessType::Block(BlockVolume {}));
        self
    }

    pub(crate) fn mode(mut self, mode: Mode) -> Self {
        self.capability().access_mode = Some(AccessMode { mode: mode.into() });
        self
    }

    pub(crate) fn flags(mut self, flags: &[&str]) -> Self {
        let mount_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mount = MountVolume { mount_flags, ..MountVolume::default() };
        self.capability().access_type = Some(AccessType::Mount(mount));
        self
    }

    pub(crate) fn readonly(mut self) -> Self {
        self.publish.readonly = true;
        self
    }

    pub(crate) fn at(mut self, target: &Path) -> Self {
        self.publish.target_path = target.display().to_string();
        self
    }

    pub(crate) fn ephemeral(mut self) -> Self {
        self.publish.volume_context.insert("csi.storage.k8s.io/ephemeral".to_owned(), "true".to_owned());
        self.publish.staging_target_path.clear();
        self
    }

    fn capability(&mut self) -> &mut csi::VolumeCapability {
        self.publish.volume_capability.as_mut().unwrap()
    }

    pub(crate) async fn stage(&self, node: &mut NodeClient<Channel>) -> Result<(), Code> {
        let request = csi::NodeStageVolumeRequest {
            volume_id: self.publish.volume_id.clone(),
            publish_context: self.publish.publish_context.clone(),
            staging_target_path: self.publish.staging_target_path.clone(),
            volume_capability: self.publish.volume_capability.clone(),
            ..csi::NodeStageVolumeRequest::default()
        };
        told(node.node_stage_volume(request).await)
    }

    pub(crate) async fn publish(&self, node: &mut NodeClient<Channel>) -> Result<(), Code> {
        told(node.node_publish_volume(self.publish.clone()).await)
    }

    pub(crate) async fn unpublish(&self, node: &mut NodeClient<Channel>) -> Result<(), Code> {
        let request = csi::NodeUnpublishVolumeRequest {
            volume_id: self.publish.volume_id.clone(),
            target_path: self.publish.target_path.clone(),
        };
        told(node.node_unpublish_volume(request).await)
    }

    pub(crate) async fn unstage(&self, node: &mut NodeClient<Channel>) -> Result<(), Code> {
        let request = csi::NodeUnstageVolumeRequest {
            volume_id: self.publish.volume_id.clone(),
            staging_target_path: self.publish.staging_target_path.clone(),
        };
        told(node.node_unstage_volume(request).await)
    }

    pub(crate) async fn stats(&self, node: &mut NodeClient<Channel>) -> Result<Vec<csi::VolumeUsage>, Code> {
        let request = csi::NodeGetVolumeStatsRequest {
            volume_id: self.publish.volume_id.clone(),
            volume_path: self.publish.target_path.clone(),
            ..csi::NodeGetVolumeStatsRequest::default()
        };
        Ok(node.node_get_volume_stats(request).await.map_err(|status| status.code())?.into_inner().usage)
    }
}

fn told<T>(result: Result<tonic::Response<T>, tonic::Status>) -> Result<(), Code> {
    match result {
        Ok(_) => Ok(()),
        Err(status) => {
            // Shown when the test fails.
            println!("{:?}: {}", status.code(), status.message());
            Err(status.code())
        }
    }
}
