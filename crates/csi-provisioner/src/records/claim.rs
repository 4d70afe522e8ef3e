//! Claims that wait for a volume of this driver, and claims that are protected as the source of others.

use std::collections::BTreeMap;
use std::sync::Arc;

use controller_runtime::{Mention, Projection};
use memchr::memmem::Finder;
use storage_kube::access_mode::AccessMode;
use storage_kube::names::{ClaimName, ClaimUid, ClassName, Namespace, NodeName, VolumeName};
use storage_kube::uid::Uid;
use storage_kube::volume_mode::VolumeMode;
use storage_kube::wire::{DataSource, PersistentVolumeClaim};
use storage_kube::{annotations, finalizers};

use crate::migration::ProvisionerNames;

/// Under whose name the claim asks for its volume (annotation `volume.kubernetes.io/storage-provisioner`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskedAs {
    /// The driver's own name.
    Driver,
    /// The in-tree plugin the driver replaces.
    InTree,
}

/// One unbound claim that names this provisioner, with all that a `CreateVolume` may need of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimRecord {
    pub(crate) uid: ClaimUid,
    pub(crate) namespace: Namespace,
    pub(crate) name: ClaimName,
    /// Goes into `claimRef` of the volume, as the volume controller writes it.
    pub(crate) resource_version: String,
    pub(crate) asked_as: AskedAs,
    /// Class after the beta annotation has won over the field; empty when neither is there.
    pub(crate) class: ClassName,
    /// `spec.storageClassName` alone, the label of the metrics.
    pub(crate) class_label: String,
    /// By the present annotation alone: the alpha one does not end the wait for a first consumer.
    pub(crate) selected_node: Option<NodeName>,
    /// All of them: secret templates may name any.
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) access_modes: Vec<AccessMode>,
    /// `spec.resources.requests.storage` as written.
    pub(crate) requested: Option<String>,
    pub(crate) volume_mode: Option<VolumeMode>,
    pub(crate) has_selector: bool,
    pub(crate) data_source: Option<DataSource>,
    pub(crate) data_source_ref: Option<DataSource>,
    pub(crate) volume_attributes_class: Option<String>,
}

impl ClaimRecord {
    /// `namespace/name`.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The node its volume has to be reachable from, when one was chosen: under the present annotation, or the alpha one
    /// that old schedulers wrote.
    pub(crate) fn node(&self) -> Option<NodeName> {
        let alpha = || self.annotations.get(annotations::ALPHA_SELECTED_NODE).filter(|node| !node.is_empty());
        self.selected_node.clone().or_else(|| alpha().map(|node| NodeName::from(node.as_str())))
    }

    /// Whether nothing that decides about provisioning differs: the update need not end a backoff early.
    pub(crate) fn asks_the_same(&self, other: &Self) -> bool {
        // In full, so that a new field is decided about.
        let Self {
            uid,
            namespace,
            name,
            resource_version: _,
            asked_as,
            class,
            class_label,
            selected_node,
            annotations,
            access_modes,
            requested,
            volume_mode,
            has_selector,
            data_source,
            data_source_ref,
            volume_attributes_class,
        } = self;
        *uid == other.uid
            && *namespace == other.namespace
            && *name == other.name
            && *asked_as == other.asked_as
            && *class == other.class
            && *class_label == other.class_label
            && *selected_node == other.selected_node
            && *annotations == other.annotations
            && *access_modes == other.access_modes
            && *requested == other.requested
            && *volume_mode == other.volume_mode
            && *has_selector == other.has_selector
            && *data_source == other.data_source
            && *data_source_ref == other.data_source_ref
            && *volume_attributes_class == other.volume_attributes_class
    }
}

/// A bound claim, of whichever driver, with the finalizer of clone sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceClaim {
    pub(crate) namespace: Namespace,
    pub(crate) name: ClaimName,
    /// Its volume, which says whose it is.
    pub(crate) volume: Option<VolumeName>,
    /// `metadata.deletionTimestamp` is set.
    pub(crate) deleting: bool,
    /// An annotation names this provisioner as the one who made its volume.
    pub(crate) annotated: bool,
}

/// What is kept of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimEntry {
    /// It waits for a volume.
    Waiting(Arc<ClaimRecord>),
    /// Others are, or were, made from it.
    Source(SourceClaim),
}

impl ClaimEntry {
    pub(crate) fn waiting(&self) -> Option<&Arc<ClaimRecord>> {
        match self {
            Self::Waiting(claim) => Some(claim),
            Self::Source(_) => None,
        }
    }

    pub(crate) fn source(&self) -> Option<&SourceClaim> {
        match self {
            Self::Waiting(_) => None,
            Self::Source(source) => Some(source),
        }
    }
}

/// Keeps unbound claims annotated with this provisioner and bound ones that are protected, by UID: a claim made anew under
/// the same name is another one.
pub(crate) struct ClaimProjection {
    names: ProvisionerNames,
    finalizer: Mention,
    volume_name: Finder<'static>,
}

