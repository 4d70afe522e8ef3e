//! Object metadata without what no rule reads.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Deserializer};

/// The fields that are decoded. `managedFields` alone is more than half of a typical volume.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<Time>,
}

/// Metadata with `name`, `namespace`, `uid`, `resourceVersion`, `annotations`, `finalizers` and
/// `deletionTimestamp`; every other field is `None`, whatever the object has.
pub(super) fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let read = Read::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: read.name,
        namespace: read.namespace,
        uid: read.uid,
        resource_version: read.resource_version,
        annotations: read.annotations,
        finalizers: read.finalizers,
        deletion_timestamp: read.deletion_timestamp,
        ..ObjectMeta::default()
    })
}
