//! `PersistentVolumeClaim`, as far as growing and modifying its volume goes.

use k8s_openapi::{api::core::v1 as full, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::{ClaimPhase, Resources, metadata::slim, presence::null_as_default};

/// A claim with what has become of its size and its attributes, read-only.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = full::PersistentVolumeClaim)]
pub struct ClaimProgress {
    /// Only the fields rules read, see the module.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(default, deserialize_with = "null_as_default")]
    pub spec: ClaimProgressSpec,
    /// What became of it.
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: ClaimProgressStatus,
}

/// `spec` of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimProgressSpec {
    /// How much.
    #[serde(deserialize_with = "null_as_default")]
    pub resources: Resources,
    /// The volume it is bound to.
    pub volume_name: Option<String>,
    /// Class of mutable attributes that is wanted.
    pub volume_attributes_class_name: Option<String>,
}

/// `status` of a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimProgressStatus {
    /// Absent or empty until the PV controller has seen the claim.
    pub phase: Option<ClaimPhase>,
    /// What the volume has.
    #[serde(deserialize_with = "null_as_default")]
    pub capacity: Storage<String>,
    /// What the volume may have by now (KEP-1790).
    #[serde(deserialize_with = "null_as_default")]
    pub allocated_resources: Storage<String>,
    /// How far growing has come.
    #[serde(deserialize_with = "null_as_default")]
    pub allocated_resource_statuses: Storage<ResizeStatus>,
    /// In the order of the object.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<ClaimCondition>,
    /// Class of mutable attributes that the volume has.
    pub current_volume_attributes_class_name: Option<String>,
    /// How far changing that class has come; absent when nothing is under way.
    pub modify_volume_status: Option<ModifyVolumeStatus>,
}

/// A map by resource of which only `storage` is read.
#[derive(Clone, Debug, Deserialize)]
pub struct Storage<T> {
    /// A quantity, not parsed yet, or a status.
    #[serde(default = "Option::default")]
    pub storage: Option<T>,
}

impl<T> Default for Storage<T> {
    fn default() -> Self {
        Self { storage: None }
    }
}

/// One of `status.conditions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClaimCondition {
    /// `type`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word.
    pub reason: Option<String>,
}

/// `status.modifyVolumeStatus`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ModifyVolumeStatus {
    /// The class that is worked on.
    pub target_volume_attributes_class_name: Option<String>,
    /// How far it has come.
    pub status: Option<ModifyStatus>,
}

crate::open_enum::open_enum! {
    /// Where growing a volume stands (core/v1 `ClaimResourceStatus`).
    pub enum ResizeStatus {
        /// The driver is being asked.
        ControllerResizeInProgress,
        /// The driver will never do it.
        ControllerResizeInfeasible,
        /// The node has to do its part.
        NodeResizePending,
        /// The node does its part.
        NodeResizeInProgress,
        /// The node will never do it.
        NodeResizeInfeasible,
    }
}

crate::open_enum::open_enum! {
    /// Where changing the class stands (core/v1 `PersistentVolumeClaimModifyVolumeStatus`).
    pub enum ModifyStatus {
        /// The class is not there.
        Pending,
        /// The driver is being asked.
        InProgress,
        /// The driver will never do it.
        Infeasible,
    }
}
