//! What the real server refuses of an object's metadata and of updates, as far as storage objects need it
//! (`apimachinery/pkg/api/validation`, `pkg/apis/core/validation`, `pkg/apis/storage/validation`).

use serde_json::Value;

use crate::{object, resource::Resource, status::Status};

mod claim;

/// Fields that no update may change, by group and plural.
const IMMUTABLE: &[(&str, &str, &[&str])] = &[
    (
        "",
        "persistentvolumes",
        &["/spec/volumeMode", "/spec/csi/driver", "/spec/csi/volumeHandle", "/spec/csi/volumeAttributes"],
    ),
    ("storage.k8s.io", "storageclasses", &["/provisioner", "/parameters", "/reclaimPolicy", "/volumeBindingMode"]),
    ("storage.k8s.io", "volumeattributesclasses", &["/driverName", "/parameters"]),
    ("storage.k8s.io", "volumeattachments", &["/spec"]),
    ("storage.k8s.io", "csidrivers", &["/spec/attachRequired", "/spec/volumeLifecycleModes"]),
    ("storage.k8s.io", "csistoragecapacities", &["/nodeTopology", "/storageClassName"]),
];

/// An owner needs all four fields, and one of them at most is the controller.
pub(crate) fn owners(resource: &Resource, object: &Value) -> Result<(), Status> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let owners = owners.map(Vec::as_slice).unwrap_or_default();
    let refuse = |field: &str, why: &str| Err(Status::invalid(resource, object::name(object), field, why));
    for (index, owner) in owners.iter().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if object::text(owner, &format!("/{field}")).is_empty() {
                let field = format!("metadata.ownerReferences[{index}].{field}");
                return refuse(&field, "Required value: must not be empty");
            }
        }
    }
    if owners.iter().filter(|owner| owner["controller"] == true).count() > 1 {
        return refuse("metadata.ownerReferences", "Only one reference can have Controller set to true");
    }
    Ok(())
}

/// An update, of whichever subresource.
pub(crate) fn update(resource: &Resource, current: &Value, wanted: &Value) -> Result<(), Status> {
    let refuse = |field: &str, why: &str| Err(Status::invalid(resource, object::name(current), field, why));
    let is = |group: &str, plural: &str| resource.group == group && resource.plural == plural;
    let immutable = IMMUTABLE.iter().filter(|(group, plural, _)| is(group, plural)).flat_map(|(.., fields)| *fields);
    for field in immutable {
        if changed(current, wanted, field) {
            return refuse(&field[1..].replace('/', "."), "Forbidden: field is immutable");
        }
    }
    if is("", "persistentvolumeclaims")
        && let Err((field, why)) = claim::update(current, wanted)
    {
        return refuse(field, why);
    }
    if is("storage.k8s.io", "csinodes")
        && let Some(index) = changed_driver(current, wanted)
    {
        return refuse(&format!("spec.drivers[{index}]"), "Invalid value: field is immutable");
    }
    Ok(())
}

fn changed(current: &Value, wanted: &Value, pointer: &str) -> bool {
    let of = |object: &Value| object.pointer(pointer).filter(|value| !value.is_null()).cloned();
    of(current) != of(wanted)
}

/// The first driver that is there before and after, and differs in more than the number of volumes.
fn changed_driver(current: &Value, wanted: &Value) -> Option<usize> {
    let drivers =
        |object: &Value| object.pointer("/spec/drivers").and_then(Value::as_array).cloned().unwrap_or_default();
    let (before, after) = (drivers(current), drivers(wanted));
    after.iter().position(|new| {
        let old = before.iter().find(|old| old["name"] == new["name"]);
        old.is_some_and(|old| ["nodeID", "topologyKeys"].iter().any(|field| old[*field] != new[*field]))
    })
}
