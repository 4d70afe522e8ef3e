//! The flags every sidecar has, and what they mean once validated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::EnvLookup;
use crate::exit::Exit;
use crate::flag_value::{Labels, go_bool, go_float, go_int, go_uint};
use crate::go_duration::GoDuration;
use crate::http;
use crate::kube_limiter::RequestLimit;
use crate::leader_election::{self, LeaderElection};
use crate::logging;

mod buffer_size;

use buffer_size::BufferSize;

/// The flags all sidecars share, with upstream's names and defaults. Flatten it into a sidecar's own struct.
#[derive(Debug, Clone, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "a command line is made of switches")]
pub struct StandardArgs {
    /// Print the version and exit
    #[arg(long)]
    pub version: bool,
    /// Kubeconfig file to use outside a cluster
    #[arg(long, default_value = "", hide_default_value = true)]
    pub kubeconfig: String,
    /// The driver's Unix socket: an absolute path, with or without `unix://` before it
    #[arg(long, default_value = "/run/csi/socket")]
    pub csi_address: String,

    /// Let only one of several replicas work
    #[arg(long)]
    pub leader_election: bool,
    /// Namespace of the Lease [default: the pod's]
    #[arg(long, default_value = "", hide_default_value = true)]
    pub leader_election_namespace: String,
    /// How long a standby waits before it takes a Lease that is not renewed
    #[arg(long, default_value = "15s")]
    pub leader_election_lease_duration: GoDuration,
    /// How long the leader works on without a successful renewal
    #[arg(long, default_value = "10s")]
    pub leader_election_renew_deadline: GoDuration,
    /// Pause between two attempts on the Lease
    #[arg(long, default_value = "5s")]
    pub leader_election_retry_period: GoDuration,
    /// Labels for the Lease, key:value,key:value; repeatable
    #[arg(long)]
    pub leader_election_labels: Vec<Labels>,

    /// Limit of Kubernetes API requests per second [default: no limit; 5 when only the burst is given]
    #[arg(long, value_parser = go_float)]
    pub kube_api_qps: Option<f64>,
    /// Kubernetes API requests that may exceed the limit at once [default: no limit; 10 when only qps is given]
    #[arg(long, value_parser = go_int)]
    pub kube_api_burst: Option<i64>,

    /// Address for metrics and health, such as :8080; none is served without it
    #[arg(long, default_value = "", hide_default_value = true)]
    pub http_endpoint: String,
    /// Deprecated: address for metrics only; use --http-endpoint
    #[arg(long, default_value = "", hide_default_value = true)]
    pub metrics_address: String,
    /// Path of the metrics
    #[arg(long, default_value = "/metrics")]
    pub metrics_path: String,
    /// Without effect: there are no threads to fit to a CPU quota
    #[arg(
        long, value_parser = empty_or_bool, num_args = 0..=1, require_equals = true,
        default_missing_value = "true", value_name = "BOOL"
    )]
    pub automaxprocs: Option<bool>,

    /// Log verbosity: details from 2, every CSI call from 5, libraries from 8
    #[arg(long = "v", short = 'v', value_parser = verbosity, default_value = "0")]
    pub verbosity: u32,
    /// Verbosity per source file, file=N,pattern*=N; text format only
    #[arg(long)]
    pub vmodule: Option<logging::Vmodule>,
    /// Log format: text or json
    #[arg(long, default_value = "text")]
    pub logging_format: String,
    /// Without effect: log lines are written at once
    #[arg(long)]
    pub log_flush_frequency: Option<GoDuration>,
    /// Alpha, cannot be turned on
    #[arg(long)]
    pub log_text_split_stream: bool,
    /// Alpha, cannot be turned on
    #[arg(long, default_value = "0")]
    pub log_text_info_buffer_size: BufferSize,
    /// Alpha, cannot be turned on
    #[arg(long)]
    pub log_json_split_stream: bool,
    /// Alpha, cannot be turned on
    #[arg(long, default_value = "0")]
    pub log_json_info_buffer_size: BufferSize,
}

/// What [`StandardArgs`] mean: nothing in it has to be checked again.
#[derive(Debug)]
pub struct Standard {
    /// The driver's socket.
    pub csi_address: csi_client::Address,
    /// `--kubeconfig`, when given.
    pub kubeconfig: Option<PathBuf>,
    /// The client-side limit of API requests, when one was asked for.
    pub request_limit: Option<RequestLimit>,
    /// What to serve over HTTP, when an address was given.
    pub http: Option<http::Settings>,
    /// Leader election, when asked for.
    pub leader_election: Option<LeaderElection>,
    without_effect: Vec<(&'static str, &'static str)>,
}

