//! Objects as users and controllers write them.

use serde_json::{Value, json};

pub(super) const DRIVER: &str = "csi.example.com";
pub(super) const NAMESPACE: &str = "default";
pub(super) const CLAIM: &str = "data";
pub(super) const CLAIM_UID: &str = "2ba3ed5c-0b1e-4b86-9c3f-1f2b5d5e7a01";
pub(super) const VOLUME: &str = "pv1";
pub(super) const HANDLE: &str = "handle1";

/// A bound claim that asks for `requested` and has `capacity`.
pub(super) fn claim(requested: &str, capacity: &str) -> Value {
    json!({
        "metadata": { "name": CLAIM, "namespace": NAMESPACE, "uid": CLAIM_UID },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": requested } },
            "volumeName": VOLUME,
        },
        "status": { "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": { "storage": capacity } },
    })
}

/// The volume of that claim.
pub(super) fn volume(capacity: &str) -> Value {
    json!({
        "metadata": { "name": VOLUME },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": { "storage": capacity },
            "claimRef": { "namespace": NAMESPACE, "name": CLAIM, "uid": CLAIM_UID },
            "csi": { "driver": DRIVER, "volumeHandle": HANDLE },
        },
        "status": { "phase": "Bound" },
    })
}

/// A class of attributes of the driver.
pub(super) fn attributes_class(name: &str, parameters: Value) -> Value {
    json!({ "metadata": { "name": name }, "driverName": DRIVER, "parameters": parameters })
}
