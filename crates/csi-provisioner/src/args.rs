//! The command line: flags of the Go csi-provisioner 6.3, names and defaults unchanged.

use std::num::NonZero;
use std::time::Duration;

use clap::Parser;
use controller_runtime::Backoff;
use sidecar::feature_gates::{Assignments, FeatureGate, FeatureGates, Stage};
use sidecar::flag_value::{go_float, go_int, go_uint};
use sidecar::{Exit, GoDuration, StandardArgs};
use storage_kube::volume_name::UuidLength;

use crate::settings::ProvisioningFlags;

/// Gates of the Go provisioner. `ReleaseLeaderElectionOnExit` has no effect: the lease is always released.
pub(crate) const FEATURE_GATES: &[FeatureGate] = &[
    FeatureGate { name: "Topology", stage: Stage::GeneralAvailability, default: true },
    FeatureGate { name: "VolumeAttributesClass", stage: Stage::GeneralAvailability, default: true },
    FeatureGate { name: "CrossNamespaceVolumeDataSource", stage: Stage::Alpha, default: false },
    FeatureGate { name: "ReleaseLeaderElectionOnExit", stage: Stage::Alpha, default: false },
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

    /// Not supported yet: pass only the topology of the selected node
    #[arg(long)]
    strict_topology: bool,
    /// Not supported yet when false: pass the topology of the whole cluster for immediate binding
    #[arg(long, default_value_t = true)]
    immediate_topology: bool,
    /// Not supported yet: publish CSIStorageCapacity objects
    #[arg(long)]
    enable_capacity: bool,
    /// Not supported yet: run beside the driver on every node
    #[arg(long)]
    node_deployment: bool,

    /// Used with --enable-capacity
    #[arg(long)]
    capacity_for_immediate_binding: bool,
    /// Used with --enable-capacity
    #[arg(long, default_value = "1m", allow_hyphen_values = true)]
    capacity_poll_interval: GoDuration,
    /// Used with --enable-capacity
    #[arg(long, value_parser = go_int, default_value = "1", allow_hyphen_values = true)]
    capacity_ownerref_level: i64,
    /// Used with --enable-capacity
    #[arg(long, value_parser = go_uint, default_value = "1")]
    capacity_threads: u64,
    /// Used with --enable-capacity
    #[arg(long, value_parser = go_float, default_value = "1", allow_hyphen_values = true)]
    kube_api_capacity_qps: f64,
    /// Used with --enable-capacity
    #[arg(long, value_parser = go_int, default_value = "5", allow_hyphen_values = true)]
    kube_api_capacity_burst: i64,
    /// Used with --node-deployment
    #[arg(long, default_value_t = true)]
    node_deployment_immediate_binding: bool,
    /// Used with --node-deployment
    #[arg(long, default_value = "20s", allow_hyphen_values = true)]
    node_deployment_base_delay: GoDuration,
    /// Used with --node-deployment
    #[arg(long, default_value = "60s", allow_hyphen_values = true)]
    node_deployment_max_delay: GoDuration,
    /// Used with claims as data sources, which are not supported yet
    #[arg(long, value_parser = go_uint, default_value = "1")]
    cloning_protection_threads: u64,
    /// Used with snapshots as data sources, which are not supported yet
    #[arg(long, default_value = "5m", allow_hyphen_values = true)]
    snapshot_orphan_sweep_interval: GoDuration,
    /// Used with snapshots as data sources, which are not supported yet
    #[arg(long, default_value_t = true)]
    prevent_volume_mode_conversion: bool,
}

/// The flags of this program, checked.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) provisioning: ProvisioningFlags,
    pub(crate) worker_threads: usize,
    pub(crate) backoff: Backoff,
    pub(crate) timeout: Duration,
}

impl ProvisionerArgs {
    /// Checks the flags that are this program's own.
    pub(crate) fn config(&self, gates: &FeatureGates) -> Result<Config, Exit> {
        self.refuse_what_is_missing(gates)?;
        self.log_what_has_no_effect();
        let worker_threads = usize::try_from(self.worker_threads).ok().and_then(NonZero::new);
        let worker_threads = worker_threads
            .ok_or_else(|| Exit::error("--worker-threads must be at least 1: with 0 no claim is ever provisioned"))?;
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
                topology_gate: gates.enabled("Topology"),
                attributes_class_gate: gates.enabled("VolumeAttributesClass"),
            },
            worker_threads: worker_threads.get(),
            backoff: Backoff { base: base.min(max), max },
            timeout,
        })
    }

    /// A flag whose feature is missing ends the start: what it asks for would not happen.
    fn refuse_what_is_missing(&self, gates: &FeatureGates) -> Result<(), Exit> {
        let asked = [
            (self.strict_topology, "--strict-topology", "topology"),
            (!self.immediate_topology, "--immediate-topology=false", "topology"),
            (self.enable_capacity, "--enable-capacity", "CSIStorageCapacity objects"),
            (self.node_deployment, "--node-deployment", "distributed provisioning"),
            (
                gates.set_explicitly("CrossNamespaceVolumeDataSource") == Some(true),
                "--feature-gates=CrossNamespaceVolumeDataSource=true",
                "cross-namespace data sources",
            ),
        ];
        match asked.into_iter().find(|(asked, ..)| *asked) {
            None => Ok(()),
            Some((_, flag, feature)) => Err(Exit::error(format!(
                "{flag}: {feature} not supported by this csi-provisioner yet: remove the flag, or keep the Go csi-provisioner for this driver"
            ))),
        }
    }

    /// Flags that tune a feature which is not there change nothing; said once, so that nobody relies on them.
    fn log_what_has_no_effect(&self) {
        let tuned = [
            (self.capacity_for_immediate_binding, "--capacity-for-immediate-binding"),
            (self.capacity_poll_interval.nanos() != 60_000_000_000, "--capacity-poll-interval"),
            (self.capacity_ownerref_level != 1, "--capacity-ownerref-level"),
            (self.capacity_threads != 1, "--capacity-threads"),
            ((self.kube_api_capacity_qps - 1.0).abs() > f64::EPSILON, "--kube-api-capacity-qps"),
            (self.kube_api_capacity_burst != 5, "--kube-api-capacity-burst"),
            (!self.node_deployment_immediate_binding, "--node-deployment-immediate-binding"),
            (self.node_deployment_base_delay.nanos() != 20_000_000_000, "--node-deployment-base-delay"),
            (self.node_deployment_max_delay.nanos() != 60_000_000_000, "--node-deployment-max-delay"),
            (self.cloning_protection_threads != 1, "--cloning-protection-threads"),
            (self.snapshot_orphan_sweep_interval.nanos() != 300_000_000_000, "--snapshot-orphan-sweep-interval"),
            (!self.prevent_volume_mode_conversion, "--prevent-volume-mode-conversion"),
        ];
        for (_, flag) in tuned.into_iter().filter(|(given, _)| *given) {
            tracing::warn!(flag, "the flag has no effect: the feature that it tunes is off or not supported yet");
        }
    }
}

fn positive(flag: &str, value: GoDuration) -> Result<Duration, Exit> {
    value.positive().ok_or_else(|| Exit::error(format!("{flag} must be more than 0, for example {flag}=10s")))
}
