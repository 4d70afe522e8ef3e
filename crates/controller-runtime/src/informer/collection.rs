//! What an informer watches.

use std::fmt;

use kube::core::ApiResource;
use kube::{Api, Client, Resource};

use super::raw::Raw;

/// The objects of one kind, in all namespaces or one, all or those with certain labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Collection {
    resource: ApiResource,
    namespace: Option<String>,
    labels: Option<String>,
    metadata_only: bool,
}

impl Collection {
    /// All objects of a kind. For `PartialObjectMeta` of a type, their metadata alone.
    pub fn of<W: Resource<DynamicType = ()>>() -> Self {
        Self { resource: ApiResource::erase::<W>(&()), namespace: None, labels: None, metadata_only: W::metadata_api() }
    }

    /// Under another version of the same API group.
    #[must_use]
    pub fn in_version(mut self, version: &str) -> Self {
        self.resource.api_version = format!("{}/{version}", self.resource.group);
        version.clone_into(&mut self.resource.version);
        self
    }

    /// Those in one namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.to_owned()), ..self }
    }

    /// Those that a label selector (`key=value,…`) selects. An object that loses a label is delivered as deleted.
    #[must_use]
    pub fn with_labels(self, selector: &str) -> Self {
        Self { labels: Some(selector.to_owned()), ..self }
    }

    pub(super) fn labels(&self) -> Option<&str> {
        self.labels.as_deref()
    }

    pub(super) fn is_metadata_only(&self) -> bool {
        self.metadata_only
    }

    pub(super) fn api<const METADATA_ONLY: bool>(&self, client: Client) -> Api<Raw<METADATA_ONLY>> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &self.resource),
            None => Api::all_with(client, &self.resource),
        }
    }
}

/// As in the rules of a Role: `persistentvolumes`, `volumeattachments.storage.k8s.io`.
impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource.plural)?;
        if self.resource.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.resource.group) }
    }
}
