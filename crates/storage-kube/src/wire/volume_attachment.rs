//! `VolumeAttachment`.

use k8s_openapi::{api::storage::v1 as full, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::{metadata::slim, presence::null_as_default};

/// An attachment of a volume to a node, read-only; whether it is attached or being deleted does not matter to a
/// provisioner, only that it is there.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = full::VolumeAttachment)]
pub struct VolumeAttachment {
    /// Only the fields rules read, see the module.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What is to be attached.
    #[serde(default, deserialize_with = "null_as_default")]
    pub spec: VolumeAttachmentSpec,
}

/// `spec` of an attachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeAttachmentSpec {
    /// Name of the driver.
    pub attacher: String,
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
}
