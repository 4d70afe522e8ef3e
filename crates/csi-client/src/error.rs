//! Why a driver cannot be served at all. Failures of single calls are [`CallError`].

use crate::{Address, CallError};

/// A failure that ends the process, or keeps it from starting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is no Unix socket path.
    #[error(
        "CSI driver address {given:?} {problem}; give the absolute path of the driver's Unix socket, \
         for example /run/csi/socket or unix:///run/csi/socket"
    )]
    Address {
        /// What was given.
        given: String,
        /// What is wrong with it.
        problem: &'static str,
    },

    /// The registry refused the call metrics.
    #[error("metric {name} cannot be registered: {source}; register it once per registry")]
    Metrics {
        /// The metric.
        name: &'static str,
        /// The registry's answer.
        source: prometheus::Error,
    },

    /// The first connection's Probe was answered by something else than "ready" or "not ready yet".
    #[error("CSI driver probe failed: {source}; look at the log of the driver at {address}")]
    ProbeFailed {
        /// The driver.
        address: Address,
        /// Its answer.
        source: CallError,
    },

    /// `GetPluginInfo` failed on the first connection.
    #[error("CSI driver at {address} did not tell its name: {source}; look at the log of the driver")]
    NoName {
        /// The driver.
        address: Address,
        /// Its answer.
        source: CallError,
    },

    /// `GetPluginInfo` of the first connection answered without a name.
    #[error("CSI driver at {address}: driver name is empty; the driver must return one from GetPluginInfo")]
    EmptyName {
        /// The driver.
        address: Address,
    },

    /// A capability call failed on the first connection.
    #[error("CSI driver at {address} did not tell its capabilities: {source}; look at the log of the driver")]
    NoCapabilities {
        /// The driver.
        address: Address,
        /// Its answer.
        source: CallError,
    },

    /// `NodeGetInfo` failed on the first connection.
    #[error(
        "CSI driver at {address} did not tell where its node is (NodeGetInfo): {source}; look at the log of the driver, \
         which must serve the Node service"
    )]
    NoNodeInfo {
        /// The driver.
        address: Address,
        /// Its answer.
        source: CallError,
    },

    /// A later connection reached another driver than the first one. The text is the termination message.
    #[error(
        "CSI driver at {address} changed while it was being served: {change}; \
         exiting so that everything starts anew with the driver that is there now"
    )]
    DriverChanged {
        /// The driver.
        address: Address,
        /// What was, and what is.
        change: String,
    },
}
