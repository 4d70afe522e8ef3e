//! What a driver can do, as sets.
//!
//! Entries without a type, and values this version of CSI does not name, are left out: an absent capability and an unknown one
//! mean the same to every rule here.

use std::collections::BTreeSet;
use std::fmt;

use csi_proto::csi::v1::{
    ControllerGetCapabilitiesResponse, GetPluginCapabilitiesResponse, controller_service_capability, plugin_capability,
};
use plugin_capability::service::Type as Service;
use plugin_capability::volume_expansion::Type as Expansion;

/// Values of [`controller_service_capability::rpc::Type`] the driver has advertised.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerCapabilities(BTreeSet<i32>);

/// Values of the plugin capabilities the driver has advertised.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PluginCapabilities {
    services: BTreeSet<i32>,
    expansions: BTreeSet<i32>,
}

impl ControllerCapabilities {
    /// Whether the driver has advertised it.
    pub fn has(&self, capability: controller_service_capability::rpc::Type) -> bool {
        self.0.contains(&(capability as i32))
    }
}

impl PluginCapabilities {
    /// Whether the driver has advertised the service.
    pub fn has(&self, service: Service) -> bool {
        self.services.contains(&(service as i32))
    }

    /// Whether the driver has advertised this way to expand volumes.
    pub fn expands(&self, expansion: Expansion) -> bool {
        self.expansions.contains(&(expansion as i32))
    }
}

impl From<ControllerGetCapabilitiesResponse> for ControllerCapabilities {
    fn from(response: ControllerGetCapabilitiesResponse) -> Self {
        use controller_service_capability::Type;
        let rpcs = response.capabilities.into_iter().filter_map(|capability| match capability.r#type? {
            Type::Rpc(rpc) => Some(rpc.r#type),
        });
        Self(rpcs.filter(|&value| named::<controller_service_capability::rpc::Type>(value)).collect())
    }
}

impl From<GetPluginCapabilitiesResponse> for PluginCapabilities {
    fn from(response: GetPluginCapabilitiesResponse) -> Self {
        use plugin_capability::Type;
        let mut capabilities = Self::default();
        for capability in response.capabilities {
            match capability.r#type {
                Some(Type::Service(service)) if named::<Service>(service.r#type) => {
                    capabilities.services.insert(service.r#type);
                }
                Some(Type::VolumeExpansion(expansion)) if named::<Expansion>(expansion.r#type) => {
                    capabilities.expansions.insert(expansion.r#type);
                }
                Some(_) | None => {}
            }
        }
        capabilities
    }
}

/// Known and not the zero value, which is `UNKNOWN` in each of these enums.
fn named<T: TryFrom<i32>>(value: i32) -> bool {
    value != 0 && T::try_from(value).is_ok()
}

impl fmt::Display for ControllerCapabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use controller_service_capability::rpc::Type;
        write_names(f, self.0.iter().filter_map(|&value| Type::try_from(value).ok()).map(|value| value.as_str_name()))
    }
}

impl fmt::Display for PluginCapabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let services =
            self.services.iter().filter_map(|&value| Service::try_from(value).ok()).map(|value| value.as_str_name());
        let expansions = self.expansions.iter().filter_map(|&value| Expansion::try_from(value).ok());
        write_names(f, services.chain(expansions.map(|value| value.as_str_name())))
    }
}

fn write_names(f: &mut fmt::Formatter<'_>, names: impl Iterator<Item = &'static str>) -> fmt::Result {
    f.write_str("[")?;
    for (index, name) in names.enumerate() {
        f.write_str(if index == 0 { "" } else { " " })?;
        f.write_str(name)?;
    }
    f.write_str("]")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use controller_service_capability::rpc::Type as Rpc;
    use csi_proto::csi::v1::{ControllerServiceCapability, PluginCapability};

    use super::*;

    fn controller(values: &[i32]) -> ControllerCapabilities {
        let capabilities = values
            .iter()
            .map(|&value| ControllerServiceCapability {
                r#type: Some(controller_service_capability::Type::Rpc(controller_service_capability::Rpc {
                    r#type: value,
                })),
            })
            .chain([ControllerServiceCapability { r#type: None }])
            .collect();
        ControllerGetCapabilitiesResponse { capabilities }.into()
    }

    #[test]
    fn advertised_controller_capabilities_are_in_the_set() {
        let capabilities = controller(&[Rpc::CreateDeleteVolume as i32, Rpc::CloneVolume as i32]);
        assert!(capabilities.has(Rpc::CreateDeleteVolume));
        assert!(!capabilities.has(Rpc::PublishUnpublishVolume));
        assert_eq!(capabilities.to_string(), "[CREATE_DELETE_VOLUME CLONE_VOLUME]");
    }

    #[test]
    fn none_empty_unknown_and_unnamed_capabilities_are_an_empty_set() {
        assert_eq!(
            ControllerCapabilities::from(ControllerGetCapabilitiesResponse::default()),
            ControllerCapabilities::default()
        );
        assert_eq!(controller(&[]), ControllerCapabilities::default());
        assert_eq!(controller(&[0, 12345]), ControllerCapabilities::default());
        let unknown = PluginCapability {
            r#type: Some(plugin_capability::Type::Service(plugin_capability::Service { r#type: 0 })),
        };
        let response = GetPluginCapabilitiesResponse { capabilities: vec![unknown, PluginCapability { r#type: None }] };
        assert_eq!(PluginCapabilities::from(response), PluginCapabilities::default());
    }

    #[test]
    fn plugin_services_and_expansions_do_not_mix() {
        let expansion = PluginCapability {
            r#type: Some(plugin_capability::Type::VolumeExpansion(plugin_capability::VolumeExpansion {
                r#type: Expansion::Online as i32,
            })),
        };
        let capabilities = PluginCapabilities::from(GetPluginCapabilitiesResponse { capabilities: vec![expansion] });
        assert!(capabilities.expands(Expansion::Online));
        assert!(!capabilities.has(Service::ControllerService));
        assert_eq!(capabilities.to_string(), "[ONLINE]");
    }
}
