//! What kubelet can ask a registration socket. Kubelet's calls are noted for the loop that owns the socket.

use csi_proto::pluginregistration::v1::registration_server::Registration;
use csi_proto::pluginregistration::v1::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, async_trait};
use tracing::{debug, error, info};

/// The plugin type under which kubelet takes CSI drivers.
const PLUGIN_TYPE: &str = "CSIPlugin";
/// The one version of CSI that kubelet knows.
const SUPPORTED_VERSION: &str = "1.0.0";

/// The metadata of our own health check, whose calls say nothing about kubelet.
pub(crate) const HEALTH_CHECK: &str = "outrigger-health-check";

/// A call of kubelet, on a connection to one of the sockets this process has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    /// The socket's number.
    pub(crate) socket: u64,
    pub(crate) said: Said,
}

/// What kubelet said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// `GetInfo`.
    Asked,
    /// `NotifyRegistrationStatus` with success.
    Accepted,
    /// `NotifyRegistrationStatus` without, and kubelet's reason.
    Refused(String),
}

/// The answers on one connection. Cheap to clone: one a connection.
#[derive(Debug, Clone)]
pub(crate) struct RegistrationService {
    pub(crate) driver: String,
    /// `--kubelet-registration-path`.
    pub(crate) endpoint: String,
    pub(crate) socket: u64,
    /// Where calls are noted.
    pub(crate) notes: mpsc::Sender<Note>,
}

impl RegistrationService {
    async fn note(&self, said: Said) {
        // The receiver is gone only while the process ends.
        let _ = self.notes.send(Note { socket: self.socket, said }).await;
    }
}

#[async_trait]
impl Registration for RegistrationService {
    async fn get_info(&self, request: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        if request.metadata().contains_key(HEALTH_CHECK) {
            debug!(driver = self.driver, "The health check asks who the driver is");
        } else {
            info!(driver = self.driver, "Kubelet asks who the driver is");
            self.note(Said::Asked).await;
        }
        Ok(Response::new(PluginInfo {
            r#type: PLUGIN_TYPE.to_owned(),
            name: self.driver.clone(),
            endpoint: self.endpoint.clone(),
            supported_versions: vec![SUPPORTED_VERSION.to_owned()],
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let RegistrationStatus { plugin_registered, error: reason } = request.into_inner();
        if plugin_registered {
            info!(driver = self.driver, "Kubelet has registered the driver");
            self.note(Said::Accepted).await;
        } else {
            let hint = "see that --kubelet-registration-path is the driver's socket on the host";
            error!(error = reason, driver = self.driver, endpoint = self.endpoint, hint, "Kubelet refuses the driver");
            self.note(Said::Refused(reason)).await;
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
