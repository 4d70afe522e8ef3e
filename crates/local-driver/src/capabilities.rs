//! What the driver advertises, each switchable.

use std::collections::BTreeSet;

use csi_proto::csi::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::csi::v1::node_service_capability::rpc::Type as NodeCapability;

use crate::error::Error;

/// A capability of the plugin, of its Controller service or of its Node service, by its name in the CSI specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// The Controller service itself (`PluginCapability.Service`).
    ControllerService,
    /// CreateVolume, DeleteVolume.
    CreateDeleteVolume,
    /// ControllerPublishVolume, ControllerUnpublishVolume.
    PublishUnpublishVolume,
    /// `readonly` of ControllerPublishVolume.
    PublishReadonly,
    /// `ListVolumes`.
    ListVolumes,
    /// The nodes in what `ListVolumes` and `ControllerGetVolume` answer.
    ListVolumesPublishedNodes,
    /// `ControllerGetVolume` (alpha in CSI 1.13).
    GetVolume,
    /// `GetCapacity`.
    GetCapacity,
    /// CreateSnapshot, DeleteSnapshot, and volumes made of snapshots.
    CreateDeleteSnapshot,
    /// `ListSnapshots`.
    ListSnapshots,
    /// `GetSnapshot` (alpha in CSI 1.13).
    GetSnapshot,
    /// Volumes made of volumes.
    CloneVolume,
    /// ControllerModifyVolume, and mutable parameters of CreateVolume.
    ModifyVolume,
    /// ControllerExpandVolume.
    ExpandVolume,
    /// Volumes grow only while they are used nowhere: `VolumeExpansion.OFFLINE` of the plugin, which is `ONLINE` otherwise.
    VolumeExpansionOffline,
    /// Volumes have a topology, a capability of the plugin. A driver with a topology has it, listed or not.
    VolumeAccessibilityConstraints,
    /// The access modes `SINGLE_NODE_SINGLE_WRITER` and `SINGLE_NODE_MULTI_WRITER` (alpha in CSI 1.13), a capability
    /// of both services.
    SingleNodeMultiWriter,
    /// NodeStageVolume, NodeUnstageVolume.
    StageUnstageVolume,
    /// `NodeGetVolumeStats`.
    GetVolumeStats,
    /// NodeExpandVolume: `EXPAND_VOLUME` of the node, under a name that tells it from that of the controller.
    NodeExpandVolume,
}

use Capability::{
    CloneVolume, ControllerService, CreateDeleteSnapshot, CreateDeleteVolume, ExpandVolume, GetCapacity, GetSnapshot,
    GetVolume, GetVolumeStats, ListSnapshots, ListVolumes, ListVolumesPublishedNodes, ModifyVolume, NodeExpandVolume,
    PublishReadonly, PublishUnpublishVolume, SingleNodeMultiWriter, StageUnstageVolume, VolumeAccessibilityConstraints,
    VolumeExpansionOffline,
};

const ALL: [Capability; 20] = [
    ControllerService,
    CreateDeleteVolume,
    PublishUnpublishVolume,
    PublishReadonly,
    ListVolumes,
    ListVolumesPublishedNodes,
    GetVolume,
    GetCapacity,
    CreateDeleteSnapshot,
    ListSnapshots,
    GetSnapshot,
    CloneVolume,
    ModifyVolume,
    ExpandVolume,
    VolumeExpansionOffline,
    VolumeAccessibilityConstraints,
    SingleNodeMultiWriter,
    StageUnstageVolume,
    GetVolumeStats,
    NodeExpandVolume,
];

/// Advertised unless `--capabilities` says otherwise.
pub(crate) const DEFAULT: &str = "CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,LIST_VOLUMES,GET_VOLUME";

