//! What kubelet does at a registration socket.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use csi_proto::pluginregistration::v1::registration_client::RegistrationClient;
use csi_proto::pluginregistration::v1::{InfoRequest, PluginInfo, RegistrationStatus};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

/// One connection.
pub(crate) struct Kubelet(RegistrationClient<Channel>);

impl Kubelet {
    pub(crate) async fn dial(path: &Path) -> Self {
        let path = path.to_owned();
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let channel = Endpoint::from_static("http://localhost").connect_with_connector(connector).await.unwrap();
        Self(RegistrationClient::new(channel))
    }

    pub(crate) async fn get_info(&mut self) -> PluginInfo {
        self.0.get_info(InfoRequest {}).await.unwrap().into_inner()
    }

    pub(crate) async fn notify(&mut self, error: Option<&str>) {
        let error = error.map(str::to_owned);
        let status = RegistrationStatus { plugin_registered: error.is_none(), error: error.unwrap_or_default() };
        self.0.notify_registration_status(status).await.unwrap();
    }

    /// The whole of a registration that succeeds.
    pub(crate) async fn register(&mut self) -> PluginInfo {
        let info = self.get_info().await;
        self.notify(None).await;
        info
    }
}
