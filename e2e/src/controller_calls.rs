//! Calls of a driver's Controller service from this process, beside those of the sidecars: what the backend does without
//! Kubernetes knowing.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use csi_client::{Address, Admission, CallMetrics, ControllerClient, Denied, Driver, Handshake, Settings};
use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume, access_mode::Mode};
use prometheus::Registry;
use tokio::task::JoinSet;

const TIMEOUT: Duration = Duration::from_mins(1);

/// A connection to one driver. It belongs to the runtime that made it, and ends when this is dropped.
pub struct ControllerCalls {
    client: ControllerClient,
    _connection: JoinSet<()>,
}

/// How a volume is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// As a file system.
    Mount,
    /// As a block device.
    Block,
}

/// There is no leader here.
struct Always;

impl Admission for Always {
    fn admit(&self) -> Result<(), Denied> {
        Ok(())
    }
}

impl ControllerCalls {
    /// Connects to a driver, which may start later.
    ///
    /// # Errors
    /// When the address is none.
    pub fn connect(address: &str) -> Result<Self> {
        let metrics = CallMetrics::register(&Registry::new())?;
        let address = Address::parse(address)?;
        let settings = Settings { address, handshake: Handshake::Controller, timeout: TIMEOUT, metrics };
        let (driver, connection) = Driver::new(settings);
        let mut task = JoinSet::new();
        task.spawn(async move {
            // Calls fail from then on, which is told where they are made.
            connection.run().await;
        });
        Ok(Self { client: driver.controller(Arc::new(Always)), _connection: task })
    }

    /// Makes a volume of 1 MiB and gives its handle.
    ///
    /// # Errors
    /// When the driver refuses.
    pub async fn create_volume(&self, name: &str, access: Access) -> Result<String> {
        let request = csi::CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: Some(csi::CapacityRange { required_bytes: 1 << 20, limit_bytes: 0 }),
            volume_capabilities: vec![capability(access)],
            ..csi::CreateVolumeRequest::default()
        };
        let response = self.client.create_volume(request).await?;
        Ok(response.volume.context("an answer without a volume")?.volume_id)
    }

    /// Takes a snapshot of a volume and gives its handle.
    ///
    /// # Errors
    /// When the driver refuses.
    pub async fn create_snapshot(&self, name: &str, handle: &str) -> Result<String> {
        let request = csi::CreateSnapshotRequest {
            source_volume_id: handle.to_owned(),
            name: name.to_owned(),
            ..csi::CreateSnapshotRequest::default()
        };
        let response = self.client.create_snapshot(request).await?;
        Ok(response.snapshot.context("an answer without a snapshot")?.snapshot_id)
    }

    /// Publishes a volume to a node.
    ///
    /// # Errors
    /// When the driver refuses.
    pub async fn publish(&self, handle: &str, node_id: &str, access: Access) -> Result<()> {
        let request = csi::ControllerPublishVolumeRequest {
            volume_id: handle.to_owned(),
            node_id: node_id.to_owned(),
            volume_capability: Some(capability(access)),
            ..csi::ControllerPublishVolumeRequest::default()
        };
        self.client.controller_publish_volume(request).await?;
        Ok(())
    }

    /// Takes it from the node again.
    ///
    /// # Errors
    /// When the driver refuses.
    pub async fn unpublish(&self, handle: &str, node_id: &str) -> Result<()> {
        let request = csi::ControllerUnpublishVolumeRequest {
            volume_id: handle.to_owned(),
            node_id: node_id.to_owned(),
            ..csi::ControllerUnpublishVolumeRequest::default()
        };
        self.client.controller_unpublish_volume(request).await?;
        Ok(())
    }
}

/// For one writing node.
fn capability(access: Access) -> csi::VolumeCapability {
    let access_type = match access {
        Access::Mount => AccessType::Mount(MountVolume::default()),
        Access::Block => AccessType::Block(BlockVolume {}),
    };
    csi::VolumeCapability {
        access_type: Some(access_type),
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
    }
}
