//! What a claim wants its volume to be filled with: `dataSource` and `dataSourceRef` (KEP-1495, KEP-3294). Pure.

use std::fmt;

use storage_kube::names::{ClaimName, Namespace, SnapshotName};
use storage_kube::wire::DataSource;
use thiserror::Error;

use crate::records::ClaimRecord;

/// Group of `VolumeSnapshot`.
const SNAPSHOT_GROUP: &str = "snapshot.storage.k8s.io";

/// The object that a volume is filled from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SourceKey {
    /// A claim, whose volume is cloned.
    Claim(Namespace, ClaimName),
    /// A snapshot, which is restored.
    Snapshot(Namespace, SnapshotName),
}

impl SourceKey {
    pub(crate) fn namespace(&self) -> &Namespace {
        match self {
            Self::Claim(namespace, _) | Self::Snapshot(namespace, _) => namespace,
        }
    }
}

impl fmt::Display for SourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claim(namespace, name) => write!(f, "PersistentVolumeClaim {namespace}/{name}"),
            Self::Snapshot(namespace, name) => write!(f, "VolumeSnapshot {namespace}/{name}"),
        }
    }
}

/// What fills the volume, if anything does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    /// An empty volume.
    Empty,
    /// The driver does, from this.
    Driver(SourceKey),
    /// Any other kind: a volume populator provisions this claim.
    Populator,
}

/// What is wrong with the source that a claim names.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum DataSourceError {
    #[error(
        "dataSourceRef.namespace is \"{namespace}\", and volumes are not filled across namespaces: \
         start csi-provisioner with --feature-gates=CrossNamespaceVolumeDataSource=true, or take a source in the claim's namespace"
    )]
    NamespaceNeedsGate { namespace: String },
    #[error(
        "no ReferenceGrant in namespace {namespace} lets PersistentVolumeClaims of namespace {claim_namespace} name {kind} \"{name}\" of API group \"{group}\": \
         create one with spec.from and spec.to for them"
    )]
    NotGranted { namespace: String, claim_namespace: String, group: String, kind: String, name: String },
    #[error("the data source of the claim has no name: name a {kind}")]
    NoName { kind: String },
    #[error("\"{name}\" is not a possible name of a {kind}: correct the data source of the claim")]
    Impossible { kind: String, name: String },
    #[error("the data source of the claim is a VolumeSnapshot of API group \"{group}\": it must be {SNAPSHOT_GROUP}")]
    SnapshotGroup { group: String },
}

/// The one source a claim names, wherever it says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedSource<'a> {
    pub(crate) source: &'a DataSource,
    /// Its own, else the claim's.
    pub(crate) namespace: Namespace,
}

impl NamedSource<'_> {
    /// Empty means the core group, as in the grants.
    pub(crate) fn group(&self) -> &str {
        self.source.api_group.as_deref().unwrap_or_default()
    }
}

/// `dataSource` wins over `dataSourceRef`, and is always of the claim's namespace. A namespace needs the gate
/// `CrossNamespaceVolumeDataSource`, whatever the kind.
pub(crate) fn named_source(claim: &ClaimRecord, gate: bool) -> Result<Option<NamedSource<'_>>, DataSourceError> {
    if let Some(source) = &claim.data_source {
        return Ok(Some(NamedSource { source, namespace: claim.namespace.clone() }));
    }
    let Some(source) = &claim.data_source_ref else { return Ok(None) };
    let namespace = match source.namespace.as_deref() {
        None | Some("") => claim.namespace.clone(),
        Some(namespace) if gate => Namespace::from(namespace),
        Some(namespace) => return Err(DataSourceError::NamespaceNeedsGate { namespace: namespace.to_owned() }),
    };
    Ok(Some(NamedSource { source, namespace }))
}

/// What fills the claim's volume. `granted` is asked about a source of another namespace.
pub(crate) fn content(
    claim: &ClaimRecord,
    gate: bool,
    granted: impl FnOnce(&NamedSource<'_>) -> bool,
) -> Result<Content, DataSourceError> {
    let Some(named) = named_source(claim, gate)? else { return Ok(Content::Empty) };
    if named.namespace != claim.namespace && !granted(&named) {
        return Err(DataSourceError::NotGranted {
            namespace: named.namespace.to_string(),
            claim_namespace: claim.namespace.to_string(),
            group: named.group().to_owned(),
            kind: named.source.kind.clone(),
            name: named.source.name.clone(),
        });
    }
    kind_of(&named)
}

/// The object that the claim names, if the driver could fill a volume from it, whether or not the claim may.
pub(crate) fn key(claim: &ClaimRecord) -> Option<SourceKey> {
    match kind_of(&named_source(claim, true).ok()??) {
        Ok(Content::Driver(key)) => Some(key),
        Ok(Content::Empty | Content::Populator) | Err(_) => None,
    }
}

fn kind_of(named: &NamedSource<'_>) -> Result<Content, DataSourceError> {
    let (kind, name) = (named.source.kind.as_str(), named.source.name.as_str());
    if name.is_empty() {
        return Err(DataSourceError::NoName { kind: kind.to_owned() });
    }
    if kind == "VolumeSnapshot" && named.source.api_group.as_deref() != Some(SNAPSHOT_GROUP) {
        return Err(DataSourceError::SnapshotGroup { group: named.group().to_owned() });
    }
    let key = match kind {
        "VolumeSnapshot" => SourceKey::Snapshot(named.namespace.clone(), SnapshotName::from(name)),
        // Of any group, as in the Go provisioner.
        "PersistentVolumeClaim" => SourceKey::Claim(named.namespace.clone(), ClaimName::from(name)),
        _ => return Ok(Content::Populator),
    };
    // The names become paths of requests.
    if !storage_kube::dns_1123::is_subdomain(name) || !storage_kube::dns_1123::is_label(named.namespace.as_str()) {
        return Err(DataSourceError::Impossible { kind: kind.to_owned(), name: format!("{}/{name}", named.namespace) });
    }
    Ok(Content::Driver(key))
}
