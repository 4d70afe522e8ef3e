//! Claims that are filled from a snapshot: the rows of the Go provisioner's own table.

use csi_proto::csi::v1::controller_service_capability::rpc::Type as ControllerRpc;
use csi_proto::csi::v1::{CreateVolumeRequest, CreateVolumeResponse, Volume};
use fake_driver::{Rpc, Step};
use serde_json::{Value, json};
use storage_kube::wire::{VolumeSnapshot, VolumeSnapshotContent};

use super::objects::{DRIVER, claim, class, with};
use super::scene::{Scene, flags};
use super::source_objects::{RESTORING, add_snapshot, contents, fills, restore};
use crate::content_source::Wanted;
use crate::content_source::snapshot::{check_content, check_snapshot};
use crate::settings::ProvisioningFlags;

async fn scene(gate: bool) -> Scene {
    let scene = Scene::with(ProvisioningFlags { cross_namespace_gate: gate, ..flags() }, fills).await;
    scene.add_class(class("fast", json!({})));
    scene
}

/// What is changed of snapshot, content and claim, and what the one event must say.
type Refusal = (&'static str, Value, Value, Value, &'static str);

#[tokio::test(start_paused = true)]
async fn snapshots_that_cannot_be_restored() {
    let nothing = || json!({});
    let status = |change: Value| json!({ "status": change });
    let reference = |change: Value| json!({ "spec": { "volumeSnapshotRef": change } });
    let source = |change: Value| json!({ "spec": { "dataSource": change, "dataSourceRef": null } });
    let cases: Vec<Refusal> = vec![
        ("smaller than the snapshot", status(json!({ "restoreSize": "2Gi" })), nothing(), nothing(), "2147483648"),
        ("size as a number", status(json!({ "restoreSize": 2_147_483_648_u64 })), nothing(), nothing(), "2147483648"),
        ("size that is none", status(json!({ "restoreSize": "much" })), nothing(), nothing(), "much"),
        ("no size asked for", nothing(), nothing(), json!({ "spec": { "resources": null } }), "asks for no storage"),
        ("no name", nothing(), nothing(), source(json!({ "name": "" })), "has no name"),
        (
            "other group",
            nothing(),
            nothing(),
            source(json!({ "apiGroup": "unsupported.group.io" })),
            "unsupported.group.io",
        ),
        ("not ready", status(json!({ "readyToUse": false })), nothing(), nothing(), "not ready"),
        ("readyToUse null", status(json!({ "readyToUse": null })), nothing(), nothing(), "not ready"),
        ("status null", json!({ "status": null }), nothing(), nothing(), "not bound"),
        (
            "no content named",
            status(json!({ "boundVolumeSnapshotContentName": null })),
            nothing(),
            nothing(),
            "not bound",
        ),
        ("content of another uid", nothing(), reference(json!({ "uid": "other" })), nothing(), "another snapshot"),
        ("content without uid", nothing(), reference(json!({ "uid": null })), nothing(), "another snapshot"),
        (
            "content of another namespace",
            nothing(),
            reference(json!({ "namespace": "other" })),
            nothing(),
            "another snapshot",
        ),
        ("content of another name", nothing(), reference(json!({ "name": "other" })), nothing(), "another snapshot"),
        (
            "content of another driver",
            nothing(),
            json!({ "spec": { "driver": "another-driver" } }),
            nothing(),
            "another-driver",
        ),
        ("content status null", nothing(), json!({ "status": null }), nothing(), "snapshotHandle"),
        ("no handle", nothing(), status(json!({ "snapshotHandle": null })), nothing(), "snapshotHandle"),
        (
            "content gone",
            status(json!({ "boundVolumeSnapshotContentName": "gone" })),
            nothing(),
            nothing(),
            "gone is not there",
        ),
        ("snapshot gone", nothing(), nothing(), source(json!({ "name": "tuesday" })), "no such snapshot"),
        (
            "mode conversion without permission",
            nothing(),
            json!({ "spec": { "sourceVolumeMode": "Filesystem" } }),
            json!({ "spec": { "volumeMode": "Block" } }),
            "modifies the mode of the source volume but does not have permission to do so",
        ),
    ];
    assert_eq!(cases.len(), 20);
    for (case, snapshot, content, change, expected) in cases {
        let scene = scene(false).await;
        add_snapshot(&scene.api, &snapshot, &content);
        scene.add_claim(with(restore("data", "monday"), &change));
        let text = scene.event("ProvisioningFailed").await;
        assert!(text.contains(expected), "{case}: {text}");
        assert_eq!(scene.count(Rpc::CreateVolume), 0, "{case}");
        assert!(scene.writes().is_empty(), "{case}: {:?}", scene.writes());
    }
}

