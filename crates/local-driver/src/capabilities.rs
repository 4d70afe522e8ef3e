//! What the driver advertises, each switchable.

use std::collections::BTreeSet;

use csi_proto::csi::v1::controller_service_capability::rpc::Type as ControllerCapability;

use crate::error::Error;

/// A capability of the plugin or of its Controller service, by its name in the CSI specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// The Controller service itself (`PluginCapability.Service`).
    ControllerService,
    /// CreateVolume, DeleteVolume.
    CreateDeleteVolume,
    /// `ListVolumes`.
    ListVolumes,
    /// `ControllerGetVolume` (alpha in CSI 1.13).
    GetVolume,
    /// `GetCapacity`.
    GetCapacity,
    /// The access modes `SINGLE_NODE_SINGLE_WRITER` and `SINGLE_NODE_MULTI_WRITER` (alpha in CSI 1.13).
    SingleNodeMultiWriter,
}

use Capability::{ControllerService, CreateDeleteVolume, GetCapacity, GetVolume, ListVolumes, SingleNodeMultiWriter};

const ALL: [Capability; 6] =
    [ControllerService, CreateDeleteVolume, ListVolumes, GetVolume, GetCapacity, SingleNodeMultiWriter];

/// Advertised unless `--capabilities` says otherwise.
pub(crate) const DEFAULT: &str = "CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,LIST_VOLUMES,GET_VOLUME";

impl Capability {
    /// The name as the CSI specification spells it.
    pub const fn name(self) -> &'static str {
        match self {
            ControllerService => "CONTROLLER_SERVICE",
            CreateDeleteVolume => "CREATE_DELETE_VOLUME",
            ListVolumes => "LIST_VOLUMES",
            GetVolume => "GET_VOLUME",
            GetCapacity => "GET_CAPACITY",
            SingleNodeMultiWriter => "SINGLE_NODE_MULTI_WRITER",
        }
    }

    const fn of_controller(self) -> Option<ControllerCapability> {
        match self {
            ControllerService => None,
            CreateDeleteVolume => Some(ControllerCapability::CreateDeleteVolume),
            ListVolumes => Some(ControllerCapability::ListVolumes),
            GetVolume => Some(ControllerCapability::GetVolume),
            GetCapacity => Some(ControllerCapability::GetCapacity),
            SingleNodeMultiWriter => Some(ControllerCapability::SingleNodeMultiWriter),
        }
    }
}

/// The advertised set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities(BTreeSet<Capability>);

impl Capabilities {
    /// Reads a comma list of names; an empty list advertises nothing.
    pub fn parse(list: &str) -> Result<Self, Error> {
        let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
        let set = names.map(named).collect::<Result<BTreeSet<_>, _>>()?;
        match set.iter().find(|one| **one != ControllerService) {
            Some(one) if !set.contains(&ControllerService) => {
                Err(Error::CapabilityAlone { dependent: one.name(), on: ControllerService.name() })
            }
            _ => Ok(Self(set)),
        }
    }

    /// Whether it is advertised.
    pub fn has(&self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }

    /// Those that `ControllerGetCapabilities` lists.
    pub fn of_controller(&self) -> impl Iterator<Item = ControllerCapability> {
        self.0.iter().filter_map(|one| one.of_controller())
    }
}

fn named(name: &str) -> Result<Capability, Error> {
    ALL.into_iter()
        .find(|one| one.name() == name)
        .ok_or_else(|| Error::Capability { name: name.to_owned(), known: ALL.map(Capability::name).join(", ") })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_default_is_what_is_implemented_for_every_cluster() {
        let capabilities = Capabilities::parse(DEFAULT).unwrap();
        assert!(capabilities.has(ListVolumes) && !capabilities.has(GetCapacity));
    }

    #[test]
    fn unknown_and_unimplemented_names_are_refused_with_the_known_ones() {
        for name in ["LIST_VOLUME", "CLONE_VOLUME", "list_volumes"] {
            let message = Capabilities::parse(name).unwrap_err().to_string();
            assert!(message.contains(name) && message.contains("LIST_VOLUMES, GET_VOLUME"), "{message}");
        }
    }

    #[test]
    fn controller_capabilities_need_the_controller_service() {
        let message = Capabilities::parse("LIST_VOLUMES").unwrap_err().to_string();
        assert!(message.contains("CONTROLLER_SERVICE"), "{message}");
        assert!(!Capabilities::parse("").unwrap().has(ControllerService));
    }
}
