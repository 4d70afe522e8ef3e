//! `PersistentVolumeClaim`.

use k8s_openapi::{api::core::v1 as full, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::{
    metadata::slim,
    presence::{is_set, null_as_default},
};
use crate::{access_mode::AccessMode, class_name::class_name, volume_mode::VolumeMode};

/// A claim, read-only.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = full::PersistentVolumeClaim)]
pub struct PersistentVolumeClaim {
    /// Only the fields rules read, see the module.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(default, deserialize_with = "null_as_default")]
    pub spec: PersistentVolumeClaimSpec,
    /// What became of it.
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: PersistentVolumeClaimStatus,
}

/// `spec` of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeClaimSpec {
    /// In the order the user gave.
    #[serde(deserialize_with = "null_as_default")]
    pub access_modes: Vec<AccessMode>,
    /// How much.
    #[serde(deserialize_with = "null_as_default")]
    pub resources: Resources,
    /// Class as a field; [`PersistentVolumeClaim::class_name`] knows the annotation too.
    pub storage_class_name: Option<String>,
    /// Absent means file system.
    pub volume_mode: Option<VolumeMode>,
    /// The volume it is bound or to be bound to.
    pub volume_name: Option<String>,
    /// Whether there is a selector, even an empty one: such a claim cannot be provisioned.
    #[serde(rename = "selector", deserialize_with = "is_set")]
    pub has_selector: bool,
    /// What the volume starts out with; kinds of this namespace only.
    pub data_source: Option<DataSource>,
    /// The same with any kind, and a namespace behind a feature gate.
    pub data_source_ref: Option<DataSource>,
    /// Class of mutable attributes.
    pub volume_attributes_class_name: Option<String>,
}

/// `spec.resources` of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// What is asked for.
    #[serde(deserialize_with = "null_as_default")]
    pub requests: Requests,
}

/// `spec.resources.requests` of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Requests {
    /// Bytes as a quantity, not parsed yet: a bad one is that claim's error, not the decoder's.
    pub storage: Option<String>,
}

/// `spec.dataSource` or `spec.dataSourceRef` of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DataSource {
    /// API group; absent means core.
    pub api_group: Option<String>,
    /// Kind of the source object.
    pub kind: String,
    /// Name of the source object.
    pub name: String,
    /// Its namespace, in `dataSourceRef` only; absent or empty means the claim's.
    pub namespace: Option<String>,
}

/// `status` of a claim.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct PersistentVolumeClaimStatus {
    /// Absent or empty until the PV controller has seen the claim.
    pub phase: Option<ClaimPhase>,
}

crate::open_enum::open_enum! {
    /// Where a claim is in its life (core/v1 `PersistentVolumeClaimPhase`).
    pub enum ClaimPhase {
        /// Not bound yet.
        Pending,
        /// Bound to a volume.
        Bound,
        /// Its volume is gone.
        Lost,
    }
}

impl PersistentVolumeClaim {
    /// The class it asks for; `""` for none.
    pub fn class_name(&self) -> &str {
        class_name(self.metadata.annotations.as_ref(), self.spec.storage_class_name.as_deref())
    }
}
