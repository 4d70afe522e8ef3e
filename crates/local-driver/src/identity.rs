//! The Identity service.

use std::sync::Arc;

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::identity_server::Identity;
use csi_proto::csi::v1::plugin_capability;
use csi_proto::csi::v1::plugin_capability::service::Type as PluginService;
use tonic::Status;

use crate::calls::serve_calls;
use crate::capabilities::{Capabilities, Capability};

#[derive(Debug)]
pub(crate) struct IdentityService {
    pub(crate) driver_name: String,
    pub(crate) capabilities: Arc<Capabilities>,
    /// Whether volumes have a topology.
    pub(crate) with_topology: bool,
}

serve_calls! {
    Identity for IdentityService;
    answers {
        get_plugin_info GetPluginInfo(GetPluginInfoRequest) -> GetPluginInfoResponse;
        get_plugin_capabilities GetPluginCapabilities(GetPluginCapabilitiesRequest) -> GetPluginCapabilitiesResponse;
        probe Probe(ProbeRequest) -> ProbeResponse;
    }
    awaits {}
    refuses {}
}

#[expect(
    clippy::unnecessary_wraps,
    clippy::trivially_copy_pass_by_ref,
    clippy::unused_self,
    reason = "the shape serve_calls! asks for"
)]
impl IdentityService {
    fn get_plugin_info(&self, _: &csi::GetPluginInfoRequest) -> Result<csi::GetPluginInfoResponse, Status> {
        Ok(csi::GetPluginInfoResponse {
            name: self.driver_name.clone(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..csi::GetPluginInfoResponse::default()
        })
    }

    fn get_plugin_capabilities(
        &self,
        _: &csi::GetPluginCapabilitiesRequest,
    ) -> Result<csi::GetPluginCapabilitiesResponse, Status> {
        use plugin_capability::volume_expansion;
        let capability = |service: PluginService| csi::PluginCapability {
            r#type: Some(plugin_capability::Type::Service(plugin_capability::Service { r#type: service.into() })),
        };
        let controller =
            self.capabilities.has(Capability::ControllerService).then_some(PluginService::ControllerService);
        let topology = self.with_topology.then_some(PluginService::VolumeAccessibilityConstraints);
        let services = controller.into_iter().chain(topology).map(capability);
        let growing = [Capability::ExpandVolume, Capability::NodeExpandVolume];
        let expansion = growing.iter().any(|one| self.capabilities.has(*one)).then(|| {
            let offline = self.capabilities.has(Capability::VolumeExpansionOffline);
            let how = if offline { volume_expansion::Type::Offline } else { volume_expansion::Type::Online };
            let expansion = plugin_capability::VolumeExpansion { r#type: how.into() };
            csi::PluginCapability { r#type: Some(plugin_capability::Type::VolumeExpansion(expansion)) }
        });
        let capabilities = services.chain(expansion).collect();
        Ok(csi::GetPluginCapabilitiesResponse { capabilities })
    }

    /// Ready once the state is loaded, and the socket is there only after that.
    fn probe(&self, _: &csi::ProbeRequest) -> Result<csi::ProbeResponse, Status> {
        Ok(csi::ProbeResponse { ready: Some(true) })
    }
}
