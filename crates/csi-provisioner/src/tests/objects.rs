//! Objects as users and controllers write them.

use serde_json::{Value, json};

pub(super) const DRIVER: &str = "fake.csi.example.com";
pub(super) const CLAIM_UID: &str = "6f6d0e1c-3a65-4ff0-9d0c-0d6c1b0e7a11";

/// A class of the fake driver.
pub(super) fn class(name: &str, parameters: Value) -> Value {
    json!({
        "metadata": { "name": name },
        "provisioner": DRIVER,
        "parameters": parameters,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    })
}

/// A claim of 1 GiB that the volume controller has handed to the fake driver.
pub(super) fn claim(name: &str, class: &str) -> Value {
    json!({
        "metadata": {
            "name": name,
            "namespace": "shop",
            "annotations": {
                "volume.kubernetes.io/storage-provisioner": DRIVER,
                "volume.beta.kubernetes.io/storage-provisioner": DRIVER,
            },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } },
            "storageClassName": class,
            "volumeMode": "Filesystem",
        },
        "status": { "phase": "Pending" },
    })
}

pub(super) fn secret(namespace: &str, name: &str, key: &str, base64: &str) -> Value {
    json!({ "metadata": { "namespace": namespace, "name": name }, "data": { key: base64 } })
}

/// A volume of the fake driver, as this provisioner writes it.
pub(super) fn volume(name: &str, handle: &str, phase: &str, policy: &str) -> Value {
    json!({
        "metadata": {
            "name": name,
            "annotations": {
                "pv.kubernetes.io/provisioned-by": DRIVER,
                "volume.kubernetes.io/provisioner-deletion-secret-name": "",
                "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
            },
            "finalizers": ["kubernetes.io/pv-protection", "external-provisioner.volume.kubernetes.io/finalizer"],
        },
        "spec": {
            "capacity": { "storage": "1Gi" },
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": "fast",
            "claimRef": { "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "gone", "uid": "11111111-2222-3333-4444-555555555555" },
            "csi": { "driver": DRIVER, "volumeHandle": handle },
        },
        "status": { "phase": phase },
    })
}

/// `base` with the fields of `change` merged in.
pub(super) fn with(mut base: Value, change: &Value) -> Value {
    merge(&mut base, change);
    base
}

fn merge(base: &mut Value, change: &Value) {
    match (base, change) {
        (Value::Object(base), Value::Object(change)) => {
            for (key, value) in change {
                if value.is_null() {
                    base.remove(key);
                } else {
                    merge(base.entry(key).or_insert(Value::Null), value);
                }
            }
        }
        (base, change) => *base = change.clone(),
    }
}