impl StandardArgs {
    /// The logging the flags ask for; to be applied before anything else is checked.
    pub fn logging(&self) -> Result<logging::Config, Exit> {
        let invalid = |text: String| Exit::error(format!("LoggingConfiguration is invalid: {text}"));
        let format = match self.logging_format.as_str() {
            "text" => logging::Format::Text,
            "json" => logging::Format::Json,
            other => {
                return Err(invalid(format!(
                    "--logging-format={other}: unsupported log format; expected text or json"
                )));
            }
        };
        if self.log_flush_frequency.is_some_and(|every| every.positive().is_none()) {
            return Err(invalid("--log-flush-frequency: must be greater than 0".into()));
        }
        if format == logging::Format::Json && self.vmodule.is_some() {
            return Err(invalid("--vmodule: only supported with --logging-format=text".into()));
        }
        let alpha = [
            ("--log-text-split-stream", self.log_text_split_stream),
            ("--log-text-info-buffer-size", self.log_text_info_buffer_size.asks_for_a_buffer()),
            ("--log-json-split-stream", self.log_json_split_stream),
            ("--log-json-info-buffer-size", self.log_json_info_buffer_size.asks_for_a_buffer()),
        ];
        if let Some((flag, _)) = alpha.into_iter().find(|(_, used)| *used) {
            return Err(invalid(format!(
                "{flag}: feature LoggingAlphaOptions is disabled and cannot be enabled; remove the flag"
            )));
        }
        Ok(logging::Config { format, verbosity: self.verbosity, vmodule: self.vmodule.clone().unwrap_or_default() })
    }

    /// Checks all flags but those of logging. Codes: 1 for an address, 2 for what makes a Go sidecar panic.
    pub fn validate(&self, env: EnvLookup<'_>) -> Result<Standard, Exit> {
        Ok(Standard {
            http: self.http()?,
            csi_address: csi_client::Address::parse(&self.csi_address)
                .map_err(|error| Exit::error(format!("--csi-address: {error}")))?,
            kubeconfig: Some(&self.kubeconfig).filter(|path| !path.is_empty()).map(PathBuf::from),
            request_limit: RequestLimit::from_flags(self.kube_api_qps, self.kube_api_burst)?,
            leader_election: self.election(env)?,
            without_effect: self.without_effect(),
        })
    }

    fn http(&self) -> Result<Option<http::Settings>, Exit> {
        let (address, with_health) = match (&*self.http_endpoint, &*self.metrics_address) {
            ("", "") => return Ok(None),
            ("", address) => (address, false),
            (address, "") => (address, self.leader_election),
            (http, metrics) => {
                return Err(Exit::error(format!(
                    "only one of --metrics-address ({metrics}) and --http-endpoint ({http}) can be set; \
                     --http-endpoint serves the metrics too"
                )));
            }
        };
        if !self.metrics_path.starts_with('/') {
            return Err(Exit::usage(format!("--metrics-path {:?} must start with a slash", self.metrics_path)));
        }
        Ok(Some(http::Settings {
            address: address.to_owned(),
            metrics_path: self.metrics_path.clone(),
            leader_election_health: with_health,
            pprof_asked: false,
        }))
    }

    fn election(&self, env: EnvLookup<'_>) -> Result<Option<LeaderElection>, Exit> {
        if !self.leader_election {
            return Ok(None);
        }
        let labels: BTreeMap<String, String> =
            self.leader_election_labels.iter().flat_map(|labels| labels.0.clone()).collect();
        let settings = LeaderElection {
            namespace: leader_election::namespace(
                &self.leader_election_namespace,
                env,
                Path::new(leader_election::NAMESPACE_FILE),
            ),
            lease_duration: above_zero("--leader-election-lease-duration", self.leader_election_lease_duration)?,
            renew_deadline: above_zero("--leader-election-renew-deadline", self.leader_election_renew_deadline)?,
            retry_period: above_zero("--leader-election-retry-period", self.leader_election_retry_period)?,
            labels,
        };
        settings.check()?;
        Ok(Some(settings))
    }

    fn without_effect(&self) -> Vec<(&'static str, &'static str)> {
        let mut flags = Vec::new();
        if self.automaxprocs.is_some() {
            flags.push(("--automaxprocs", "all work is done by one thread"));
        }
        if self.log_flush_frequency.is_some() {
            flags.push(("--log-flush-frequency", "log lines are written at once"));
        }
        flags
    }
}

impl Standard {
    /// Warns, once, of each given flag that tunes what this program does not have.
    pub fn log_ignored_flags(&self) {
        for (flag, reason) in &self.without_effect {
            tracing::warn!(flag, reason, "Flag has no effect");
        }
    }
}

fn above_zero(flag: &str, value: GoDuration) -> Result<Duration, Exit> {
    value.positive().ok_or_else(|| Exit::usage(format!("{flag} ({value}) must be greater than zero")))
}

fn empty_or_bool(text: &str) -> Result<bool, crate::flag_value::Error> {
    if text.is_empty() { Ok(true) } else { go_bool(text) }
}

fn verbosity(text: &str) -> Result<u32, crate::flag_value::Error> {
    let value = go_uint(text)?;
    u32::try_from(value).map_err(|_| crate::flag_value::Error::Range { function: "ParseUint", text: text.to_owned() })
}

#[cfg(test)]
mod tests;
