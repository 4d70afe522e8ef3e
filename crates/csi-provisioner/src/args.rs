//! The command line: flags of the Go csi-provisioner 6.3, names and defaults unchanged.

use std::time::Duration;

use clap::Parser;
use controller_runtime::Backoff;
use sidecar::feature_gates::{Assignments, FeatureGate, FeatureGates, Stage};
use sidecar::flag_value::{go_float, go_int, go_uint};
use sidecar::go_duration::positive;
use sidecar::{Exit, GoDuration, StandardArgs};
use storage_kube::names::{Namespace, NodeName};
use storage_kube::volume_name::UuidLength;

use crate::capacity::budget::WriteLimit;
use crate::settings::{CapacityFlags, NodeFlags, ProvisioningFlags};

/// Gates of the Go provisioner. `ReleaseLeaderElectionOnExit` has no effect: the lease is always released.
pub(crate) const FEATURE_GATES: &[FeatureGate] = &[
    FeatureGate { name: "Topology", stage: Stage::GeneralAvailability, default: true },
    FeatureGate { name: "VolumeAttributesClass", stage: Stage::GeneralAvailability, default: true },
    FeatureGate { name: "CrossNamespaceVolumeDataSource", stage: Stage::Alpha, default: false },
    FeatureGate { name: "ReleaseLeaderElectionOnExit", stage: Stage::Alpha, default: false },
    FeatureGate { name: "CSINodeExpandSecret", stage: Stage::Removed { since: "5.1.0" }, default: true },
    FeatureGate { name: "HonorPVReclaimPolicy", stage: Stage::Removed { since: "6.2.0" }, default: true },
];

/// Creates and deletes volumes of one CSI driver for PersistentVolumeClaims.
#[derive(Debug, Parser)]
#[command(name = "csi-provisioner", disable_version_flag = true)]
#[expect(clippy::struct_excessive_bools, reason = "one field per flag")]
pub(crate) struct ProvisionerArgs {
    #[command(flatten)]
    pub(crate) standard: StandardArgs,
    /// URL of the Kubernetes API server; empty: from the kubeconfig, or from the pod's environment
    #[arg(long, default_value = "")]
    pub(crate) master: String,
    /// Name of every new volume is PREFIX-UID of the claim
    #[arg(long, default_value = "pvc")]
    volume_name_prefix: String,
    /// Length of the claim UID in the volume name, without its dashes; -1: the whole UID with its dashes
    #[arg(long, value_parser = go_int, default_value = "-1", allow_hyphen_values = true)]
    volume_name_uuid_length: i64,
    /// First delay before a failed claim or volume is tried again; doubles with every failure
    #[arg(long, default_value = "1s", allow_hyphen_values = true)]
    retry_interval_start: GoDuration,
    /// Longest delay before a failed claim or volume is tried again
    #[arg(long, default_value = "5m", allow_hyphen_values = true)]
    retry_interval_max: GoDuration,
    /// How many claims are provisioned at once, and how many volumes deleted
    #[arg(long, value_parser = go_uint, default_value = "100")]
    worker_threads: u64,
    /// Deadline of every call to the CSI driver
    #[arg(long, default_value = "10s", allow_hyphen_values = true)]
    timeout: GoDuration,
    /// File system of volumes whose class names none
    #[arg(long, default_value = "")]
    default_fstype: String,
    /// Tell the driver name and namespace of the claim and name of the volume, as parameters of CreateVolume
    #[arg(long)]
    extra_create_metadata: bool,
    /// Mark volumes whose only access mode is ReadOnlyMany as read-only
    #[arg(long)]
    controller_publish_readonly: bool,
    /// Features to turn on or off: NAME=true|false,…
    #[arg(long)]
    pub(crate) feature_gates: Vec<Assignments>,
    /// Answer /debug/pprof/ (with the reason why there are no Go profiles)
    #[arg(long)]
    pub(crate) enable_pprof: bool,

    /// Pass only the topology of the selected node, where there is one
    #[arg(long)]
    strict_topology: bool,
    /// Pass the topology of the whole cluster for claims that are bound at once
    #[arg(long, default_value_t = true)]
    immediate_topology: bool,
    /// Refuse to restore a snapshot in another volume mode without the annotation that allows it
    #[arg(long, default_value_t = true)]
    prevent_volume_mode_conversion: bool,
    /// How many claims at once are released from being the source of a clone
    #[arg(long, value_parser = go_uint, default_value = "1")]
    cloning_protection_threads: u64,
    /// How often snapshots are released from being the source of a volume; 0: never
    #[arg(long, default_value = "5m", allow_hyphen_values = true)]
    snapshot_orphan_sweep_interval: GoDuration,

    /// Publish CSIStorageCapacity objects
    #[arg(long)]
    enable_capacity: bool,
    /// Publish them for classes that are bound at once, too
    #[arg(long)]
    capacity_for_immediate_binding: bool,
    /// How often the driver is asked for each capacity
    #[arg(long, default_value = "1m", allow_hyphen_values = true)]
    capacity_poll_interval: GoDuration,
    /// Owner of the objects: -1 none, 0 this pod, 1 its controller, 2 the controller of that, …
    #[arg(long, value_parser = go_int, default_value = "1", allow_hyphen_values = true)]
    capacity_ownerref_level: i64,
    /// How many capacities are asked for at once; if not given, as many as are needed within half a poll interval
    #[arg(long, value_parser = go_uint)]
    capacity_threads: Option<u64>,
    /// Writes of capacity objects each second; if neither this nor the burst is given, it follows their number
    #[arg(long, value_parser = go_float, allow_hyphen_values = true)]
    kube_api_capacity_qps: Option<f64>,
    /// Writes of capacity objects at once
    #[arg(long, value_parser = go_int, allow_hyphen_values = true)]
    kube_api_capacity_burst: Option<i64>,