impl Capability {
    /// The name as the CSI specification spells it.
    pub const fn name(self) -> &'static str {
        match self {
            ControllerService => "CONTROLLER_SERVICE",
            CreateDeleteVolume => "CREATE_DELETE_VOLUME",
            PublishUnpublishVolume => "PUBLISH_UNPUBLISH_VOLUME",
            PublishReadonly => "PUBLISH_READONLY",
            ListVolumes => "LIST_VOLUMES",
            ListVolumesPublishedNodes => "LIST_VOLUMES_PUBLISHED_NODES",
            GetVolume => "GET_VOLUME",
            GetCapacity => "GET_CAPACITY",
            CreateDeleteSnapshot => "CREATE_DELETE_SNAPSHOT",
            ListSnapshots => "LIST_SNAPSHOTS",
            GetSnapshot => "GET_SNAPSHOT",
            CloneVolume => "CLONE_VOLUME",
            ModifyVolume => "MODIFY_VOLUME",
            ExpandVolume => "EXPAND_VOLUME",
            VolumeExpansionOffline => "VOLUME_EXPANSION_OFFLINE",
            VolumeAccessibilityConstraints => "VOLUME_ACCESSIBILITY_CONSTRAINTS",
            SingleNodeMultiWriter => "SINGLE_NODE_MULTI_WRITER",
            StageUnstageVolume => "STAGE_UNSTAGE_VOLUME",
            GetVolumeStats => "GET_VOLUME_STATS",
            NodeExpandVolume => "NODE_EXPAND_VOLUME",
        }
    }

    const fn of_controller(self) -> Option<ControllerCapability> {
        match self {
            ControllerService
            | VolumeExpansionOffline
            | VolumeAccessibilityConstraints
            | StageUnstageVolume
            | GetVolumeStats
            | NodeExpandVolume => None,
            CreateDeleteVolume => Some(ControllerCapability::CreateDeleteVolume),
            PublishUnpublishVolume => Some(ControllerCapability::PublishUnpublishVolume),
            PublishReadonly => Some(ControllerCapability::PublishReadonly),
            ListVolumes => Some(ControllerCapability::ListVolumes),
            ListVolumesPublishedNodes => Some(ControllerCapability::ListVolumesPublishedNodes),
            GetVolume => Some(ControllerCapability::GetVolume),
            GetCapacity => Some(ControllerCapability::GetCapacity),
            CreateDeleteSnapshot => Some(ControllerCapability::CreateDeleteSnapshot),
            ListSnapshots => Some(ControllerCapability::ListSnapshots),
            GetSnapshot => Some(ControllerCapability::GetSnapshot),
            CloneVolume => Some(ControllerCapability::CloneVolume),
            ModifyVolume => Some(ControllerCapability::ModifyVolume),
            ExpandVolume => Some(ControllerCapability::ExpandVolume),
            SingleNodeMultiWriter => Some(ControllerCapability::SingleNodeMultiWriter),
        }
    }

    const fn of_node(self) -> Option<NodeCapability> {
        match self {
            StageUnstageVolume => Some(NodeCapability::StageUnstageVolume),
            GetVolumeStats => Some(NodeCapability::GetVolumeStats),
            NodeExpandVolume => Some(NodeCapability::ExpandVolume),
            SingleNodeMultiWriter => Some(NodeCapability::SingleNodeMultiWriter),
            ControllerService
            | CreateDeleteVolume
            | PublishUnpublishVolume
            | PublishReadonly
            | ListVolumes
            | ListVolumesPublishedNodes
            | GetVolume
            | GetCapacity
            | CreateDeleteSnapshot
            | ListSnapshots
            | GetSnapshot
            | CloneVolume
            | ModifyVolume
            | ExpandVolume
            | VolumeExpansionOffline
            | VolumeAccessibilityConstraints => None,
        }
    }

    /// The capability without which this one says nothing.
    const fn needs(self) -> Option<Self> {
        match self {
            ControllerService | StageUnstageVolume | GetVolumeStats | NodeExpandVolume => None,
            PublishReadonly => Some(PublishUnpublishVolume),
            ListVolumesPublishedNodes => Some(ListVolumes),
            CloneVolume => Some(CreateDeleteVolume),
            CreateDeleteVolume
            | PublishUnpublishVolume
            | ListVolumes
            | GetVolume
            | GetCapacity
            | CreateDeleteSnapshot
            | ListSnapshots
            | GetSnapshot
            | ModifyVolume
            | ExpandVolume
            | VolumeExpansionOffline
            | VolumeAccessibilityConstraints
            | SingleNodeMultiWriter => Some(ControllerService),
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
        let needed = set.iter().filter_map(|one| one.needs().map(|on| (one, on)));
        match needed.clone().find(|(_, on)| !set.contains(on)) {
            Some((one, on)) => Err(Error::CapabilityAlone { dependent: one.name(), on: on.name() }),
            None => Ok(Self(set)),
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

    /// Those that NodeGetCapabilities lists.
    pub fn of_node(&self) -> impl Iterator<Item = NodeCapability> {
        self.0.iter().filter_map(|one| one.of_node())
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
        for name in ["LIST_VOLUME", "PUBLISH", "list_volumes"] {
            let message = Capabilities::parse(name).unwrap_err().to_string();
            assert!(message.contains(name) && message.contains("GET_VOLUME, GET_CAPACITY"), "{message}");
        }
    }

    #[test]
    fn capabilities_need_the_one_they_refine() {
        for (list, missing) in [
            ("LIST_VOLUMES", "CONTROLLER_SERVICE"),
            ("CONTROLLER_SERVICE,PUBLISH_READONLY", "PUBLISH_UNPUBLISH_VOLUME"),
            ("CONTROLLER_SERVICE,LIST_VOLUMES_PUBLISHED_NODES", "LIST_VOLUMES"),
            ("CONTROLLER_SERVICE,CLONE_VOLUME", "CREATE_DELETE_VOLUME"),
            ("MODIFY_VOLUME", "CONTROLLER_SERVICE"),
        ] {
            let message = Capabilities::parse(list).unwrap_err().to_string();
            assert!(message.contains(&format!("without {missing}")), "{message}");
        }
        assert!(!Capabilities::parse("").unwrap().has(ControllerService));
    }

    #[test]
    fn each_service_lists_its_own() {
        let capabilities = Capabilities::parse("STAGE_UNSTAGE_VOLUME,GET_VOLUME_STATS").unwrap();
        assert_eq!(capabilities.of_controller().count(), 0);
        assert!(capabilities.of_node().eq([NodeCapability::StageUnstageVolume, NodeCapability::GetVolumeStats]));
        let all = Capabilities::parse(&ALL.map(Capability::name).join(",")).unwrap();
        assert_eq!((all.of_controller().count(), all.of_node().count()), (14, 4));
    }
}
