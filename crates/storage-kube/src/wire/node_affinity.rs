//! `spec.nodeAffinity` of a `PersistentVolume`, for those who ask for nothing else of it.

use k8s_openapi::{api::core::v1 as full, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::{metadata::slim, presence::is_set, presence::null_as_default};

/// From where a volume can be reached, read-only. Apart from the other wire type of volumes, which is decoded for each
/// volume of a cluster.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = full::PersistentVolume)]
pub struct VolumeReach {
    /// Only the fields rules read, see the module.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Its affinity.
    #[serde(default, deserialize_with = "null_as_default")]
    pub spec: VolumeReachSpec,
}

/// `spec`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeReachSpec {
    /// Absent: from everywhere.
    pub node_affinity: Option<NodeAffinity>,
}

/// The nodes (core/v1 `VolumeNodeAffinity`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// Absent: all.
    pub required: Option<NodeSelector>,
}

/// Nodes that one of the terms selects (core/v1 `NodeSelector`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelector {
    /// The terms.
    #[serde(deserialize_with = "null_as_default")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// All expressions hold (core/v1 `NodeSelectorTerm`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelectorTerm {
    /// About labels.
    #[serde(deserialize_with = "null_as_default")]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// Whether there are any about fields; a provisioner writes none.
    #[serde(deserialize_with = "is_set")]
    pub match_fields: bool,
}

/// One label (core/v1 `NodeSelectorRequirement`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeSelectorRequirement {
    /// The label.
    pub key: String,
    /// `In` and the like.
    pub operator: String,
    /// What the operator compares with.
    #[serde(deserialize_with = "null_as_default")]
    pub values: Vec<String>,
}
