//! CSIStorageCapacity objects that this provisioner manages.

use std::sync::Arc;

use controller_runtime::Projection;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use storage_kube::names::{CapacityName, ClassName};
use storage_kube::quantity;
use storage_kube::topology::Segment;
use storage_kube::uid::Uid;
use storage_kube::wire::CsiStorageCapacity;

use crate::capacity::item::{Amounts, Item};
use crate::capacity::managed_by::ManagedBy;
use crate::capacity::segments::SegmentTable;

/// One object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CapacityRecord {
    pub(crate) name: CapacityName,
    pub(crate) uid: Uid,
    /// `metadata.resourceVersion`.
    pub(crate) version: u64,
    /// `metadata.creationTimestamp`, in seconds.
    pub(crate) created: i64,
    /// What it is about.
    pub(crate) item: Item,
    /// What it says; `None` when that is nothing a provisioner writes.
    pub(crate) amounts: Option<Amounts>,
    pub(crate) ownership: Ownership,
}

/// Whose an object is (meta/v1 `OwnerReference`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// It has the owner it should have, or should have none.
    Right,
    /// It lacks that owner, and has no controller.
    Missing,
    /// It lacks that owner, and this one is its controller.
    OfAnother(Uid),
}

/// Keeps the objects with the labels of this provisioner.
#[derive(Debug, Clone)]
pub(crate) struct CapacityProjection {
    pub(crate) managed_by: ManagedBy,
    pub(crate) owner: Option<Uid>,
    pub(crate) segments: Arc<SegmentTable>,
}

impl Projection for CapacityProjection {
    type Wire = CsiStorageCapacity;
    type Key = CapacityName;
    type Record = CapacityRecord;
    type Group = Item;

    fn key(&self, object: &CsiStorageCapacity) -> Option<CapacityName> {
        object.metadata.name.as_deref().map(CapacityName::from)
    }

    fn project(&self, object: CsiStorageCapacity) -> Option<CapacityRecord> {
        let metadata = &object.metadata;
        // The watch selects by labels; the answers to own writes do not.
        if !self.managed_by.manages(metadata.labels.as_ref()?) {
            return None;
        }
        let owners = metadata.owner_references.as_deref().unwrap_or_default();
        let ownership = self.owner.as_ref().map_or(Ownership::Right, |owner| ownership(owners, owner));
        Some(CapacityRecord {
            name: CapacityName::from(metadata.name.as_deref()?),
            uid: Uid::from(metadata.uid.as_deref().unwrap_or_default()),
            version: metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0.as_second()).unwrap_or_default(),
            item: Item { class: ClassName::from(object.storage_class_name.as_str()), segment: self.segment(&object) },
            amounts: amounts(&object),
            ownership,
        })
    }

    fn group(&self, record: &CapacityRecord) -> Option<Item> {
        Some(record.item.clone())
    }
}

impl CapacityProjection {
    fn segment(&self, object: &CsiStorageCapacity) -> Option<Arc<Segment>> {
        let topology = object.node_topology.as_ref().filter(|topology| !topology.match_expressions)?;
        Some(
            self.segments
                .intern(topology.match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()),
        )
    }
}

fn ownership(owners: &[OwnerReference], wanted: &Uid) -> Ownership {
    if owners.iter().any(|one| Uid::from(one.uid.as_str()) == *wanted) {
        return Ownership::Right;
    }
    let controller = owners.iter().find(|one| one.controller == Some(true));
    controller.map_or(Ownership::Missing, |one| Ownership::OfAnother(Uid::from(one.uid.as_str())))
}

fn amounts(object: &CsiStorageCapacity) -> Option<Amounts> {
    let capacity = quantity::bytes(object.capacity.as_deref()?).ok()?;
    let maximum = object.maximum_volume_size.as_deref().map(quantity::bytes).transpose().ok()?;
    Some(Amounts { capacity, maximum })
}
