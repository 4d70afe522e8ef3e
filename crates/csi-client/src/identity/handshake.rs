//! The questions a new connection must answer before calls pass on it.
//!
//! Probe rules as in the Go sidecars: at once, then every second, each attempt under the call deadline; `ready` absent is ready;
//! `ready=false` and `DEADLINE_EXCEEDED` are asked again; every other answer is fatal on the first connection of the process.
//! On later connections nothing but another identity is fatal.

use std::collections::BTreeMap;
use std::time::Duration;

use csi_proto::csi::v1::{
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse, GetPluginCapabilitiesRequest,
    GetPluginCapabilitiesResponse, GetPluginInfoRequest, GetPluginInfoResponse, NodeGetCapabilitiesRequest,
    NodeGetCapabilitiesResponse, NodeGetInfoRequest, NodeGetInfoResponse, ProbeRequest, ProbeResponse,
    controller_service_capability::rpc::Type as ControllerRpc, node_service_capability,
    node_service_capability::rpc::Type as NodeRpc, plugin_capability::service::Type as Service,
};
use tokio::time::{MissedTickBehavior, interval};
use tonic::Code;

use crate::call::Caller;
use crate::connection::waiting::Waiting;
use crate::generation::Generation;
use crate::{
    Address, CallError, ControllerCapabilities, DriverInfo, DriverName, Error, Handshake, PluginCapabilities, Rpc,
};

pub(crate) const PROBE: &str = "/csi.v1.Identity/Probe";
pub(crate) const GET_PLUGIN_INFO: &str = "/csi.v1.Identity/GetPluginInfo";
pub(crate) const NODE_GET_INFO: &str = "/csi.v1.Node/NodeGetInfo";
const NODE_GET_CAPABILITIES: &str = "/csi.v1.Node/NodeGetCapabilities";
const GET_PLUGIN_CAPABILITIES: &str = "/csi.v1.Identity/GetPluginCapabilities";
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Why a connection may not be used.
pub(crate) enum Refusal {
    /// Dial again; the text says why.
    Again(String),
    /// The process must end.
    Fatal(Error),
}

/// One handshake on one connection.
pub(crate) struct Questions<'a> {
    pub(crate) address: &'a Address,
    pub(crate) caller: &'a Caller,
    pub(crate) generation: &'a Generation,
    pub(crate) waiting: &'a Waiting,
    /// What an earlier connection answered.
    pub(crate) known: Option<&'a DriverInfo>,
}

