//! `PersistentVolume`.

use k8s_openapi::{api::core::v1 as full, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::{metadata::slim, presence::null_as_default};
use crate::{class_name::class_name, reclaim_policy::ReclaimPolicy};

/// A volume, read-only.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = full::PersistentVolume)]
pub struct PersistentVolume {
    /// Only the fields rules read, see the module.
    #[serde(deserialize_with = "slim")]
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
#[serde(rename_all = "camelCase")]
pub struct PersistentVolumeSpec {
    /// The claim it is bound to or reserved for.
    pub claim_ref: Option<ClaimReference>,
    /// Set for a CSI volume; absent means any other kind of source.
    pub csi: Option<CsiSource>,
    /// Class as a field; [`PersistentVolume::class_name`] knows the annotation too.
    pub storage_class_name: Option<String>,
    /// `persistentVolumeReclaimPolicy`.
    #[serde(rename = "persistentVolumeReclaimPolicy")]
    pub reclaim_policy: Option<ReclaimPolicy>,
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
        /// Reclaiming failed in the PV controller; never deleted by a provisioner.
        Failed,
    }
}

impl PersistentVolume {
    /// Its class; `""` for none.
    pub fn class_name(&self) -> &str {
        class_name(self.metadata.annotations.as_ref(), self.spec.storage_class_name.as_deref())
    }
}
