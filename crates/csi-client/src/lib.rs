//! One CSI driver behind one Unix socket.
//!
//! **A connection** ([`Connection::run`]): look at the path → dial → HTTP/2 on that one stream (a *generation*) → handshake
//! (Probe until ready, name, capabilities, compared with the first connection's) → calls pass → the stream ends, or the path leads
//! to another socket that passes the handshake → the next generation. Calls in flight on a replaced generation finish there.
//! It waits without limit, says every ten seconds for what, and ends only with an [`Error`] the process must end with.
//!
//! **A call** ([`ControllerClient`]): wait for a generation that has passed, at most the timeout → [`Admission`] → send, under the
//! deadline, past a fence at the socket → the answer, or a [`CallError`] in the words of a Go client → [`meaning`] says what the error leaves behind. Each call
//! sent is counted in `csi_sidecar_operations_seconds` and logged at TRACE with its secrets hidden.
//!
//! **A session** ([`Session`]): one connection for the programs beside the driver on its node, without handshake, admission and
//! reconnect: dial → calls, each with its own deadline → dropped, or told that the driver's side has ended.
//!
//! Not guaranteed:
//! - That an admitted call is not processed after the admission has lapsed. CSI has no fencing token: the driver may read a request
//!   long after it was written. A dropped call may have reached the driver.
//! - That a driver which lowers its limit of concurrent streams under way does not delay calls that were admitted.
//! - That a driver replaced behind an unchanged connection (a proxy) is noticed.
//! - That secrets a driver repeats in its error messages, or that stand in fields without the `csi_secret` option, are hidden.

mod address;
mod call;
mod call_error;
mod capabilities;
mod code;
mod connection;
mod controller;
mod deadline;
mod driver;
mod error;
mod generation;
mod identity;
mod observe;
mod rpc;
mod session;
mod status_text;

pub use address::Address;
pub use call_error::CallError;
pub use capabilities::{ControllerCapabilities, PluginCapabilities};
pub use code::{Meaning, meaning};
pub use connection::dial::DialError;
pub use connection::waiting::Waiting;
pub use connection::{Connection, pause_after_dial};
pub use controller::{Admission, ControllerClient, Denied};
pub use driver::{Driver, NewConnections, Settings};
pub use error::Error;
pub use generation::{SocketExecutor, SocketTasks};
pub use identity::{DriverInfo, DriverName, Handshake};
pub use observe::CallMetrics;
pub use rpc::Rpc;
pub use session::Session;
pub use status_text::code_name;
/// The gRPC codes of [`CallError::code`].
pub use tonic::Code;
