//! The command line: flags of the Go csi-resizer 2.2, names and defaults unchanged.

use std::num::NonZero;
use std::time::Duration;

use clap::Parser;
use controller_runtime::Backoff;
use sidecar::feature_gates::{Assignments, FeatureGate, FeatureGates, Stage};
use sidecar::flag_value::go_int;
use sidecar::go_duration::positive;
use sidecar::{Exit, GoDuration, StandardArgs};

/// Gates of the Go resizer. `ReleaseLeaderElectionOnExit` has no effect: the lease is always released.
pub(crate) const FEATURE_GATES: &[FeatureGate] = &[
    FeatureGate { name: ANNOTATE_GATE, stage: Stage::Alpha, default: false },
    FeatureGate { name: RECOVER_GATE, stage: Stage::GeneralAvailability, default: true },
    FeatureGate { name: ATTRIBUTES_CLASS_GATE, stage: Stage::GeneralAvailability, default: true },
    FeatureGate { name: "ReleaseLeaderElectionOnExit", stage: Stage::Alpha, default: false },
];

/// Notes on the volume how big its file system was, for the node.
const ANNOTATE_GATE: &str = "AnnotateFsResize";
/// A claim whose growth failed may ask for less (KEP-1790).
const RECOVER_GATE: &str = "RecoverVolumeExpansionFailure";
/// KEP-3751.
const ATTRIBUTES_CLASS_GATE: &str = "VolumeAttributesClass";

/// Grows volumes of one CSI driver, and changes their attributes, for PersistentVolumeClaims.
#[derive(Debug, Parser)]
#[command(name = "csi-resizer", disable_version_flag = true)]
pub(crate) struct ResizerArgs {
    #[command(flatten)]
    pub(crate) standard: StandardArgs,
    /// URL of the Kubernetes API server; empty: from the kubeconfig, or from the pod's environment
    #[arg(long, default_value = "")]
    pub(crate) master: String,
    /// How often every claim that has something to do is looked at again; 0: never
    #[arg(long, default_value = "10m", allow_hyphen_values = true)]
    resync_period: GoDuration,
    /// How many claims are worked on at once
    #[arg(long, value_parser = go_int, default_value = "10", allow_hyphen_values = true)]
    workers: i64,
    /// Tell the driver name and namespace of the claim and name of the volume, as parameters of ControllerModifyVolume
    #[arg(long)]
    extra_modify_metadata: bool,
    /// Deadline of every call to the CSI driver
    #[arg(long, default_value = "10s", allow_hyphen_values = true)]
    timeout: GoDuration,
    /// First delay before something that failed is tried again; doubles with every failure
    #[arg(long, default_value = "1s", allow_hyphen_values = true)]
    retry_interval_start: GoDuration,
    /// Longest delay before something that failed is tried again; and how long what the driver cannot do is left alone
    #[arg(long, default_value = "5m", allow_hyphen_values = true)]
    retry_interval_max: GoDuration,
    /// Do not ask a driver again to grow a volume that it has called in use, while pods use it
    #[arg(long, default_value_t = true)]
    handle_volume_inuse_error: bool,
    /// Features to turn on or off: NAME=true|false,…
    #[arg(long)]
    pub(crate) feature_gates: Vec<Assignments>,
}

/// The flags of this program, checked.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "one field per flag")]
pub(crate) struct Config {
    /// How often every claim that has something to do is looked at again.
    pub(crate) resync: Option<Duration>,
    pub(crate) workers: usize,
    pub(crate) extra_modify_metadata: bool,
    pub(crate) timeout: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) handle_in_use: bool,
    /// Gate `AnnotateFsResize`.
    pub(crate) annotates: bool,
    /// Gate `RecoverVolumeExpansionFailure`.
    pub(crate) recovers: bool,
    /// Gate `VolumeAttributesClass`.
    pub(crate) attributes_class: bool,
    /// The command line says nothing of that gate: it goes off where the API server does not have the kind.
    pub(crate) discover_attributes_class: bool,
}

impl ResizerArgs {
    /// Checks the flags that are this program's own.
    pub(crate) fn config(&self, gates: &FeatureGates) -> Result<Config, Exit> {
        let workers = usize::try_from(self.workers).ok().and_then(NonZero::new);
        let workers =
            workers.ok_or_else(|| Exit::error("--workers must be at least 1: with 0 no volume is ever resized"))?;
        let timeout = positive("--timeout", self.timeout)?;
        let base = positive("--retry-interval-start", self.retry_interval_start)?;
        let max = positive("--retry-interval-max", self.retry_interval_max)?;
        let resync = match self.resync_period.nanos() {
            0 => None,
            _ => Some(positive("--resync-period", self.resync_period)?),
        };
        Ok(Config {
            resync,
            workers: workers.get(),
            extra_modify_metadata: self.extra_modify_metadata,
            timeout,
            backoff: Backoff { base: base.min(max), max },
            handle_in_use: self.handle_volume_inuse_error,
            annotates: gates.enabled(ANNOTATE_GATE),
            recovers: gates.enabled(RECOVER_GATE),
            attributes_class: gates.enabled(ATTRIBUTES_CLASS_GATE),
            discover_attributes_class: gates.set_explicitly(ATTRIBUTES_CLASS_GATE).is_none(),
        })
    }
}
