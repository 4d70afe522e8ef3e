//! The flags every sidecar has, and what they mean once validated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::EnvLookup;
use crate::exit::Exit;
use crate::flag_value::{Labels, go_float, go_int};
use crate::go_duration::GoDuration;
use crate::http;
use crate::kube_limiter::RequestLimit;
use crate::leader_election::{self, LeaderElection};
use crate::logging;

mod buffer_size;
mod logging_args;

pub use logging_args::LoggingArgs;
use logging_args::{IgnoredFlag, warn_of};

/// The flags all sidecars share, with upstream's names and defaults. Flatten it into a sidecar's own struct.
#[derive(Debug, Clone, clap::Args)]
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

    /// Logging, and what tunes a Go runtime
    #[command(flatten)]
    pub logging: LoggingArgs,
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
    without_effect: Vec<IgnoredFlag>,
}

impl StandardArgs {
    /// [`LoggingArgs::config`] of the flags.
    pub fn logging(&self) -> Result<logging::Config, Exit> {
        self.logging.config()
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
            without_effect: self.logging.without_effect(),
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
}

impl Standard {
    /// Warns, once, of each given flag that tunes what this program does not have.
    pub fn log_ignored_flags(&self) {
        warn_of(&self.without_effect);
    }
}

fn above_zero(flag: &str, value: GoDuration) -> Result<Duration, Exit> {
    value.positive().ok_or_else(|| Exit::usage(format!("{flag} ({value}) must be greater than zero")))
}

#[cfg(test)]
mod tests;