#[tokio::test(start_paused = true)]
async fn snapshots_that_are_restored() {
    let nothing = || json!({});
    let allowed = json!({ "snapshot.storage.kubernetes.io/allow-volume-mode-change": "true" });
    let converted = json!({ "metadata": { "annotations": allowed }, "spec": { "sourceVolumeMode": "Filesystem" } });
    let cases = [
        ("size equal", false, nothing(), nothing(), nothing(), json!("ext4")),
        ("size larger", false, json!({ "status": { "restoreSize": "1Mi" } }), nothing(), nothing(), json!("ext4")),
        ("no restoreSize", false, json!({ "status": { "restoreSize": null } }), nothing(), nothing(), json!("ext4")),
        (
            "by dataSourceRef alone",
            false,
            nothing(),
            nothing(),
            json!({ "spec": { "dataSource": null } }),
            json!("ext4"),
        ),
        ("gate on", true, nothing(), nothing(), nothing(), json!("ext4")),
        (
            "mode conversion with permission",
            false,
            nothing(),
            converted,
            json!({ "spec": { "volumeMode": "Block" } }),
            Value::Null,
        ),
    ];
    assert_eq!(cases.len(), 6);
    for (case, gate, snapshot, content, change, fs_type) in cases {
        let scene = scene(gate).await;
        add_snapshot(&scene.api, &snapshot, &content);
        let uid = scene.add_claim(with(restore("data", "monday"), &change));
        let volume = scene.volume(&format!("pvc-{uid}")).await;
        assert_eq!(volume["spec"]["csi"]["fsType"], fs_type, "{case}");
        assert_eq!(contents(&scene), ["snapshot handle-of-monday"], "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_kind_is_left_to_its_populator() {
    let scene = scene(false).await;
    let kind = json!({ "spec": { "dataSource": { "kind": "UnsupportedKind" }, "dataSourceRef": null } });
    scene.add_claim(with(restore("data", "monday"), &kind));
    assert!(scene.event("Provisioning").await.contains("populator"));
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
}

#[tokio::test(start_paused = true)]
async fn a_driver_without_the_capability_is_named() {
    let lacking = [ControllerRpc::CreateDeleteSnapshot, ControllerRpc::CloneVolume];
    assert_eq!(lacking.len(), 2);
    for capability in lacking {
        let scene = Scene::with(flags(), |driver| {
            fills(driver);
            driver.controller_capabilities.retain(|one| *one != capability);
        })
        .await;
        scene.add_class(class("fast", json!({})));
        let (claim, name) = match capability {
            ControllerRpc::CloneVolume => (super::source_objects::clone_of("data", "source"), "CLONE_VOLUME"),
            _ => (restore("data", "monday"), "CREATE_DELETE_SNAPSHOT"),
        };
        scene.add_claim(claim);
        let text = scene.event("ProvisioningFailed").await;
        assert!(text.contains(name), "{text}");
        assert_eq!(scene.count(Rpc::CreateVolume), 0);
    }
}

/// The driver ignores the source, and would leave the volume empty.
#[tokio::test(start_paused = true)]
async fn a_volume_without_content_source_is_deleted_again() {
    let scene = scene(false).await;
    add_snapshot(&scene.api, &json!({}), &json!({}));
    scene.driver.script(
        Rpc::CreateVolume,
        Step::respond(|_: &CreateVolumeRequest| {
            let volume = Volume { volume_id: "empty".into(), capacity_bytes: 1 << 30, ..Volume::default() };
            Ok(CreateVolumeResponse { volume: Some(volume) })
        }),
    );
    let uid = scene.add_claim(restore("data", "monday"));
    let text = scene.event("ProvisioningFailed").await;
    assert!(text.contains("did not say that the volume is filled") && text.contains("deleted again"), "{text}");
    assert_eq!((scene.count(Rpc::CreateVolume), scene.count(Rpc::DeleteVolume)), (1, 1));
    // The next answer names it, and the volume is used.
    scene.volume(&format!("pvc-{uid}")).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 1);
}

/// A snapshot that is being deleted is restored only while it waits for a restore.
#[tokio::test(start_paused = true)]
async fn a_snapshot_that_is_being_deleted() {
    let cases = [
        ("only some other finalizer", json!(["some-other-finalizer"]), false),
        ("the snapshot controller's", json!(["snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"]), false),
        ("ours", json!([RESTORING, "some-other-finalizer"]), true),
    ];
    assert_eq!(cases.len(), 3);
    for (case, finalizers, restored) in cases {
        // The claim is there before the term begins: nothing may have released the snapshot by then.
        let scene = Scene::configured(
            |_| (),
            fills,
            |api| {
                add_snapshot(api, &json!({ "metadata": { "finalizers": finalizers } }), &json!({}));
                api.delete::<VolumeSnapshot>("shop", "monday");
                api.create_json::<k8s_openapi::api::core::v1::PersistentVolumeClaim>(restore("data", "monday"));
            },
        )
        .await;
        scene.add_class(class("fast", json!({})));
        if restored {
            scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
            assert_eq!(contents(&scene), ["snapshot handle-of-monday"], "{case}");
        } else {
            scene
                .api
                .until("the refusal", super::scene::PATIENCE, |_| {
                    scene.events("ProvisioningFailed").into_iter().find(|text| text.contains("being deleted"))
                })
                .await;
            assert_eq!(scene.count(Rpc::CreateVolume), 0, "{case}");
        }
    }
}

/// The same decision without an API server, where an object can be deleted that nothing keeps.
#[test]
fn which_deleted_snapshots_can_be_restored() {
    let cases = [
        ("not deleted", false, json!([]), true),
        ("no finalizer", true, json!([]), false),
        ("finalizers null", true, Value::Null, false),
        ("only some other finalizer", true, json!(["some-other-finalizer"]), false),
        ("ours among others", true, json!(["some-other-finalizer", RESTORING]), true),
    ];
    assert_eq!(cases.len(), 5);
    for (case, deleting, finalizers, restored) in cases {
        let snapshot: VolumeSnapshot = serde_json::from_value(json!({
            "metadata": {
                "namespace": "shop", "name": "monday", "uid": "u", "finalizers": finalizers,
                "deletionTimestamp": deleting.then_some("2026-01-01T00:00:00Z"),
            },
            "status": { "boundVolumeSnapshotContentName": "c", "readyToUse": true },
        }))
        .unwrap();
        assert_eq!(check_snapshot(&snapshot).is_ok(), restored, "{case}");
    }
}

/// Modes are compared by value, and the annotation is read as Go reads a boolean.
#[test]
fn i5_a_volume_mode_is_converted_with_permission_alone() {
    let block = || json!("Block");
    let file = || json!("Filesystem");
    // mode of the source, mode of the claim, annotation, --prevent-volume-mode-conversion; restored
    let cases = [
        (file(), file(), None, true, true),
        (block(), block(), None, true, true),
        (Value::Null, block(), None, true, true),
        (Value::Null, file(), None, true, true),
        (file(), Value::Null, None, true, true),
        (block(), Value::Null, None, true, true),
        (file(), block(), None, true, false),
        (block(), file(), None, true, false),
        (json!("Other"), file(), None, true, false),
        (file(), block(), Some("true"), true, true),
        (file(), block(), Some("True"), true, true),
        (file(), block(), Some("TRUE"), true, true),
        (file(), block(), Some("t"), true, true),
        (file(), block(), Some("T"), true, true),
        (file(), block(), Some("1"), true, true),
        (block(), file(), Some("true"), true, true),
        (file(), block(), Some("false"), true, false),
        (file(), block(), Some("0"), true, false),
        (file(), block(), Some("yes"), true, false),
        (file(), block(), Some("tRUE"), true, false),
        (file(), block(), Some(" true"), true, false),
        (file(), block(), Some(""), true, false),
        (file(), block(), None, false, true),
        (block(), file(), Some("false"), false, true),
    ];
    assert_eq!(cases.len(), 24);
    for (source_mode, mode, annotation, prevent, restored) in cases {
        let snapshot: VolumeSnapshot = serde_json::from_value(json!({
            "metadata": { "namespace": "shop", "name": "monday", "uid": "u" },
            "status": { "boundVolumeSnapshotContentName": "c", "readyToUse": true },
        }))
        .unwrap();
        let content: VolumeSnapshotContent = serde_json::from_value(json!({
            "metadata": { "name": "c", "annotations": annotation.map(|value| json!({ "snapshot.storage.kubernetes.io/allow-volume-mode-change": value })) },
            "spec": { "driver": DRIVER, "sourceVolumeMode": source_mode, "volumeSnapshotRef": { "namespace": "shop", "name": "monday", "uid": "u" } },
            "status": { "snapshotHandle": "h" },
        }))
        .unwrap();
        let claim = with(claim("data", "fast"), &json!({ "spec": { "volumeMode": mode } }));
        let claim = super::claims::record(DRIVER, claim).unwrap();
        let wanted =
            Wanted { claim: &claim, provisioner: DRIVER, requested_bytes: 1 << 30, prevent_mode_conversion: prevent };
        assert_eq!(check_snapshot(&snapshot).unwrap(), "c");
        let checked = check_content(wanted, &snapshot, "c", Some(&content));
        assert_eq!(
            checked.is_ok(),
            restored,
            "{source_mode} to {mode}, {annotation:?}, prevent {prevent}: {checked:?}"
        );
    }
}

/// A class that still names the in-tree plugin restores and clones nothing, although its driver is the content's.
#[test]
fn the_driver_is_compared_with_the_provisioner_as_the_class_has_it() {
    let snapshot: VolumeSnapshot = serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": "monday", "uid": "u" },
        "status": { "boundVolumeSnapshotContentName": "c", "readyToUse": true },
    }))
    .unwrap();
    let content: VolumeSnapshotContent = serde_json::from_value(json!({
        "metadata": { "name": "c" },
        "spec": { "driver": DRIVER, "volumeSnapshotRef": { "namespace": "shop", "name": "monday", "uid": "u" } },
        "status": { "snapshotHandle": "h" },
    }))
    .unwrap();
    let claim = super::claims::record(DRIVER, claim("data", "fast")).unwrap();
    let cases = [(DRIVER, true), ("kubernetes.io/aws-ebs", false)];
    assert_eq!(cases.len(), 2);
    for (provisioner, restored) in cases {
        let wanted = Wanted { claim: &claim, provisioner, requested_bytes: 1 << 30, prevent_mode_conversion: true };
        assert_eq!(check_content(wanted, &snapshot, "c", Some(&content)).is_ok(), restored, "{provisioner}");
    }
}
