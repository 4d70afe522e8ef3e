//! The command line: flags of the Go csi-node-driver-registrar 2.17, names and defaults unchanged.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use csi_client::Address;
use sidecar::flag_value::go_int;
use sidecar::{Exit, GoDuration, LoggingArgs};
use tracing::warn;

/// The mode of an exec probe that old manifests have and that has nothing to look at any more.
const PROBE_MODE: &str = "kubelet-registration-probe";

/// Introduces a CSI driver to the kubelet of its node.
#[derive(Debug, Parser)]
#[command(name = "csi-node-driver-registrar", disable_version_flag = true)]
pub(crate) struct RegistrarArgs {
    /// The driver's Unix socket in this container: an absolute path, with or without `unix://` before it
    #[arg(long, default_value = "/run/csi/socket")]
    csi_address: String,
    /// Required: path of the driver's socket on the host, which kubelet is told
    #[arg(long, default_value = "", hide_default_value = true)]
    kubelet_registration_path: String,
    /// Kubelet's plugin directory in this container, usually /var/lib/kubelet/plugins_registry of the host
    #[arg(long, default_value = "/registration")]
    plugin_registration_path: PathBuf,
    /// Deadline of each question to the driver, and of the check behind /healthz
    #[arg(long, default_value = "1s")]
    timeout: GoDuration,
    /// Address for /healthz, such as :8080; none is served without it
    #[arg(long, default_value = "", hide_default_value = true)]
    http_endpoint: String,
    /// Deprecated: port for /healthz on all interfaces; use --http-endpoint
    #[arg(long, value_parser = go_int, default_value = "0")]
    health_port: i64,
    /// Deprecated, without effect
    #[arg(long, default_value = "0s")]
    connection_timeout: GoDuration,
    /// Deprecated: kubelet-registration-probe ends at once with success, everything else registers
    #[arg(long, default_value = "", hide_default_value = true)]
    mode: String,
    /// Answer /debug/pprof/ (with the reason why there are no Go profiles)
    #[arg(long)]
    enable_pprof: bool,
    /// Print the version and exit
    #[arg(long)]
    pub(crate) version: bool,
    #[command(flatten)]
    pub(crate) logging: LoggingArgs,
}

/// What the flags mean: nothing in it has to be checked again.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The driver's socket.
    pub(crate) csi_address: Address,
    /// What kubelet is told as the driver's socket, as given.
    pub(crate) endpoint: String,
    /// Where the registration socket is made.
    pub(crate) directory: PathBuf,
    /// Deadline of a question.
    pub(crate) timeout: Duration,
    /// Where to serve HTTP, if anywhere.
    pub(crate) http_address: Option<String>,
    /// Whether profilers are told why there is nothing for them.
    pub(crate) pprof_asked: bool,
}

impl RegistrarArgs {
    /// Checks the flags, in the order of the Go program. `None`: there is nothing to do in this mode.
    pub(crate) fn config(&self) -> Result<Option<Config>, Exit> {
        if self.kubelet_registration_path.is_empty() {
            return Err(Exit::error(
                "--kubelet-registration-path is required: give the path of the driver's socket on the host",
            ));
        }
        if self.mode == PROBE_MODE {
            return Ok(None);
        }
        let timeout = self.timeout.positive().ok_or_else(|| {
            Exit::error(format!(
                "--timeout ({}) must be greater than zero, so that the driver can answer",
                self.timeout
            ))
        })?;
        Ok(Some(Config {
            http_address: self.http_address()?,
            csi_address: Address::parse_on_node(&self.csi_address)
                .map_err(|error| Exit::error(format!("--csi-address: {error}")))?,
            endpoint: self.kubelet_registration_path.clone(),
            directory: self.plugin_registration_path.clone(),
            timeout,
            pprof_asked: self.enable_pprof,
        }))
    }

    /// Warns of each given flag that is deprecated or has no effect.
    pub(crate) fn log_ignored_flags(&self) {
        self.logging.log_ignored_flags();
        if self.connection_timeout.nanos() != 0 {
            warn!(
                flag = "--connection-timeout",
                reason = "the driver is waited for without limit",
                "Flag has no effect"
            );
        }
        if !self.mode.is_empty() {
            warn!(flag = "--mode", value = self.mode, reason = "this program only registers", "Flag has no effect");
        }
        if self.health_port > 0 {
            warn!(flag = "--health-port", "Flag is deprecated, use --http-endpoint");
        }
        if self.enable_pprof {
            warn!(flag = "--enable-pprof", reason = sidecar::http::NO_PROFILES.trim_end(), "Flag has no effect");
        }
    }

    fn http_address(&self) -> Result<Option<String>, Exit> {
        match (self.health_port, &*self.http_endpoint) {
            (port @ 1.., "") => Ok(Some(format!(":{port}"))),
            (port @ 1.., endpoint) => Err(Exit::error(format!(
                "only one of --health-port ({port}) and --http-endpoint ({endpoint}) can be set; remove --health-port, \
                 which is deprecated"
            ))),
            (_, "") => Ok(None),
            (_, endpoint) => Ok(Some(endpoint.to_owned())),
        }
    }
}
