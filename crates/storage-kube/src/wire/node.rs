//! `Node`, of which only metadata is asked for: its status is the busiest object of a cluster.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1 as full, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::{Deserialize, Deserializer};

use super::presence::null_as_default;

/// Name, version and labels of a node, read-only.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeMetadata {
    /// `name`, `resourceVersion` and `labels`; every other field is `None`, whatever the object has.
    #[serde(deserialize_with = "labels_alone")]
    pub metadata: ObjectMeta,
}

fn labels_alone<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Read {
        name: Option<String>,
        resource_version: Option<String>,
        #[serde(default, deserialize_with = "null_as_default")]
        labels: BTreeMap<String, String>,
    }
    let read = Read::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: read.name,
        resource_version: read.resource_version,
        labels: Some(read.labels),
        ..ObjectMeta::default()
    })
}

impl Resource for NodeMetadata {
    type DynamicType = ();
    type Scope = <full::Node as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        full::Node::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        full::Node::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        full::Node::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        full::Node::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    fn metadata_api() -> bool {
        true
    }
}
