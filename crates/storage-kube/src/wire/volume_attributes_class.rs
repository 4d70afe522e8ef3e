//! `VolumeAttributesClass`.

use std::collections::BTreeMap;

use k8s_openapi::{api::storage::v1 as full, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::{metadata::slim, presence::null_as_default};

/// A class of mutable attributes, read-only.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = full::VolumeAttributesClass)]
#[serde(rename_all = "camelCase")]
pub struct VolumeAttributesClass {
    /// Only the fields rules read, see the module.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// The driver that serves it.
    #[serde(default)]
    pub driver_name: String,
    /// For the driver (CSI `mutable_parameters`).
    #[serde(default, deserialize_with = "null_as_default")]
    pub parameters: BTreeMap<String, String>,
}
