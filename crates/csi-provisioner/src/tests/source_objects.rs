//! Claims and snapshots that volumes are filled from, as the API server has them.

use csi_proto::csi::v1::CreateVolumeRequest;
use csi_proto::csi::v1::controller_service_capability::rpc::Type as ControllerRpc;
use csi_proto::csi::v1::volume_content_source::Type;
use fake_apiserver::FakeApiServer;
use fake_driver::Identity;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};
use storage_kube::wire::{ReferenceGrant, VolumeSnapshot, VolumeSnapshotContent};

use super::objects::{DRIVER, claim, volume, with};
use super::scene::Scene;

pub(super) const CLONING: &str = "provisioner.storage.kubernetes.io/cloning-protection";
pub(super) const RESTORING: &str = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";

/// A driver that can fill volumes from whatever there is.
pub(super) fn fills(driver: &mut Identity) {
    driver.controller_capabilities.extend([
        ControllerRpc::CreateDeleteSnapshot,
        ControllerRpc::CloneVolume,
        ControllerRpc::ModifyVolume,
    ]);
}

/// The snapshot `monday` in namespace `shop` and its content, each changed so.
pub(super) fn add_snapshot(api: &FakeApiServer, change: &Value, content_change: &Value) {
    add_snapshot_named(api, "monday", change, content_change);
}

pub(super) fn add_snapshot_named(api: &FakeApiServer, name: &str, change: &Value, content_change: &Value) {
    let snapshot = json!({
        "metadata": { "namespace": "shop", "name": name },
        "spec": { "source": { "persistentVolumeClaimName": "original" } },
        "status": { "boundVolumeSnapshotContentName": format!("content-{name}"), "readyToUse": true, "restoreSize": "1Gi" },
    });
    let snapshot = api.create_json::<VolumeSnapshot>(with(snapshot, change));
    let content = json!({
        "metadata": { "name": format!("content-{name}") },
        "spec": {
            "driver": DRIVER,
            "deletionPolicy": "Delete",
            "volumeSnapshotRef": { "namespace": "shop", "name": name, "uid": snapshot["metadata"]["uid"] },
        },
        "status": { "snapshotHandle": format!("handle-of-{name}") },
    });
    api.create_json::<VolumeSnapshotContent>(with(content, content_change));
}

/// The bound claim `source` in namespace `shop` and its volume, each changed so.
pub(super) fn add_source(api: &FakeApiServer, change: &Value, volume_change: &Value) {
    add_source_named(api, "source", change, volume_change);
}

pub(super) fn add_source_named(api: &FakeApiServer, name: &str, change: &Value, volume_change: &Value) {
    let volume_name = format!("pv-{name}");
    let bound = json!({ "spec": { "volumeName": volume_name }, "status": { "phase": "Bound" } });
    let source = api.create_json::<PersistentVolumeClaim>(with(with(claim(name, "fast"), &bound), change));
    let metadata = &source["metadata"];
    let of_source = json!({ "spec": {
        "claimRef": { "namespace": metadata["namespace"], "name": name, "uid": metadata["uid"] },
        "volumeMode": "Filesystem",
    } });
    let object = with(volume(&volume_name, &format!("handle-of-{name}"), "Bound", "Delete"), &of_source);
    api.create_json::<PersistentVolume>(with(object, volume_change));
}

/// The claim `name`, to be filled from a snapshot of its namespace.
pub(super) fn restore(name: &str, snapshot: &str) -> Value {
    let source = json!({ "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": snapshot });
    with(claim(name, "fast"), &json!({ "spec": { "dataSource": source, "dataSourceRef": source } }))
}

/// The claim `name`, to be filled from a claim of its namespace.
pub(super) fn clone_of(name: &str, source: &str) -> Value {
    let source = json!({ "kind": "PersistentVolumeClaim", "name": source });
    with(claim(name, "fast"), &json!({ "spec": { "dataSource": source, "dataSourceRef": source } }))
}

/// A grant in namespace `shop` for claims of namespace `bakery`, changed so.
pub(super) fn add_grant(api: &FakeApiServer, group: &str, kind: &str, change: &Value) {
    let grant = json!({
        "metadata": { "namespace": "shop", "name": "open" },
        "spec": {
            "from": [{ "group": "", "kind": "PersistentVolumeClaim", "namespace": "bakery" }],
            "to": [{ "group": group, "kind": kind }],
        },
    });
    api.create_json::<ReferenceGrant>(with(grant, change));
}

/// `finalizers` of a claim in namespace `shop`; none when it is gone.
pub(super) fn claim_finalizers(api: &FakeApiServer, name: &str) -> Option<Vec<String>> {
    finalizers(api.get_json::<PersistentVolumeClaim>("shop", name))
}

/// `finalizers` of a snapshot in namespace `shop`; none when it is gone.
pub(super) fn snapshot_finalizers(api: &FakeApiServer, name: &str) -> Option<Vec<String>> {
    finalizers(api.get_json::<VolumeSnapshot>("shop", name))
}

fn finalizers(object: Option<Value>) -> Option<Vec<String>> {
    let list = object?["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

/// How often a finalizer was put on, or taken off, an object by a PUT.
pub(super) fn puts(api: &FakeApiServer, resource: &str, finalizer: &str) -> [usize; 2] {
    let bodies = api.requests().into_iter().filter(|request| request.verb == "update" && request.resource == resource);
    let on = bodies.map(|request| {
        let list = request.body["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        list.iter().any(|one| one == finalizer)
    });
    let on: Vec<bool> = on.collect();
    [on.iter().filter(|on| **on).count(), on.iter().filter(|on| !**on).count()]
}

/// The sources that the driver was asked to fill volumes from.
pub(super) fn contents(scene: &Scene) -> Vec<String> {
    let requests = scene.driver.requests::<CreateVolumeRequest>();
    let sources = requests.into_iter().filter_map(|request| request.volume_content_source?.r#type);
    sources
        .map(|source| match source {
            Type::Snapshot(snapshot) => format!("snapshot {}", snapshot.snapshot_id),
            Type::Volume(volume) => format!("volume {}", volume.volume_id),
        })
        .collect()
}
