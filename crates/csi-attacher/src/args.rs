//! The command line: flags of the Go csi-attacher 4.12, names and defaults unchanged.

use std::num::NonZero;
use std::time::Duration;

use clap::Parser;
use controller_runtime::Backoff;
use sidecar::feature_gates::{Assignments, FeatureGate, FeatureGates, Stage};
use sidecar::flag_value::{go_int, go_uint};
use sidecar::go_duration::positive;
use sidecar::{Exit, GoDuration, StandardArgs};

/// Gates of the Go attacher. `ReleaseLeaderElectionOnExit` has no effect: the lease is always released.
pub(crate) const FEATURE_GATES: &[FeatureGate] = &[
    FeatureGate { name: ERROR_CODE_GATE, stage: Stage::GeneralAvailability, default: true },
    FeatureGate { name: "ReleaseLeaderElectionOnExit", stage: Stage::Alpha, default: false },
];

/// Writes `status.attachError.errorCode` (KEP-4876).
const ERROR_CODE_GATE: &str = "MutableCSINodeAllocatableCount";

/// Attaches volumes of one CSI driver to nodes, and detaches them, for VolumeAttachments.
#[derive(Debug, Parser)]
#[command(name = "csi-attacher", disable_version_flag = true)]
pub(crate) struct AttacherArgs {
    #[command(flatten)]
    pub(crate) standard: StandardArgs,
    /// How often every object is looked at again; 0: never
    #[arg(long, default_value = "10m", allow_hyphen_values = true)]
    resync: GoDuration,
    /// Deadline of every call to the CSI driver, and of all pages of ListVolumes together
    #[arg(long, default_value = "15s", allow_hyphen_values = true)]
    timeout: GoDuration,
    /// First delay before a failed attachment or volume is tried again; doubles with every failure
    #[arg(long, default_value = "1s", allow_hyphen_values = true)]
    retry_interval_start: GoDuration,
    /// Longest delay before a failed attachment or volume is tried again
    #[arg(long, default_value = "5m", allow_hyphen_values = true)]
    retry_interval_max: GoDuration,
    /// How many ControllerPublishVolume and ControllerUnpublishVolume calls are in flight at once
    #[arg(long, value_parser = go_uint, default_value = "10")]
    worker_threads: u64,
    /// Entries asked for in one page of ListVolumes; 0 leaves it to the driver
    #[arg(long, value_parser = go_int, default_value = "0", allow_hyphen_values = true)]
    max_entries: i64,
    /// File system of volumes that name none
    #[arg(long, default_value = "")]
    default_fstype: String,
    /// Pause between two comparisons with what ListVolumes says; for drivers that list published nodes
    #[arg(long, default_value = "1m", allow_hyphen_values = true)]
    reconcile_sync: GoDuration,
    /// Longest logged answer of the CSI driver, in characters; 0 or less: no limit
    #[arg(long, value_parser = go_int, default_value = "-1", allow_hyphen_values = true)]
    max_grpc_log_length: i64,
    /// Features to turn on or off: NAME=true|false,…
    #[arg(long)]
    pub(crate) feature_gates: Vec<Assignments>,
}

/// The flags of this program, checked.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// How often every object is looked at again.
    pub(crate) resync: Option<Duration>,
    pub(crate) timeout: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) worker_threads: usize,
    /// 0: the driver decides.
    pub(crate) max_entries: i32,
    pub(crate) default_fs_type: String,
    pub(crate) reconcile_sync: Duration,
    /// Characters; none: unlimited.
    pub(crate) max_grpc_log_length: Option<usize>,
    /// Gate `MutableCSINodeAllocatableCount`.
    pub(crate) error_codes: bool,
}

impl AttacherArgs {
    /// Checks the flags that are this program's own.
    pub(crate) fn config(&self, gates: &FeatureGates) -> Result<Config, Exit> {
        let worker_threads = usize::try_from(self.worker_threads).ok().and_then(NonZero::new);
        let worker_threads = worker_threads
            .ok_or_else(|| Exit::error("--worker-threads must be at least 1: with 0 no volume is ever attached"))?;
        let timeout = positive("--timeout", self.timeout)?;
        let base = positive("--retry-interval-start", self.retry_interval_start)?;
        let max = positive("--retry-interval-max", self.retry_interval_max)?;
        let reconcile_sync = positive("--reconcile-sync", self.reconcile_sync)?;
        let resync = match self.resync.nanos() {
            0 => None,
            _ => Some(positive("--resync", self.resync)?),
        };
        let max_entries = i32::try_from(self.max_entries).ok().filter(|entries| *entries >= 0).ok_or_else(|| {
            Exit::error(format!("--max-entries={} must be between 0 and {}", self.max_entries, i32::MAX))
        })?;
        Ok(Config {
            resync,
            timeout,
            backoff: Backoff { base: base.min(max), max },
            worker_threads: worker_threads.get(),
            max_entries,
            default_fs_type: self.default_fstype.clone(),
            reconcile_sync,
            max_grpc_log_length: usize::try_from(self.max_grpc_log_length).ok().filter(|length| *length > 0),
            error_codes: gates.enabled(ERROR_CODE_GATE),
        })
    }
}
