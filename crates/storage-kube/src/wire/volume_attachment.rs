//! `VolumeAttachment`.

use std::collections::BTreeMap;

use k8s_openapi::{api::storage::v1 as full, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::{
    PersistentVolumeSpec,
    metadata::slim,
    presence::{is_set, null_as_default},
};

/// An attachment of a volume to a node, read-only.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = full::VolumeAttachment)]
pub struct VolumeAttachment {
    /// Only the fields rules read, see the module.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What is to be attached.
    #[serde(default, deserialize_with = "null_as_default")]
    pub spec: VolumeAttachmentSpec,
    /// How far it has come.
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: VolumeAttachmentStatus,
}

/// `spec` of an attachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachmentSpec {
    /// Name of the driver.
    pub attacher: String,
    /// The node it is attached to.
    pub node_name: String,
    /// What is attached.
    #[serde(deserialize_with = "null_as_default")]
    pub source: VolumeAttachmentSource,
}

/// `spec.source` of an attachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachmentSource {
    /// The volume; absent for an inline volume.
    pub persistent_volume_name: Option<String>,
    /// The volume itself, of a pod with a volume that has no object of its own (migrated in-tree volumes).
    pub inline_volume_spec: Option<Box<PersistentVolumeSpec>>,
}

/// `status` of an attachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachmentStatus {
    /// The volume is attached.
    pub attached: bool,
    /// The last try to attach failed.
    #[serde(deserialize_with = "is_set")]
    pub attach_error: bool,
    /// The last try to detach failed.
    #[serde(deserialize_with = "is_set")]
    pub detach_error: bool,
    /// What the driver said when it attached the volume (CSI `publish_context`).
    #[serde(deserialize_with = "null_as_default")]
    pub attachment_metadata: BTreeMap<String, String>,
}
