//! CSIStorageCapacity objects that this provisioner manages.

use std::sync::Arc;

use controller_runtime::Projection;
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
    /// It has the owner it should have, or should have none.
    pub(crate) owned: bool,
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
        let owned =
            self.owner.as_ref().is_none_or(|owner| owners.iter().any(|one| Uid::from(one.uid.as_str()) == *owner));
        Some(CapacityRecord {
            name: CapacityName::from(metadata.name.as_deref()?),
            uid: Uid::from(metadata.uid.as_deref().unwrap_or_default()),
            version: metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0.as_second()).unwrap_or_default(),
            item: Item { class: ClassName::from(object.storage_class_name.as_str()), segment: self.segment(&object) },
            amounts: amounts(&object),
            owned,
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

fn amounts(object: &CsiStorageCapacity) -> Option<Amounts> {
    let capacity = quantity::bytes(object.capacity.as_deref()?).ok()?;
    let maximum = object.maximum_volume_size.as_deref().map(quantity::bytes).transpose().ok()?;
    Some(Amounts { capacity, maximum })
}
