//! How a single call can fail.

use std::time::Duration;

use tonic::Code;

use crate::Address;
use crate::status_text::code_name;

/// A call that brought no response. The text is what a Go client puts into events and conditions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Refused by the caller's [`Admission`](crate::Admission). Not sent.
    #[error("{method} was not sent: {reason}")]
    Denied {
        /// Full method name.
        method: &'static str,
        /// Why.
        reason: String,
    },

    /// No connection passed its handshake in time. Not sent.
    #[error(
        "rpc error: code = Unavailable desc = connection error: no connection to the CSI driver at {address} for {waited:?}: {reason}"
    )]
    NotConnected {
        /// Full method name.
        method: &'static str,
        /// The driver.
        address: Address,
        /// How long this call waited.
        waited: Duration,
        /// What the connection waits for.
        reason: String,
    },

    /// The driver's own answer.
    #[error("rpc error: code = {} desc = {message}", code_name(*code))]
    Status {
        /// Full method name.
        method: &'static str,
        /// Its code.
        code: Code,
        /// Its message.
        message: String,
    },

    /// Sent, and nothing usable came back: deadline, lost connection, reset stream, unreadable answer.
    #[error("rpc error: code = {} desc = {message}", code_name(*code))]
    Unanswered {
        /// Full method name.
        method: &'static str,
        /// The code a Go client has for it.
        code: Code,
        /// The text a Go client has for it.
        message: String,
    },
}

impl CallError {
    /// The gRPC code; `Unavailable` for a call that was never sent.
    pub fn code(&self) -> Code {
        match self {
            Self::Denied { .. } | Self::NotConnected { .. } => Code::Unavailable,
            Self::Status { code, .. } | Self::Unanswered { code, .. } => *code,
        }
    }

    /// Full method name, `/csi.v1.Controller/CreateVolume`.
    pub fn method(&self) -> &'static str {
        match self {
            Self::Denied { method, .. }
            | Self::NotConnected { method, .. }
            | Self::Status { method, .. }
            | Self::Unanswered { method, .. } => method,
        }
    }

    /// Whether the request may have reached the driver.
    pub fn was_sent(&self) -> bool {
        match self {
            Self::Denied { .. } | Self::NotConnected { .. } => false,
            Self::Status { .. } | Self::Unanswered { .. } => true,
        }
    }
}
