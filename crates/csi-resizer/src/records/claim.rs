//! Claims that have something to do: they ask for more than they have, or for another class of attributes.

use controller_runtime::Projection;
use storage_kube::annotations;
use storage_kube::names::{ClaimName, ClaimUid, ClassName, Namespace, VolumeName};
use storage_kube::quantity::Quantity;
use storage_kube::uid::Uid;
use storage_kube::wire::{ClaimCondition, ClaimPhase, ClaimProgress, ModifyStatus, ModifyVolumeStatus, ResizeStatus};

use crate::settings::Settings;

/// One claim, of whichever driver: only the volume says whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimRecord {
    pub(crate) uid: ClaimUid,
    pub(crate) namespace: Namespace,
    pub(crate) name: ClaimName,
    pub(crate) resource_version: String,
    /// `spec.volumeName`.
    pub(crate) volume: VolumeName,
    /// `metadata.deletionTimestamp` is set.
    pub(crate) deleting: bool,
    pub(crate) size: ClaimSize,
    pub(crate) class: ClaimClass,
    /// `status.conditions`, in order.
    pub(crate) conditions: Vec<ClaimCondition>,
}

/// What a claim says of the size of its volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimSize {
    /// `spec.resources.requests.storage`
    pub(crate) requested: String,
    /// `status.capacity.storage`
    pub(crate) capacity: Option<String>,
    /// `status.allocatedResources.storage`
    pub(crate) allocated: Option<String>,
    /// `status.allocatedResourceStatuses.storage`
    pub(crate) status: Option<ResizeStatus>,
    /// Annotation `volume.kubernetes.io/storage-resizer`.
    pub(crate) resizer: Option<String>,
    /// Annotation `volume.kubernetes.io/node-expansion-not-required` is there.
    pub(crate) node_not_required: bool,
}

/// What a claim says of the class of attributes of its volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimClass {
    /// `spec.volumeAttributesClassName`; `None` when it is absent or empty.
    pub(crate) wanted: Option<ClassName>,
    /// `status.currentVolumeAttributesClassName`, as `wanted`.
    pub(crate) current: Option<ClassName>,
    /// `status.modifyVolumeStatus`
    pub(crate) status: Option<ModifyVolumeStatus>,
}

impl ClaimSize {
    /// Whether more is asked for than there is; a quantity that cannot be read is no reason to grow anything.
    pub(crate) fn is_to_grow(&self) -> bool {
        let Ok(requested) = Quantity::parse(&self.requested) else { return false };
        match self.capacity.as_deref().map(Quantity::parse) {
            None => requested > Quantity::default(),
            Some(Ok(capacity)) => requested > capacity,
            Some(Err(_)) => false,
        }
    }
}

impl ClaimClass {
    /// Whether the volume has not the class that is wanted, or a change is under way.
    pub(crate) fn is_to_change(&self) -> bool {
        self.status.is_some() || self.wanted != self.current
    }

    /// The class that the driver may be working on.
    pub(crate) fn in_progress(&self) -> Option<ClassName> {
        let status = self.status.as_ref().filter(|status| status.status == Some(ModifyStatus::InProgress))?;
        let target = status.target_volume_attributes_class_name.as_deref();
        target.filter(|target| !target.is_empty()).map(ClassName::from)
    }
}

impl ClaimRecord {
    /// `namespace/name`.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Makes the record of any claim that is bound; `None` of one that is not, or lacks what every stored object has.
    pub(crate) fn of(claim: ClaimProgress) -> Option<Self> {
        let volume = claim.spec.volume_name.filter(|name| !name.is_empty())?;
        if claim.status.phase != Some(ClaimPhase::Bound) {
            return None;
        }
        let metadata = claim.metadata;
        let annotation = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key));
        let class =
            |name: Option<String>| name.filter(|name| !name.is_empty()).map(|name| ClassName::from(name.as_str()));
        Some(Self {
            size: ClaimSize {
                requested: claim.spec.resources.requests.storage.unwrap_or_default(),
                capacity: claim.status.capacity.storage,
                allocated: claim.status.allocated_resources.storage,
                status: claim.status.allocated_resource_statuses.storage,
                resizer: annotation(annotations::STORAGE_RESIZER).cloned(),
                node_not_required: annotation(annotations::NODE_EXPANSION_NOT_REQUIRED).is_some(),
            },
            class: ClaimClass {
                wanted: class(claim.spec.volume_attributes_class_name),
                current: class(claim.status.current_volume_attributes_class_name),
                status: claim.status.modify_volume_status,
            },
            uid: ClaimUid(Uid::from(metadata.uid.as_deref()?)),
            namespace: Namespace::from(metadata.namespace.as_deref()?),
            name: ClaimName::from(metadata.name.as_deref()?),
            resource_version: metadata.resource_version.unwrap_or_default(),
            volume: VolumeName::from(volume.as_str()),
            deleting: metadata.deletion_timestamp.is_some(),
            conditions: claim.status.conditions,
        })
    }

    /// Whether there is something to do.
    pub(crate) fn is_to_do(&self, settings: &Settings) -> bool {
        (settings.expands() && self.size.is_to_grow()) || (settings.modifies && self.class.is_to_change())
    }
}

/// Keeps the claims that have something to do. By UID: a claim made anew under the same name is another one.
pub(crate) struct ClaimProjection {
    pub(crate) settings: std::sync::Arc<Settings>,
}

impl Projection for ClaimProjection {
    type Wire = ClaimProgress;
    type Key = ClaimUid;
    type Record = ClaimRecord;
    /// The class that has to be there before anything is done: the claim may wait for it.
    type Group = ClassName;

    fn key(&self, claim: &ClaimProgress) -> Option<ClaimUid> {
        claim.metadata.uid.as_deref().map(|uid| ClaimUid(Uid::from(uid)))
    }

    fn project(&self, claim: ClaimProgress) -> Option<ClaimRecord> {
        ClaimRecord::of(claim).filter(|claim| claim.is_to_do(&self.settings))
    }

    fn group(&self, claim: &ClaimRecord) -> Option<ClassName> {
        claim.class.in_progress().or_else(|| claim.class.wanted.clone())
    }
}
