//! `StorageClass`.

use std::collections::BTreeMap;

use k8s_openapi::{api::storage::v1 as full, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::{
    metadata::slim,
    presence::{has_entries, null_as_default},
};
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
    /// Whether `allowedTopologies` has an entry.
    #[serde(default, rename = "allowedTopologies", deserialize_with = "has_entries")]
    pub has_allowed_topologies: bool,
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
