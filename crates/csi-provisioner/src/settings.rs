//! What the rules of this provisioner depend on, fixed for the life of the process.

use std::time::Duration;

use csi_client::DriverInfo;
use csi_proto::csi::v1::{
    controller_service_capability::rpc::Type as ControllerRpc, plugin_capability::service::Type as PluginService,
};
use storage_kube::access_mode::Mapping;
use storage_kube::names::{Namespace, NodeName};
use storage_kube::topology::Segment;
use storage_kube::volume_name::UuidLength;

use crate::capacity::budget::WriteLimit;
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
    /// `--strict-topology`: of a claim with a selected node only that node's segment is asked for.
    pub(crate) strict_topology: bool,
    /// `--immediate-topology`: claims without a selected node ask for the segments of the whole cluster.
    pub(crate) immediate_topology: bool,
    /// `--prevent-volume-mode-conversion`.
    pub(crate) prevent_mode_conversion: bool,
    /// `--cloning-protection-threads`.
    pub(crate) cloning_protection_threads: usize,
    /// `--snapshot-orphan-sweep-interval`; `None`: no sweep.
    pub(crate) snapshot_sweep: Option<Duration>,
    /// Gate `CrossNamespaceVolumeDataSource`.
    pub(crate) cross_namespace_gate: bool,
    /// Gate `Topology`.
    pub(crate) topology_gate: bool,
    /// Gate `VolumeAttributesClass`.
    pub(crate) attributes_class_gate: bool,
    /// The command line says nothing of that gate: it goes off where the API server does not have the kind.
    pub(crate) discover_attributes_class: bool,
}

/// `--enable-capacity` and what tunes it.
#[derive(Debug, Clone)]
pub(crate) struct CapacityFlags {
    /// `--capacity-for-immediate-binding`: classes that bind at once get objects too.
    pub(crate) immediate_binding: bool,
    /// `--capacity-poll-interval`.
    pub(crate) poll_interval: Duration,
    /// `--capacity-ownerref-level`: the owner of the objects is so many controllers above this pod; `None`: nobody is.
    pub(crate) owner_level: Option<u32>,
    /// `--capacity-threads`: calls to the driver at a time, if given.
    pub(crate) threads: Option<usize>,
    /// `--kube-api-capacity-qps` and `--kube-api-capacity-burst`.
    pub(crate) write_limit: WriteLimit,
    /// `NAMESPACE`: where the objects are, and this pod.
    pub(crate) namespace: Namespace,
    /// `POD_NAME`: this pod; needed where objects have owners.
    pub(crate) pod: Option<String>,
}

/// `--node-deployment` and what tunes it: this process provisions for the node it runs on.
#[derive(Debug, Clone)]
pub(crate) struct NodeFlags {
    /// `NODE_NAME`.
    pub(crate) name: NodeName,
    /// `--node-deployment-immediate-binding`: compete for claims without a selected node.
    pub(crate) immediate_binding: bool,
    /// `--node-deployment-base-delay`.
    pub(crate) base_delay: Duration,
    /// `--node-deployment-max-delay`.
    pub(crate) max_delay: Duration,
    /// Where the node is, as the driver answered to `NodeGetInfo`; `None` where it does not say, and before it was asked.
    pub(crate) place: Option<Segment>,
}

/// What the driver can do, as far as the rules ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one field per capability")]
pub(crate) struct DriverFacts {
    /// Plugin capability CONTROLLER_SERVICE and controller capability CREATE_DELETE_VOLUME.
    pub(crate) provisions: bool,
    /// PUBLISH_UNPUBLISH_VOLUME: volumes may have attachments, which hold up their deletion.
    pub(crate) attaches: bool,
    /// VOLUME_ACCESSIBILITY_CONSTRAINTS: the driver's volumes are not reachable from every node.
    pub(crate) topology: bool,
    /// CREATE_DELETE_SNAPSHOT: volumes may be filled from a snapshot.
    pub(crate) snapshots: bool,
    /// CLONE_VOLUME: volumes may be filled from another volume.
    pub(crate) clones: bool,
    /// MODIFY_VOLUME: a claim may name a VolumeAttributesClass.
    pub(crate) modifies: bool,
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
            snapshots: driver.controller.has(ControllerRpc::CreateDeleteSnapshot),
            clones: driver.controller.has(ControllerRpc::CloneVolume),
            modifies: driver.controller.has(ControllerRpc::ModifyVolume),
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
    /// `None`: no CSIStorageCapacity objects.
    pub(crate) capacity: Option<CapacityFlags>,
    /// `None`: one provisioner for the whole cluster.
    pub(crate) node: Option<NodeFlags>,
    /// Volume attribute `storage.kubernetes.io/csiProvisionerIdentity`: which process made the volume.
    pub(crate) identity: String,
    /// `--timeout`, the deadline of each CSI call.
    pub(crate) timeout: Duration,
}

impl Settings {
    /// Whether topology has a say in what is asked of the driver.
    pub(crate) fn topology(&self) -> bool {
        self.flags.topology_gate && self.driver.topology
    }

    /// Whether the nodes of the cluster are watched. A process that serves one node asks the driver about that node.
    pub(crate) fn needs_nodes(&self) -> bool {
        self.node.is_none() && (self.topology() || self.capacity.is_some())
    }
}
