//! `CSIStorageCapacity`.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::storage::v1 as full,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use kube::Resource;
use serde::{Deserialize, Deserializer};

use super::presence::null_as_default;

/// How much of a class there is where some labels select the nodes, read-only.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = full::CSIStorageCapacity)]
#[serde(rename_all = "camelCase")]
pub struct CsiStorageCapacity {
    /// `name`, `uid`, `resourceVersion`, `creationTimestamp`, `labels` and `ownerReferences`; every other field is `None`,
    /// whatever the object has.
    #[serde(deserialize_with = "labels_and_owners")]
    pub metadata: ObjectMeta,
    /// The class.
    #[serde(default)]
    pub storage_class_name: String,
    /// The nodes; absent: none.
    pub node_topology: Option<NodeTopology>,
    /// What is there, as a quantity; absent: not known.
    pub capacity: Option<String>,
    /// The largest volume that can be made, as a quantity; absent: not known.
    pub maximum_volume_size: Option<String>,
}

/// The selector of nodes (meta/v1 `LabelSelector`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeTopology {
    /// Labels with their values.
    #[serde(deserialize_with = "null_as_default")]
    pub match_labels: BTreeMap<String, String>,
    /// Whether there are expressions beside the labels; a provisioner writes none.
    #[serde(deserialize_with = "is_not_empty")]
    pub match_expressions: bool,
}

fn is_not_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let list = Option::<Vec<serde::de::IgnoredAny>>::deserialize(deserializer)?;
    Ok(list.is_some_and(|list| !list.is_empty()))
}

fn labels_and_owners<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Read {
        name: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        creation_timestamp: Option<Time>,
        labels: Option<BTreeMap<String, String>>,
        owner_references: Option<Vec<OwnerReference>>,
    }
    let read = Read::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: read.name,
        uid: read.uid,
        resource_version: read.resource_version,
        creation_timestamp: read.creation_timestamp,
        labels: read.labels,
        owner_references: read.owner_references,
        ..ObjectMeta::default()
    })
}
