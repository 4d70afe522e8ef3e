//! One connection to the driver, for programs that ask it a few questions on its node.
//!
//! What the controllers' connection adds (handshake, admission, reconnect) is left out: who holds a session decides itself what an
//! answer means and when to open the next one.

use std::time::Duration;

use csi_proto::Sanitize;
use csi_proto::csi::v1 as csi;
use prost::Message;

use crate::call::Caller;
use crate::connection::dial::{DialError, dial};
use crate::generation::{Generation, SocketTasks};
use crate::identity::handshake::{GET_PLUGIN_INFO, NODE_GET_INFO, PROBE};
use crate::{Address, CallError, CallMetrics};

/// An open connection. Dropped, it is closed and the calls on it are reset.
pub struct Session {
    address: Address,
    metrics: CallMetrics,
    generation: Generation,
    tasks: SocketTasks,
}

impl Session {
    /// Dials once and starts HTTP/2; never waits for the driver.
    ///
    /// Says nothing yet about the driver but that its socket accepts.
    pub async fn open(address: &Address, metrics: &CallMetrics) -> Result<Self, DialError> {
        let path = address.path();
        let (stream, file) = dial(path).await?;
        let tasks = SocketTasks::new();
        let generation = Generation::open(1, stream, file, &tasks)
            .await
            .map_err(|source| DialError::Http2 { path: path.to_owned(), source })?;
        Ok(Self { address: address.clone(), metrics: metrics.clone(), generation, tasks })
    }

    /// `Identity.Probe`. `ready` absent means ready (CSI specification, `ProbeResponse`).
    pub async fn probe(&self, timeout: Duration) -> Result<csi::ProbeResponse, CallError> {
        self.call(PROBE, csi::ProbeRequest {}, timeout).await
    }

    /// `Identity.GetPluginInfo`. The name may be empty, against the CSI specification.
    pub async fn plugin_info(&self, timeout: Duration) -> Result<csi::GetPluginInfoResponse, CallError> {
        self.call(GET_PLUGIN_INFO, csi::GetPluginInfoRequest {}, timeout).await
    }

    /// `Node.NodeGetInfo`.
    pub async fn node_info(&self, timeout: Duration) -> Result<csi::NodeGetInfoResponse, CallError> {
        self.call(NODE_GET_INFO, csi::NodeGetInfoRequest {}, timeout).await
    }

    /// Resolves when the driver's side is gone. Calls fail from then on.
    pub async fn ended(&self) {
        self.generation.ended().await;
    }

    /// Whether the address still leads to the socket that was dialled. A removed file leads nowhere, though the connection lives.
    pub fn socket_is_current(&self) -> bool {
        self.generation.file().is_at(self.address.path())
    }

    /// Closes the connection and waits until nothing of it is left.
    pub async fn close(self) {
        let Self { generation, tasks, .. } = self;
        drop(generation);
        tasks.stop().await;
    }

    async fn call<Req, Resp>(&self, method: &'static str, request: Req, timeout: Duration) -> Result<Resp, CallError>
    where
        Req: Message + Sanitize + 'static,
        Resp: Message + Sanitize + Default + 'static,
    {
        let caller = Caller { address: self.address.clone(), timeout, metrics: self.metrics.clone() };
        caller.unary(&self.generation, method, false, request).await
    }
}
