//! `StorageClass`.

use std::collections::BTreeMap;

use k8s_openapi::{api::storage::v1 as full, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::{metadata::slim, presence::null_as_default};
use crate::reclaim_policy::ReclaimPolicy;

/// A class, read-only.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = full::StorageClass)]
#[serde(rename_all = "camelCase")]
pub struct StorageClass {
    /// Only the fields rules read, see the module.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// The driver that serves it.
    #[serde(default)]
    pub provisioner: String,
    /// For the driver and, under reserved keys, for the sidecars ([`crate::parameters`]).
    #[serde(default, deserialize_with = "null_as_default")]
    pub parameters: BTreeMap<String, String>,
    /// For volumes of this class; the API server fills in Delete.
    pub reclaim_policy: Option<ReclaimPolicy>,
    /// Mount flags, in order.
    #[serde(default, deserialize_with = "null_as_default")]
    pub mount_options: Vec<String>,
    /// When claims are provisioned; the API server fills in Immediate.
    pub volume_binding_mode: Option<BindingMode>,
    /// Where volumes may be: in one of these.
    #[serde(default, deserialize_with = "null_as_default")]
    pub allowed_topologies: Vec<AllowedTopology>,
}

/// One term of `allowedTopologies` (core/v1 `TopologySelectorTerm`): all of its expressions hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AllowedTopology {
    /// The expressions.
    #[serde(deserialize_with = "null_as_default")]
    pub match_label_expressions: Vec<LabelValues>,
}

/// A label and the values it may have (core/v1 `TopologySelectorLabelRequirement`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LabelValues {
    /// The label.
    pub key: String,
    /// One of these.
    #[serde(deserialize_with = "null_as_default")]
    pub values: Vec<String>,
}

crate::open_enum::open_enum! {
    /// When claims of a class get their volume (storage.k8s.io/v1 `VolumeBindingMode`).
    pub enum BindingMode {
        /// At once.
        Immediate,
        /// When a pod uses the claim and a node is selected.
        WaitForFirstConsumer,
    }
}
