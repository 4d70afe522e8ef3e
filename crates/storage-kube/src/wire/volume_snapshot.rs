//! `VolumeSnapshot` and `VolumeSnapshotContent` (snapshot.storage.k8s.io/v1).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::{
    custom::{ClusterWide, Namespaced, custom_resource},
    metadata::slim,
    presence::null_as_default,
};
use crate::volume_mode::VolumeMode;

/// A snapshot as users name it, read-only.
#[derive(Clone, Debug, Deserialize)]
pub struct VolumeSnapshot {
    /// Only the fields rules read, see the module.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Where it comes from.
    #[serde(default, deserialize_with = "null_as_default")]
    pub spec: VolumeSnapshotSpec,
    /// What became of it; absent until the snapshot controller has seen it.
    #[serde(default)]
    pub status: Option<VolumeSnapshotStatus>,
}
custom_resource!(VolumeSnapshot, "snapshot.storage.k8s.io", "v1", "volumesnapshots", Namespaced);

/// `spec` of a snapshot.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeSnapshotSpec {
    /// Where it comes from.
    #[serde(deserialize_with = "null_as_default")]
    pub source: VolumeSnapshotSource,
}

/// `spec.source` of a snapshot.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeSnapshotSource {
    /// A content that was there before; absent for a snapshot that was taken of a claim.
    pub volume_snapshot_content_name: Option<String>,
}

/// `status` of a snapshot.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeSnapshotStatus {
    /// The content it is bound to.
    pub bound_volume_snapshot_content_name: Option<String>,
    /// Absent means not known yet.
    pub ready_to_use: Option<bool>,
    /// Bytes as a quantity: the smallest volume that it can be restored to. Not parsed yet.
    #[serde(deserialize_with = "quantity")]
    pub restore_size: Option<String>,
}

/// The driver's side of a snapshot, read-only.
#[derive(Clone, Debug, Deserialize)]
pub struct VolumeSnapshotContent {
    /// Only the fields rules read, see the module.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What it is.
    #[serde(default, deserialize_with = "null_as_default")]
    pub spec: VolumeSnapshotContentSpec,
    /// What became of it.
    #[serde(default)]
    pub status: Option<VolumeSnapshotContentStatus>,
}
custom_resource!(VolumeSnapshotContent, "snapshot.storage.k8s.io", "v1", "volumesnapshotcontents", ClusterWide);

/// `spec` of a content.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeSnapshotContentSpec {
    /// Name of the driver.
    pub driver: String,
    /// The snapshot it belongs to.
    #[serde(deserialize_with = "null_as_default")]
    pub volume_snapshot_ref: VolumeSnapshotReference,
    /// Mode of the volume it was taken of; absent when that was not noted.
    pub source_volume_mode: Option<VolumeMode>,
}

/// `spec.volumeSnapshotRef` of a content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct VolumeSnapshotReference {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID; absent until the snapshot controller has bound the two.
    pub uid: Option<String>,
}

/// `status` of a content.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeSnapshotContentStatus {
    /// The driver's id of the snapshot.
    pub snapshot_handle: Option<String>,
}

/// The definition lets a quantity be a number as well; built-in kinds are always written with text.
fn quantity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Number(i64),
    }
    Ok(Option::<Written>::deserialize(deserializer)?.map(|written| match written {
        Written::Text(text) => text,
        Written::Number(number) => number.to_string(),
    }))
}
