//! What the rules of this provisioner depend on, fixed for the life of the process.

use std::time::Duration;

use csi_client::DriverInfo;
use csi_proto::csi::v1::{
    controller_service_capability::rpc::Type as ControllerRpc, plugin_capability::service::Type as PluginService,
};
use storage_kube::access_mode::Mapping;
use storage_kube::volume_name::UuidLength;

use crate::migration::ProvisionerNames;

/// Flags that shape requests and volumes.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "one field per flag")]
pub(crate) struct ProvisioningFlags {
    /// `--volume-name-prefix`.
    pub(crate) volume_name_prefix: String,
    /// `--volume-name-uuid-length`.
    pub(crate) uuid_length: UuidLength,
    /// `--default-fstype`.
    pub(crate) default_fs_type: String,
    /// `--extra-create-metadata`.
    pub(crate) extra_create_metadata: bool,
    /// `--controller-publish-readonly`.
    pub(crate) publish_readonly: bool,
    /// Gate `Topology`.
    pub(crate) topology_gate: bool,
    /// Gate `VolumeAttributesClass`.
    pub(crate) attributes_class_gate: bool,
}

/// What the driver can do, as far as the rules ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DriverFacts {
    /// Plugin capability CONTROLLER_SERVICE and controller capability CREATE_DELETE_VOLUME.
    pub(crate) provisions: bool,
    /// PUBLISH_UNPUBLISH_VOLUME: volumes may have attachments, which hold up their deletion.
    pub(crate) attaches: bool,
    /// VOLUME_ACCESSIBILITY_CONSTRAINTS: the driver's volumes are not reachable from every node.
    pub(crate) topology: bool,
    /// By SINGLE_NODE_MULTI_WRITER.
    pub(crate) access_modes: Mapping,
}

impl DriverFacts {
    pub(crate) fn of(driver: &DriverInfo) -> Self {
        let multi_writer = driver.controller.has(ControllerRpc::SingleNodeMultiWriter);
        Self {
            provisions: driver.plugin.has(PluginService::ControllerService)
                && driver.controller.has(ControllerRpc::CreateDeleteVolume),
            attaches: driver.controller.has(ControllerRpc::PublishUnpublishVolume),
            topology: driver.plugin.has(PluginService::VolumeAccessibilityConstraints),
            access_modes: if multi_writer { Mapping::SingleNodeMultiWriter } else { Mapping::Basic },
        }
    }
}

/// All that the decisions need besides the objects.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) names: ProvisionerNames,
    pub(crate) driver: DriverFacts,
    pub(crate) flags: ProvisioningFlags,
    /// Volume attribute `storage.kubernetes.io/csiProvisionerIdentity`: which process made the volume.
    pub(crate) identity: String,
    /// `--timeout`, the deadline of each CSI call.
    pub(crate) timeout: Duration,
}
