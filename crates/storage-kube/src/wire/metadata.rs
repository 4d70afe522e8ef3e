//! Object metadata without what no rule reads.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Deserializer, de::IgnoredAny};

/// The fields that are decoded. `managedFields` alone is more than half of a typical volume.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read<L> {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<L>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<Time>,
}

impl<L> Read<L> {
    fn into_metadata(self) -> (ObjectMeta, Option<L>) {
        let metadata = ObjectMeta {
            name: self.name,
            namespace: self.namespace,
            uid: self.uid,
            resource_version: self.resource_version,
            annotations: self.annotations,
            finalizers: self.finalizers,
            deletion_timestamp: self.deletion_timestamp,
            ..ObjectMeta::default()
        };
        (metadata, self.labels)
    }
}

/// Metadata with `name`, `namespace`, `uid`, `resourceVersion`, `annotations`, `finalizers` and
/// `deletionTimestamp`; every other field is `None`, whatever the object has.
pub(super) fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    Ok(Read::<IgnoredAny>::deserialize(deserializer)?.into_metadata().0)
}

/// The same with `labels`: those of an old volume say where it is.
pub(super) fn slim_with_labels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let (metadata, labels) = Read::<BTreeMap<String, String>>::deserialize(deserializer)?.into_metadata();
    Ok(ObjectMeta { labels, ..metadata })
}
