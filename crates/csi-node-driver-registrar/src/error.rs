//! Why the program cannot go on.

use std::io;
use std::path::PathBuf;

use sidecar::Exit;

/// A failure that ends the process with exit code 1.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The first answer to `GetPluginInfo` had no name.
    #[error("CSI driver at {address}: driver name is empty; the driver must return one from GetPluginInfo")]
    EmptyName {
        /// The driver.
        address: csi_client::Address,
    },

    /// The name cannot be part of a file name.
    #[error(
        "CSI driver name {name:?} cannot be part of a socket's file name: {problem}; correct what the driver returns from GetPluginInfo"
    )]
    Name {
        /// What the driver calls itself.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },

    /// The kernel takes no path as long.
    #[error(
        "registration socket {}: the path has {} bytes, and the kernel allows 107; mount the plugin directory at a shorter \
         path and give it with --plugin-registration-path",
        path.display(), path.as_os_str().len()
    )]
    PathTooLong {
        /// The path.
        path: PathBuf,
    },

    /// Something stands at the path that is not ours to remove.
    #[error("registration socket {}: a {kind} is there, not a socket; remove it", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
        /// What is there.
        kind: &'static str,
    },

    /// A system call about the path failed.
    #[error(
        "registration socket {}: cannot {step}: {source}; see that --plugin-registration-path is kubelet's plugins_registry \
         directory and can be written", path.display()
    )]
    Socket {
        /// The path.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// The system's answer.
        source: io::Error,
    },

    /// The HTTP address cannot be had.
    #[error(
        "cannot listen on {address:?} for /healthz: {source}; correct --http-endpoint or --health-port, or free the port"
    )]
    Http {
        /// The address as given.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl From<Error> for Exit {
    #[track_caller]
    fn from(error: Error) -> Self {
        Self::error(error.to_string())
    }
}
