//! Objects as users and controllers write them.

use serde_json::{Value, json};

pub(super) const DRIVER: &str = "csi/test";
pub(super) const FINALIZER: &str = "external-attacher/csi-test";

/// A volume of the driver with our finalizer: handle `handle1`, for many nodes.
pub(super) fn volume() -> Value {
    volume_named("pv1", "handle1")
}

pub(super) fn volume_named(name: &str, handle: &str) -> Value {
    json!({
        "metadata": { "name": name, "finalizers": [FINALIZER] },
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "csi": { "driver": DRIVER, "volumeHandle": handle },
        },
    })
}

/// The volume inside an attachment.
pub(super) fn inline() -> Value {
    json!({ "accessModes": ["ReadWriteMany"], "csi": { "driver": DRIVER, "volumeHandle": "handle1" } })
}

/// An attachment of the volume `pv1` to `node1`, as kube-controller-manager makes it.
pub(super) fn attachment() -> Value {
    attachment_of("pv1-node1", "pv1", "node1")
}

pub(super) fn attachment_of(name: &str, volume: &str, node: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "attacher": DRIVER, "nodeName": node, "source": { "persistentVolumeName": volume } },
        "status": { "attached": false },
    })
}

pub(super) fn inline_attachment(spec: Value) -> Value {
    let mut attachment = attachment();
    attachment["spec"]["source"] = json!({ "inlineVolumeSpec": spec });
    attachment
}

/// With our finalizer and the node id, as after a successful attach.
pub(super) fn attached(mut attachment: Value, node_id: &str) -> Value {
    attachment["metadata"]["finalizers"] = json!([FINALIZER]);
    attachment["metadata"]["annotations"] = json!({ "csi.alpha.kubernetes.io/node-id": node_id });
    attachment["status"] = json!({ "attached": true });
    attachment
}

/// A node with the driver under `node_id`.
pub(super) fn node(name: &str, node_id: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "drivers": [{ "name": "other", "nodeID": "x" }, { "name": DRIVER, "nodeID": node_id }] },
    })
}

pub(super) fn node_without_driver(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "drivers": [{ "name": "other", "nodeID": "x" }] } })
}

pub(super) fn secret(name: &str, data: Value) -> Value {
    json!({ "metadata": { "namespace": "default", "name": name }, "data": data })
}

/// `base` with the fields of `change` merged in.
pub(super) fn with(mut base: Value, change: Value) -> Value {
    merge(&mut base, &change);
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
