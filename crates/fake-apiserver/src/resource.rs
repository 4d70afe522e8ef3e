//! Which resource a path or a Rust type stands for, and the few facts about each that change how it is served.

use std::borrow::Cow;

/// One served resource: a group, a version and a plural, with what the generic code needs to know of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) kind: Cow<'static, str>,
    pub(crate) traits: Traits,
}

/// How the registry of the real server treats a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Traits {
    pub(crate) status: StatusSubresource,
    pub(crate) unconditional_update: bool,
    pub(crate) create_on_update: bool,
    /// `status` of an object just created through the API.
    pub(crate) initial_status: InitialStatus,
    /// As discovery tells; paths of either form are served.
    pub(crate) namespaced: bool,
}

/// What `/status` of a resource may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StatusSubresource {
    /// There is none: `status` is an ordinary field.
    None,
    /// `status`, and the metadata too.
    WithMetadata,
    /// `status` only: labels, annotations, finalizers and owners stay as they are.
    Only,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum InitialStatus {
    Untouched,
    Empty,
    PhasePending,
    NotAttached,
}

const PLAIN: Traits = Traits {
    status: StatusSubresource::None,
    unconditional_update: true,
    create_on_update: false,
    initial_status: InitialStatus::Untouched,
    namespaced: true,
};
const CLUSTER: Traits = Traits { namespaced: false, ..PLAIN };
const GUARDED: Traits = Traits { unconditional_update: false, ..PLAIN };
const GUARDED_CLUSTER: Traits = Traits { namespaced: false, ..GUARDED };
const LEASE: Traits = Traits { create_on_update: true, ..GUARDED };
const EVENT: Traits = Traits { create_on_update: true, ..PLAIN };
const VOLUME: Traits =
    Traits { status: StatusSubresource::WithMetadata, initial_status: InitialStatus::PhasePending, ..PLAIN };
const ATTACHMENT: Traits =
    Traits { status: StatusSubresource::Only, initial_status: InitialStatus::NotAttached, ..GUARDED };
const WITH_STATUS: Traits =
    Traits { status: StatusSubresource::WithMetadata, initial_status: InitialStatus::Empty, ..PLAIN };
const CUSTOM_WITH_STATUS: Traits =
    Traits { status: StatusSubresource::Only, initial_status: InitialStatus::Empty, ..GUARDED };

/// Resources whose kind or behaviour cannot be guessed from the plural. Source: the `strategy.go` of each in the
/// real server, and the custom resource definitions of the snapshotter.
const KNOWN: &[(&str, &str, &str, Traits)] = &[
    ("", "persistentvolumes", "PersistentVolume", Traits { namespaced: false, ..VOLUME }),
    ("", "persistentvolumeclaims", "PersistentVolumeClaim", VOLUME),
    ("", "events", "Event", EVENT),
    ("", "nodes", "Node", Traits { namespaced: false, ..WITH_STATUS }),
    ("", "pods", "Pod", WITH_STATUS),
    ("", "configmaps", "ConfigMap", PLAIN),
    ("", "serviceaccounts", "ServiceAccount", PLAIN),
    ("apps", "daemonsets", "DaemonSet", WITH_STATUS),
    ("apps", "deployments", "Deployment", WITH_STATUS),
    ("apps", "replicasets", "ReplicaSet", WITH_STATUS),
    ("apps", "statefulsets", "StatefulSet", WITH_STATUS),
    ("coordination.k8s.io", "leases", "Lease", LEASE),
    ("storage.k8s.io", "storageclasses", "StorageClass", CLUSTER),
    ("storage.k8s.io", "volumeattributesclasses", "VolumeAttributesClass", CLUSTER),
    ("storage.k8s.io", "volumeattachments", "VolumeAttachment", Traits { namespaced: false, ..ATTACHMENT }),
    ("storage.k8s.io", "csinodes", "CSINode", GUARDED_CLUSTER),
    ("storage.k8s.io", "csidrivers", "CSIDriver", GUARDED_CLUSTER),
    ("storage.k8s.io", "csistoragecapacities", "CSIStorageCapacity", GUARDED),
    ("snapshot.storage.k8s.io", "volumesnapshots", "VolumeSnapshot", CUSTOM_WITH_STATUS),
    (
        "snapshot.storage.k8s.io",
        "volumesnapshotcontents",
        "VolumeSnapshotContent",
        Traits { namespaced: false, ..CUSTOM_WITH_STATUS },
    ),
    ("snapshot.storage.k8s.io", "volumesnapshotclasses", "VolumeSnapshotClass", GUARDED_CLUSTER),
    ("gateway.networking.k8s.io", "referencegrants", "ReferenceGrant", GUARDED),
];

/// Plurals of the known resources of a group.
pub(crate) fn known(group: &str) -> impl Iterator<Item = &'static str> {
    KNOWN.iter().filter(move |(known, ..)| *known == group).map(|(_, plural, ..)| *plural)
}

impl Resource {
    pub(crate) fn new(group: &str, version: &str, plural: &str) -> Self {
        let known = KNOWN.iter().find(|(g, p, ..)| *g == group && *p == plural);
        let (kind, traits) = match known {
            Some((_, _, kind, traits)) => (Cow::Borrowed(*kind), *traits),
            None => (Cow::Owned(kind_of(plural)), PLAIN),
        };
        Self { group: group.to_owned(), version: version.to_owned(), plural: plural.to_owned(), kind, traits }
    }

    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `volumeattachments.storage.k8s.io`, or `secrets` in the core group: how error texts name a resource.
    pub(crate) fn qualified_plural(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }
}

/// A guess for a resource nobody listed: `secrets` is `Secret`, `storageclasses` would be `Storageclass`.
fn kind_of(plural: &str) -> String {
    let singular = match plural.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => match plural.strip_suffix("sses") {
            Some(stem) => format!("{stem}ss"),
            None => plural.strip_suffix('s').unwrap_or(plural).to_owned(),
        },
    };
    let mut letters = singular.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