impl Questions<'_> {
    pub(crate) async fn ask(&self, handshake: Handshake) -> Result<DriverInfo, Refusal> {
        self.probe_until_ready().await?;
        let mut info = DriverInfo {
            name: DriverName::unknown(),
            plugin: PluginCapabilities::default(),
            controller: ControllerCapabilities::default(),
            node_topology: None,
            node_expands: false,
        };
        if handshake != Handshake::Probe {
            info.name = self.name().await?;
            self.caller.metrics.name_driver(&info.name);
        }
        if !matches!(handshake, Handshake::Probe | Handshake::Name) {
            info.plugin = self.plugin_capabilities().await?;
            let if_served = matches!(handshake, Handshake::ControllerIfServed | Handshake::ControllerOrNodeExpansion);
            if !if_served || info.plugin.has(Service::ControllerService) {
                info.controller = self.controller_capabilities().await?;
            }
        }
        if handshake == Handshake::ControllerOrNodeExpansion
            && info.plugin.has(Service::ControllerService)
            && !info.controller.has(ControllerRpc::ExpandVolume)
        {
            info.node_expands = self.node_expands().await?;
        }
        if handshake == Handshake::ControllerOfNode {
            info.node_topology = self.node_topology().await?;
        }
        match self.known.and_then(|known| known.change_to(&info)) {
            Some(change) => Err(Refusal::Fatal(Error::DriverChanged { address: self.address.clone(), change })),
            None => Ok(info),
        }
    }

    async fn probe_until_ready(&self) -> Result<(), Refusal> {
        let mut attempts = interval(PROBE_INTERVAL);
        attempts.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            attempts.tick().await;
            let answer = self.caller.unary(self.generation, PROBE, false, ProbeRequest {}).await;
            match probed(answer, self.known.is_none()) {
                Probed::Ready => return Ok(()),
                Probed::NotReady(reason) => self.waiting.because(reason),
                Probed::Lost(error) => return Err(Refusal::Again(error.to_string())),
                Probed::Failed(source) => {
                    return Err(Refusal::Fatal(Error::ProbeFailed { address: self.address.clone(), source }));
                }
            }
            if self.generation.file().was_replaced_at(self.address.path()) {
                return Err(Refusal::Again("the socket file was replaced before the driver was ready".to_owned()));
            }
        }
    }

    async fn name(&self) -> Result<DriverName, Refusal> {
        let answer = self.caller.unary(self.generation, GET_PLUGIN_INFO, false, GetPluginInfoRequest {}).await;
        let address = || self.address.clone();
        let info: GetPluginInfoResponse =
            answer.map_err(|error| self.refuse(error, |source| Error::NoName { address: address(), source }))?;
        match (info.name.is_empty(), self.known) {
            (false, _) => Ok(info.name.into()),
            (true, None) => Err(Refusal::Fatal(Error::EmptyName { address: address() })),
            (true, Some(_)) => Err(Refusal::Again("driver name is empty".to_owned())),
        }
    }

    async fn plugin_capabilities(&self) -> Result<PluginCapabilities, Refusal> {
        let request = GetPluginCapabilitiesRequest {};
        let answer = self
            .caller
            .unary::<_, GetPluginCapabilitiesResponse>(self.generation, GET_PLUGIN_CAPABILITIES, false, request)
            .await;
        answer.map(Into::into).map_err(|error| self.refuse(error, |source| self.no_capabilities(source)))
    }

    async fn controller_capabilities(&self) -> Result<ControllerCapabilities, Refusal> {
        let (method, request) = (Rpc::ControllerGetCapabilities.method(), ControllerGetCapabilitiesRequest {});
        let answer =
            self.caller.unary::<_, ControllerGetCapabilitiesResponse>(self.generation, method, false, request).await;
        answer.map(Into::into).map_err(|error| self.refuse(error, |source| self.no_capabilities(source)))
    }

    async fn node_topology(&self) -> Result<Option<BTreeMap<String, String>>, Refusal> {
        let answer = self.caller.unary(self.generation, NODE_GET_INFO, false, NodeGetInfoRequest {}).await;
        let info: NodeGetInfoResponse = answer.map_err(|error| {
            self.refuse(error, |source| Error::NoNodeInfo { address: self.address.clone(), source })
        })?;
        Ok(info.accessible_topology.map(|topology| topology.segments))
    }

    async fn node_expands(&self) -> Result<bool, Refusal> {
        let request = NodeGetCapabilitiesRequest {};
        let answer = self
            .caller
            .unary::<_, NodeGetCapabilitiesResponse>(self.generation, NODE_GET_CAPABILITIES, false, request)
            .await;
        let answer = match answer {
            // The socket of a controller need not have a node service.
            Err(CallError::Status { code: Code::Unimplemented, .. }) => return Ok(false),
            answer => answer.map_err(|error| self.refuse(error, |source| self.no_capabilities(source)))?,
        };
        Ok(answer.capabilities.into_iter().any(|capability| match capability.r#type {
            Some(node_service_capability::Type::Rpc(rpc)) => rpc.r#type() == NodeRpc::ExpandVolume,
            None => false,
        }))
    }

    fn no_capabilities(&self, source: CallError) -> Error {
        Error::NoCapabilities { address: self.address.clone(), source }
    }

    /// A failed question after the probe: fatal on the first connection unless the connection was lost under it.
    fn refuse(&self, error: CallError, fatal: impl FnOnce(CallError) -> Error) -> Refusal {
        if self.known.is_some() || is_lost(&error) {
            Refusal::Again(error.to_string())
        } else {
            Refusal::Fatal(fatal(error))
        }
    }
}

/// What one Probe means.
#[derive(Debug, PartialEq)]
enum Probed {
    Ready,
    NotReady(String),
    Lost(CallError),
    Failed(CallError),
}

fn probed(answer: Result<ProbeResponse, CallError>, first: bool) -> Probed {
    match answer {
        Ok(ProbeResponse { ready: None | Some(true) }) => Probed::Ready,
        Ok(ProbeResponse { ready: Some(false) }) => {
            Probed::NotReady("the driver answers Probe with ready=false".to_owned())
        }
        Err(error) if error.code() == Code::DeadlineExceeded => {
            Probed::NotReady(format!("the driver did not answer Probe in time: {error}"))
        }
        Err(error) if is_lost(&error) => Probed::Lost(error),
        Err(error) if first => Probed::Failed(error),
        Err(error) => Probed::NotReady(format!("Probe failed: {error}")),
    }
}

/// The transport failed, not the driver: its deadline apart, that is a reason to dial again.
fn is_lost(error: &CallError) -> bool {
    !matches!(error, CallError::Status { .. }) && error.code() != Code::DeadlineExceeded
}
