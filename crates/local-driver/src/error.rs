//! Why the driver cannot start or go on.

use std::io;
use std::path::PathBuf;

use crate::program::ProgramError;

/// An error that ends the process; each names the object and the cure.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it; fields are what the messages name")]
pub enum Error {
    #[error("--endpoint {0:?} is not a socket of this machine: give unix:///path/to/csi.sock or an absolute path")]
    Endpoint(String),
    #[error(
        "--driver-name {0:?} is not a CSI plugin name: 1-63 letters, digits, '-' and '.', beginning and ending with a letter or digit"
    )]
    DriverName(String),
    #[error("--capabilities: {name:?} is not one this driver implements: {known}")]
    Capability { name: String, known: String },
    #[error("--capabilities: {dependent} does nothing without {on}: add it")]
    CapabilityAlone { dependent: &'static str, on: &'static str },
    #[error("--topology or --known-topology {segment:?}: {reason}")]
    Topology { segment: String, reason: &'static str },
    #[error("--capacity {0} is negative: give the bytes all volumes and snapshots may take together")]
    Capacity(i64),
    #[error("--fault {fault:?}: {reason}")]
    Fault { fault: String, reason: String },
    #[error("the async runtime cannot start ({0}): too few file descriptors or no signal handlers")]
    Runtime(#[source] io::Error),
    #[error("socket {path}: {source}: the directory must exist and be writable, the path at most 100 bytes long")]
    Bind { path: PathBuf, source: io::Error },
    #[error("socket {0}: another process listens on it: stop that process or choose another --endpoint")]
    SocketInUse(PathBuf),
    #[error("socket {0}: the path exists and is not a socket: remove it or choose another --endpoint")]
    NotASocket(PathBuf),
    #[error("serving the socket failed: {0}")]
    Serve(#[source] tonic::transport::Error),
    #[error("state directory {0} is in use by another local-driver: one directory belongs to one driver")]
    StateInUse(PathBuf),
    #[error("{action} {path}: {source}: check the permissions and the space of --state-dir")]
    State { action: &'static str, path: PathBuf, source: io::Error },
    #[error("no file system can be made in {path}: {source}")]
    FileSystem { path: PathBuf, source: ProgramError },
    #[error("record {path} cannot be read ({reason}): restore the file, or move it away to give up what it is of")]
    Record { path: PathBuf, reason: String },
    #[error("journal {path}: {source}: give --journal a file in a writable directory")]
    Journal { path: PathBuf, source: io::Error },
}