/// How the API server begins the name of a claim's volume. Within a JSON string the quotes would be escaped, and no other
/// field of a claim has this name.
const VOLUME_NAME: &[u8] = br#""volumeName":""#;

impl ClaimProjection {
    pub(crate) fn new(names: ProvisionerNames) -> Self {
        Self {
            names,
            finalizer: Mention::of([finalizers::CLONE_SOURCE_PROTECTION]),
            volume_name: Finder::new(VOLUME_NAME),
        }
    }

    /// Whether the claim is seen to have a volume, without parsing it.
    fn is_plainly_bound(&self, json: &[u8]) -> bool {
        let value = self.volume_name.find(json).map(|key| key + VOLUME_NAME.len());
        value.is_some_and(|value| json.get(value) != Some(&b'"'))
    }

    fn source(&self, claim: &PersistentVolumeClaim) -> Option<SourceClaim> {
        let finalizers = claim.metadata.finalizers.as_deref()?;
        if !finalizers::contains(finalizers, finalizers::CLONE_SOURCE_PROTECTION) {
            return None;
        }
        let annotation = |key: &str| claim.metadata.annotations.as_ref().and_then(|all| all.get(key));
        let by =
            annotation(annotations::STORAGE_PROVISIONER).or_else(|| annotation(annotations::BETA_STORAGE_PROVISIONER));
        Some(SourceClaim {
            namespace: Namespace::from(claim.metadata.namespace.as_deref()?),
            name: ClaimName::from(claim.metadata.name.as_deref()?),
            annotated: by.is_some_and(|by| self.names.contains(by)),
            volume: claim.spec.volume_name.as_deref().map(VolumeName::from),
            deleting: claim.metadata.deletion_timestamp.is_some(),
        })
    }

    /// Contract of the annotations: the GA key wins over the beta key, and `migrated-to` may redirect an in-tree name.
    fn asked_as(&self, annotations: Option<&BTreeMap<String, String>>) -> Option<AskedAs> {
        let annotations = annotations?;
        let value = |key: &str| annotations.get(key).map(String::as_str);
        let asked = value(annotations::STORAGE_PROVISIONER).or_else(|| value(annotations::BETA_STORAGE_PROVISIONER))?;
        let migrated = value(annotations::MIGRATED_TO).is_some_and(|to| self.names.is_driver(to));
        if self.names.is_driver(asked) {
            Some(AskedAs::Driver)
        } else if migrated && self.names.is_in_tree(asked) {
            Some(AskedAs::InTree)
        } else {
            None
        }
    }
}

impl Projection for ClaimProjection {
    type Wire = PersistentVolumeClaim;
    type Key = ClaimUid;
    type Record = ClaimEntry;
    type Group = ClassName;

    fn may_concern(&self, json: &[u8]) -> bool {
        (self.names.may_be_in(json) && !self.is_plainly_bound(json)) || self.finalizer.may_be_in(json)
    }

    fn key(&self, claim: &PersistentVolumeClaim) -> Option<ClaimUid> {
        claim.metadata.uid.as_deref().map(|uid| ClaimUid(Uid::from(uid)))
    }

    fn project(&self, claim: PersistentVolumeClaim) -> Option<ClaimEntry> {
        if claim.spec.volume_name.as_deref().is_some_and(|name| !name.is_empty()) {
            return self.source(&claim).map(ClaimEntry::Source);
        }
        let asked_as = self.asked_as(claim.metadata.annotations.as_ref())?;
        let class = ClassName::from(claim.class_name());
        let annotations = claim.metadata.annotations.unwrap_or_default();
        let selected_node = annotations
            .get(annotations::SELECTED_NODE)
            .filter(|node| !node.is_empty())
            .map(|node| NodeName::from(node.as_str()));
        Some(ClaimEntry::Waiting(Arc::new(ClaimRecord {
            uid: ClaimUid(Uid::from(claim.metadata.uid.as_deref()?)),
            namespace: Namespace::from(claim.metadata.namespace.as_deref()?),
            name: ClaimName::from(claim.metadata.name.as_deref()?),
            resource_version: claim.metadata.resource_version.unwrap_or_default(),
            asked_as,
            class,
            class_label: claim.spec.storage_class_name.unwrap_or_default(),
            selected_node,
            annotations,
            access_modes: claim.spec.access_modes,
            requested: claim.spec.resources.requests.storage,
            volume_mode: claim.spec.volume_mode,
            has_selector: claim.spec.has_selector,
            data_source: claim.spec.data_source,
            data_source_ref: claim.spec.data_source_ref,
            volume_attributes_class: claim.spec.volume_attributes_class_name.filter(|name| !name.is_empty()),
        })))
    }

    fn group(&self, claim: &ClaimEntry) -> Option<ClassName> {
        claim.waiting().map(|claim| claim.class.clone())
    }
}
