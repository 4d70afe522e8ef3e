//! The command line: flags of the Go livenessprobe 2.19, names and defaults unchanged.

use std::time::Duration;

use clap::Parser;
use csi_client::Address;
use sidecar::{Exit, GoDuration, LoggingArgs};

/// Upstream's default, which also stands for "not given".
const DEFAULT_HEALTH_PORT: &str = "9808";
/// Where the kubelet asks.
pub(crate) const HEALTHZ: &str = "/healthz";

/// Answers the kubelet's HTTP probes of a CSI driver by calling its Probe.
#[derive(Debug, Parser)]
#[command(name = "livenessprobe", disable_version_flag = true)]
pub struct LivenessArgs {
    /// The driver's Unix socket: an absolute path, with or without `unix://` before it
    #[arg(long, default_value = "/run/csi/socket")]
    csi_address: String,
    /// The most a request may take, connecting to the driver included
    #[arg(long, default_value = "3s")]
    probe_timeout: GoDuration,
    /// Deprecated: port of /healthz on all IPv4 addresses; use --http-endpoint
    #[arg(long, default_value = DEFAULT_HEALTH_PORT)]
    health_port: String,
    /// Address of /healthz and the metrics, such as :9808
    #[arg(long, default_value = "", hide_default_value = true)]
    http_endpoint: String,
    /// Deprecated: address for metrics only; use --http-endpoint
    #[arg(long, default_value = "", hide_default_value = true)]
    metrics_address: String,
    /// Path of the metrics, where they are served
    #[arg(long, default_value = "/metrics")]
    metrics_path: String,
    #[command(flatten)]
    pub(crate) logging: LoggingArgs,
}

/// What the flags mean: nothing in it has to be checked again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The driver's socket.
    pub csi_address: Address,
    /// The most a request may take; above zero.
    pub probe_timeout: Duration,
    /// Where `/healthz` is served, `host:port`.
    pub health_address: String,
    /// Where metrics are served, if anywhere.
    pub metrics: Option<MetricsPlace>,
}

/// Where metrics are served, and under which path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsPlace {
    /// Beside `/healthz`.
    WithHealth {
        /// Begins with a slash.
        path: String,
    },
    /// On an address of their own.
    Alone {
        /// `host:port`
        address: String,
        /// Begins with a slash.
        path: String,
    },
}

impl LivenessArgs {
    /// Checks all flags but those of logging. Code 1 for flags that exclude each other, 2 for what makes the Go program panic.
    pub fn config(&self) -> Result<Config, Exit> {
        self.refuse_conflicts()?;
        let probe_timeout = self.probe_timeout.positive().ok_or_else(|| {
            Exit::error(format!(
                "--probe-timeout ({}) must be more than 0, for example --probe-timeout=3s: no driver answers in no time",
                self.probe_timeout
            ))
        })?;
        let health_address = match &*self.http_endpoint {
            "" => format!("0.0.0.0:{}", self.health_port),
            endpoint => endpoint.to_owned(),
        };
        let csi_address = Address::parse_on_node(&self.csi_address)
            .map_err(|error| Exit::error(format!("--csi-address: {error}")))?;
        Ok(Config { csi_address, probe_timeout, health_address, metrics: self.metrics()? })
    }

    fn refuse_conflicts(&self) -> Result<(), Exit> {
        let Self { health_port, http_endpoint, metrics_address, .. } = self;
        if http_endpoint.is_empty() {
            return Ok(());
        }
        if health_port != DEFAULT_HEALTH_PORT {
            return Err(Exit::error(format!(
                "only one of --health-port ({health_port}) and --http-endpoint ({http_endpoint}) can be set; \
                 remove --health-port, which is deprecated"
            )));
        }
        if !metrics_address.is_empty() {
            return Err(Exit::error(format!(
                "only one of --metrics-address ({metrics_address}) and --http-endpoint ({http_endpoint}) can be set; \
                 --http-endpoint serves the metrics too"
            )));
        }
        Ok(())
    }

    fn metrics(&self) -> Result<Option<MetricsPlace>, Exit> {
        let path = self.metrics_path.clone();
        let place = match (&*self.metrics_address, &*self.http_endpoint) {
            ("", "") => return Ok(None),
            ("", _) if path == HEALTHZ => {
                return Err(Exit::usage("--metrics-path \"/healthz\" is where the health is served; choose another"));
            }
            ("", _) => MetricsPlace::WithHealth { path },
            (address, _) => MetricsPlace::Alone { address: address.to_owned(), path },
        };
        if self.metrics_path.starts_with('/') {
            Ok(Some(place))
        } else {
            Err(Exit::usage(format!("--metrics-path {:?} must start with a slash", self.metrics_path)))
        }
    }
}
