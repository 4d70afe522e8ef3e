//! The bodies of requests about CSIStorageCapacity objects. Pure.

use serde_json::{Map, Value, json};
use storage_kube::quantity;
use storage_kube::uid::Uid;

use super::item::{Amounts, Item};
use super::managed_by::ManagedBy;
use super::owner::Owner;
use super::place::Place;
use crate::records::CapacityRecord;
use crate::records::capacity::Ownership;

/// What is to change in an object.
pub(crate) struct Changes<'a> {
    amounts: Option<Amounts>,
    owner: Option<NewOwner<'a>>,
}

/// An owner for an object, in place of another controller if there is one: an object has one controller (meta/v1
/// `OwnerReference.controller`). The other is the ReplicaSet of an earlier rollout, or of another provisioner.
#[derive(Clone, Copy)]
struct NewOwner<'a> {
    owner: &'a Owner,
    instead_of: Option<&'a Uid>,
}

impl<'a> Changes<'a> {
    pub(crate) fn of(object: &'a CapacityRecord, amounts: Amounts, owner: Option<&'a Owner>) -> Self {
        let owner = owner.and_then(|owner| match &object.ownership {
            Ownership::Right => None,
            Ownership::Missing => Some(NewOwner { owner, instead_of: None }),
            Ownership::OfAnother(controller) => Some(NewOwner { owner, instead_of: Some(controller) }),
        });
        Self { amounts: (object.amounts != Some(amounts)).then_some(amounts), owner }
    }

    pub(crate) fn has_owner(&self) -> bool {
        self.owner.is_some()
    }

    pub(crate) fn without_owner(self) -> Self {
        Self { owner: None, ..self }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.amounts.is_none() && self.owner.is_none()
    }
}

pub(crate) fn new_object(
    place: &Place,
    managed_by: &ManagedBy,
    owner: Option<&Owner>,
    item: &Item,
    amounts: Amounts,
) -> Value {
    let labels: Map<String, Value> =
        managed_by.labels().into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    let mut metadata = json!({ "generateName": "csisc-", "namespace": place.namespace.as_str(), "labels": labels });
    if let Some(owner) = owner {
        metadata["ownerReferences"] = json!([owner.reference()]);
    }
    let match_labels: Map<String, Value> = item
        .segment
        .iter()
        .flat_map(|segment| segment.iter())
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect();
    let topology = if match_labels.is_empty() { json!({}) } else { json!({ "matchLabels": match_labels }) };
    let mut object = json!({
        "apiVersion": place.api_version(),
        "kind": "CSIStorageCapacity",
        "metadata": metadata,
        "storageClassName": item.class.as_str(),
        "nodeTopology": topology,
        "capacity": quantity::from_bytes_binary_si(amounts.capacity),
    });
    if let Some(maximum) = amounts.maximum {
        object["maximumVolumeSize"] = json!(quantity::from_bytes_binary_si(maximum));
    }
    object
}

/// A strategic merge patch: an owner is added to those there are, and another controller taken away.
pub(crate) fn patch(object: &CapacityRecord, changes: &Changes<'_>) -> Value {
    let mut patch = json!({ "metadata": { "uid": object.uid.to_string() } });
    if let Some(amounts) = changes.amounts {
        set(&mut patch, amounts);
    }
    if let Some(new) = changes.owner {
        let other = new.instead_of.map(|uid| json!({ "$patch": "delete", "uid": uid.to_string() }));
        let owners: Vec<_> = other.into_iter().chain([new.owner.reference()]).collect();
        patch["metadata"]["ownerReferences"] = json!(owners);
    }
    patch
}

/// The object as it is, changed; `None` when another object has its name.
pub(crate) fn replacement(object: &CapacityRecord, mut live: Value, changes: &Changes<'_>) -> Option<Value> {
    if live["metadata"]["uid"] != object.uid.to_string() {
        return None;
    }
    if let Some(amounts) = changes.amounts {
        set(&mut live, amounts);
    }
    if let Some(new) = changes.owner {
        let owners = live["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let kept = owners.filter(|one| one["controller"] != true && one["uid"] != new.owner.uid().to_string());
        let owners: Vec<_> = kept.cloned().chain([new.owner.reference()]).collect();
        live["metadata"]["ownerReferences"] = json!(owners);
    }
    Some(live)
}

fn set(object: &mut Value, amounts: Amounts) {
    object["capacity"] = json!(quantity::from_bytes_binary_si(amounts.capacity));
    object["maximumVolumeSize"] = json!(amounts.maximum.map(quantity::from_bytes_binary_si));
}
