//! Permissions to name sources across namespaces.

use controller_runtime::Projection;
use storage_kube::names::Namespace;
use storage_kube::wire::{ReferenceGrant, ReferenceGrantSpec};

/// Keeps the grants that are given to claims, by their namespace.
pub(crate) struct GrantProjection;

impl Projection for GrantProjection {
    type Wire = ReferenceGrant;
    type Key = (Namespace, Box<str>);
    type Record = (Namespace, ReferenceGrantSpec);
    type Group = Namespace;

    fn key(&self, grant: &ReferenceGrant) -> Option<(Namespace, Box<str>)> {
        let metadata = &grant.metadata;
        Some((Namespace::from(metadata.namespace.as_deref()?), Box::from(metadata.name.as_deref()?)))
    }

    fn project(&self, grant: ReferenceGrant) -> Option<(Namespace, ReferenceGrantSpec)> {
        if !grant.spec.from.iter().any(|from| from.kind == "PersistentVolumeClaim") {
            return None;
        }
        Some((Namespace::from(grant.metadata.namespace.as_deref()?), grant.spec))
    }

    fn group(&self, (namespace, _): &(Namespace, ReferenceGrantSpec)) -> Option<Namespace> {
        Some(namespace.clone())
    }
}
