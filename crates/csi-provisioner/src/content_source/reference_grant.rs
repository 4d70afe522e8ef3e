//! Who may name a source in another namespace (gateway API `ReferenceGrant`, KEP-3294). Pure.

use storage_kube::names::Namespace;
use storage_kube::wire::ReferenceGrantSpec;

use crate::data_source::NamedSource;

/// Whether this grant, in the namespace of the source, lets claims of `claims` name it.
pub(crate) fn allows(grant: &ReferenceGrantSpec, claims: &Namespace, named: &NamedSource<'_>) -> bool {
    let from = grant
        .from
        .iter()
        .any(|from| from.group.is_empty() && from.kind == "PersistentVolumeClaim" && from.namespace == claims.as_str());
    let to = grant.to.iter().any(|to| {
        let name = to.name.as_deref().filter(|name| !name.is_empty());
        to.group == named.group() && to.kind == named.source.kind && name.is_none_or(|name| name == named.source.name)
    });
    from && to
}
