//! `CSINode`.

use k8s_openapi::{api::storage::v1 as full, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::{metadata::slim, presence::null_as_default};

/// Which drivers run on a node, read-only.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = full::CSINode)]
pub struct CsiNode {
    /// Only the fields rules read, see the module.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// The drivers.
    #[serde(default, deserialize_with = "null_as_default")]
    pub spec: CsiNodeSpec,
}

/// `spec` of a `CSINode`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiNodeSpec {
    /// Each driver registered with the node's kubelet.
    #[serde(deserialize_with = "null_as_default")]
    pub drivers: Vec<CsiNodeDriver>,
}

/// One driver of a `CSINode`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CsiNodeDriver {
    /// Name of the driver.
    pub name: String,
    /// What the driver calls the node.
    #[serde(rename = "nodeID")]
    pub node_id: String,
    /// Labels of the node that tell where it is; none when the driver has no topology.
    #[serde(rename = "topologyKeys", deserialize_with = "null_as_default")]
    pub topology_keys: Vec<String>,
    /// How many volumes of the driver the node takes.
    #[serde(deserialize_with = "null_as_default")]
    pub allocatable: VolumeNodeResources,
}

/// `allocatable` of a driver on a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeNodeResources {
    /// Unlimited when it is absent.
    pub count: Option<u32>,
}