    /// Run beside the driver on every node, and provision for that node
    #[arg(long)]
    node_deployment: bool,
    /// With --node-deployment: compete for claims that are bound at once
    #[arg(long, default_value_t = true)]
    node_deployment_immediate_binding: bool,
    /// With --node-deployment: first delay before such a claim is taken
    #[arg(long, default_value = "20s", allow_hyphen_values = true)]
    node_deployment_base_delay: GoDuration,
    /// With --node-deployment: longest delay before such a claim is taken
    #[arg(long, default_value = "60s", allow_hyphen_values = true)]
    node_deployment_max_delay: GoDuration,
}

/// The flags of this program, checked.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) provisioning: ProvisioningFlags,
    pub(crate) capacity: Option<CapacityFlags>,
    pub(crate) node: Option<NodeFlags>,
    pub(crate) worker_threads: usize,
    pub(crate) backoff: Backoff,
    pub(crate) timeout: Duration,
}

impl ProvisionerArgs {
    /// Checks the flags that are this program's own; `env` looks up a variable of the environment.
    pub(crate) fn config(
        &self,
        gates: &FeatureGates,
        node: Option<NodeFlags>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Config, Exit> {
        let timeout = positive("--timeout", self.timeout)?;
        let base = positive("--retry-interval-start", self.retry_interval_start)?;
        let max = positive("--retry-interval-max", self.retry_interval_max)?;
        let uuid_length = UuidLength::from_flag(self.volume_name_uuid_length).map_err(|error| {
            Exit::error(format!("--volume-name-uuid-length={}: {error}", self.volume_name_uuid_length))
        })?;
        Ok(Config {
            provisioning: ProvisioningFlags {
                volume_name_prefix: self.volume_name_prefix.clone(),
                uuid_length,
                default_fs_type: self.default_fstype.clone(),
                extra_create_metadata: self.extra_create_metadata,
                publish_readonly: self.controller_publish_readonly,
                strict_topology: self.strict_topology,
                immediate_topology: self.immediate_topology,
                prevent_mode_conversion: self.prevent_volume_mode_conversion,
                // 0 starts the Go provisioner, and leaves all sources of clones protected for ever: one is enough.
                cloning_protection_threads: usize::try_from(self.cloning_protection_threads.max(1))
                    .unwrap_or(usize::MAX),
                snapshot_sweep: self.snapshot_orphan_sweep_interval.positive(),
                cross_namespace_gate: gates.enabled("CrossNamespaceVolumeDataSource"),
                topology_gate: gates.enabled("Topology"),
                attributes_class_gate: gates.enabled("VolumeAttributesClass"),
                discover_attributes_class: gates.set_explicitly("VolumeAttributesClass").is_none(),
            },
            capacity: self.capacity(env)?,
            node,
            worker_threads: at_least_one("--worker-threads", self.worker_threads)?,
            backoff: Backoff { base: base.min(max), max },
            timeout,
        })
    }

    fn capacity(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Option<CapacityFlags>, Exit> {
        if !self.enable_capacity {
            return Ok(None);
        }
        let owner_level = u32::try_from(self.capacity_ownerref_level).ok();
        let namespace = env("NAMESPACE").ok_or_else(|| {
            Exit::fatal(
                "--enable-capacity needs the environment variable NAMESPACE: set it to the namespace of this pod",
            )
        })?;
        let pod = env("POD_NAME");
        if owner_level.is_some() && pod.is_none() {
            return Err(Exit::fatal(
                "--enable-capacity needs the environment variable POD_NAME: set it to the name of this pod, or give --capacity-ownerref-level=-1",
            ));
        }
        Ok(Some(CapacityFlags {
            immediate_binding: self.capacity_for_immediate_binding,
            poll_interval: positive("--capacity-poll-interval", self.capacity_poll_interval)?,
            owner_level,
            threads: self.capacity_threads.map(|threads| at_least_one("--capacity-threads", threads)).transpose()?,
            write_limit: WriteLimit::of_flags(self.kube_api_capacity_qps, self.kube_api_capacity_burst)?,
            namespace: Namespace::from(namespace),
            pod,
        }))
    }

    /// What `--node-deployment` asks for. As in the Go provisioner, without `NODE_NAME` not even `--version` works.
    pub(crate) fn node(&self, env: &dyn Fn(&str) -> Option<String>) -> Result<Option<NodeFlags>, Exit> {
        if !self.node_deployment {
            return Ok(None);
        }
        let name = env("NODE_NAME").ok_or_else(|| {
            Exit::fatal(
                "--node-deployment needs the environment variable NODE_NAME: set it to the name of this pod's node",
            )
        })?;
        Ok(Some(NodeFlags {
            name: NodeName::from(name),
            immediate_binding: self.node_deployment_immediate_binding,
            base_delay: self.node_deployment_base_delay.or_zero(),
            max_delay: self.node_deployment_max_delay.or_zero(),
            place: None,
        }))
    }
}

fn at_least_one(flag: &str, value: u64) -> Result<usize, Exit> {
    let value = usize::try_from(value).ok().filter(|value| *value > 0);
    value.ok_or_else(|| Exit::error(format!("{flag} must be at least 1: with 0 its work is never done")))
}
