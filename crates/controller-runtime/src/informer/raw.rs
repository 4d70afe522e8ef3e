//! An object as the API server sent it, not decoded.

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The JSON of one object of any kind. The list or event that brought it is well-formed; whether the object fits a type
/// shows when it is decoded, so that an object that fits none cannot hide the others.
///
/// `METADATA_ONLY`: the server is asked for `PartialObjectMetadata`.
#[derive(Clone)]
pub(super) struct Raw<const METADATA_ONLY: bool> {
    json: Box<RawValue>,
    /// The resourceVersion alone, which is all that a watcher reads, and only of the objects of events.
    metadata: OnceLock<Box<ObjectMeta>>,
}

impl<const METADATA_ONLY: bool> Raw<METADATA_ONLY> {
    pub(super) fn json(&self) -> &[u8] {
        self.json.get().as_bytes()
    }

    fn metadata(&self) -> &ObjectMeta {
        self.metadata.get_or_init(|| Box::new(version_alone(self.json.get())))
    }
}

fn version_alone(json: &str) -> ObjectMeta {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: Option<String>,
    }
    let resource_version =
        serde_json::from_str::<Object>(json).ok().and_then(|object| object.metadata.resource_version);
    ObjectMeta { resource_version, ..ObjectMeta::default() }
}

impl<'de, const METADATA_ONLY: bool> Deserialize<'de> for Raw<METADATA_ONLY> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { json: Box::<RawValue>::deserialize(deserializer)?, metadata: OnceLock::new() })
    }
}

/// Without the JSON, which may hold anything.
impl<const METADATA_ONLY: bool> fmt::Debug for Raw<METADATA_ONLY> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").field("bytes", &self.json.get().len()).finish_non_exhaustive()
    }
}

impl<const METADATA_ONLY: bool> Resource for Raw<METADATA_ONLY> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn metadata_api() -> bool {
        METADATA_ONLY
    }

    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.metadata();
        match self.metadata.get_mut() {
            Some(metadata) => metadata,
            None => unreachable!("the line before has set it"),
        }
    }
}
