//! `PersistentVolume`.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1 as full, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::{
    Storage, in_tree_source::InTreeSource, metadata::slim_with_labels, node_affinity::NodeAffinity,
    presence::null_as_default,
};
use crate::{
    access_mode::AccessMode, class_name::class_name, in_tree::InTreePlugin, reclaim_policy::ReclaimPolicy,
    volume_mode::VolumeMode,
};

/// A volume, read-only.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = full::PersistentVolume)]
pub struct PersistentVolume {
    /// Only the fields rules read, see the module.
    #[serde(deserialize_with = "slim_with_labels")]
    pub metadata: ObjectMeta,
    /// What it is.
    #[serde(default, deserialize_with = "null_as_default")]
    pub spec: PersistentVolumeSpec,
    /// How it is.
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: PersistentVolumeStatus,
}

/// `spec` of a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeSpec {
    /// How big it is.
    #[serde(deserialize_with = "null_as_default")]
    pub capacity: Storage<String>,
    /// The claim it is bound to or reserved for.
    pub claim_ref: Option<ClaimReference>,
    /// Set for a CSI volume; absent means any other kind of source.
    pub csi: Option<CsiSource>,
    /// Class as a field; [`PersistentVolume::class_name`] knows the annotation too.
    pub storage_class_name: Option<String>,
    /// `persistentVolumeReclaimPolicy`.
    #[serde(rename = "persistentVolumeReclaimPolicy")]
    pub reclaim_policy: Option<ReclaimPolicy>,
    /// How it may be used.
    #[serde(deserialize_with = "null_as_default")]
    pub access_modes: Vec<AccessMode>,
    /// Passed to the driver.
    #[serde(deserialize_with = "null_as_default")]
    pub mount_options: Vec<String>,
    /// Absent means with a file system.
    pub volume_mode: Option<VolumeMode>,
    /// Absent means that every node reaches it.
    pub node_affinity: Option<Box<NodeAffinity>>,
    // Sources that a CSI driver has taken over.
    aws_elastic_block_store: Option<Box<InTreeSource>>,
    gce_persistent_disk: Option<Box<InTreeSource>>,
    cinder: Option<Box<InTreeSource>>,
    azure_disk: Option<Box<InTreeSource>>,
    azure_file: Option<Box<InTreeSource>>,
    vsphere_volume: Option<Box<InTreeSource>>,
    portworx_volume: Option<Box<InTreeSource>>,
}

impl PersistentVolumeSpec {
    /// The source of a plugin built into Kubernetes, if it has one and a CSI driver replaces that plugin.
    pub fn in_tree_source(&self) -> Option<(InTreePlugin, &InTreeSource)> {
        let sources = [
            (&self.aws_elastic_block_store, InTreePlugin::AwsEbs),
            (&self.gce_persistent_disk, InTreePlugin::GcePd),
            (&self.cinder, InTreePlugin::Cinder),
            (&self.azure_disk, InTreePlugin::AzureDisk),
            (&self.azure_file, InTreePlugin::AzureFile),
            (&self.vsphere_volume, InTreePlugin::Vsphere),
            (&self.portworx_volume, InTreePlugin::Portworx),
        ];
        sources.into_iter().find_map(|(source, plugin)| Some((plugin, source.as_deref()?)))
    }

    /// The plugin of that source.
    pub fn in_tree_plugin(&self) -> Option<InTreePlugin> {
        self.in_tree_source().map(|(plugin, _)| plugin)
    }
}

/// `status` of a volume.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct PersistentVolumeStatus {
    /// Absent or empty until the PV controller has seen the volume.
    pub phase: Option<VolumePhase>,
}

/// The claim a volume belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimReference {
    /// Namespace of the claim.
    pub namespace: String,
    /// Name of the claim.
    pub name: String,
    /// UID of the claim; absent when a user reserved the volume by name.
    pub uid: Option<String>,
}

/// `spec.csi` of a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiSource {
    /// Name of the driver.
    pub driver: String,
    /// The driver's id of the volume.
    pub volume_handle: String,
    /// File system; absent or empty leaves it to the attacher's default.
    pub fs_type: Option<String>,
    /// To be published read-only.
    #[serde(deserialize_with = "null_as_default")]
    pub read_only: bool,
    /// What the driver said of the volume when it made it (CSI `volume_context`).
    #[serde(deserialize_with = "null_as_default")]
    pub volume_attributes: BTreeMap<String, String>,
    /// The Secret for `ControllerPublishVolume` and its reverse.
    pub controller_publish_secret_ref: Option<SecretReference>,
    /// The Secret for `ControllerExpandVolume`, and for `ControllerModifyVolume` where no annotation names one.
    pub controller_expand_secret_ref: Option<SecretReference>,
}

/// A reference to a Secret in any namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct SecretReference {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
}

crate::open_enum::open_enum! {
    /// Where a volume is in its life (core/v1 `PersistentVolumePhase`).
    pub enum VolumePhase {
        /// Not available yet.
        Pending,
        /// Free.
        Available,
        /// Bound to a claim.
        Bound,
        /// Its claim is gone; the reclaim policy applies.
        Released,
        /// Its claim is gone, and the PV controller could not reclaim it.
        Failed,
    }
}

impl PersistentVolume {
    /// Its class; `""` for none.
    pub fn class_name(&self) -> &str {
        class_name(self.metadata.annotations.as_ref(), self.spec.storage_class_name.as_deref())
    }
}
