//! Sources in other namespaces, on a fake API server and a fake driver.

use std::time::Duration;

use fake_driver::Rpc;
use serde_json::{Value, json};
use storage_kube::wire::ReferenceGrant;

use super::objects::{claim, class, with};
use super::scene::{Scene, flags};
use super::source_objects::{add_grant, add_snapshot, add_source, contents, fills};
use crate::settings::ProvisioningFlags;

async fn scene(gate: bool) -> Scene {
    let scene = Scene::with(ProvisioningFlags { cross_namespace_gate: gate, ..flags() }, fills).await;
    scene.add_class(class("fast", json!({})));
    add_snapshot(&scene.api, &json!({}), &json!({}));
    add_source(&scene.api, &json!({}), &json!({}));
    scene
}

fn from_shop(namespace: &str, reference: Value) -> Value {
    let change = json!({ "metadata": { "namespace": namespace }, "spec": { "dataSourceRef": reference } });
    with(claim("data", "fast"), &change)
}

fn snapshot_in(namespace: Value) -> Value {
    json!({ "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "monday", "namespace": namespace })
}

fn claim_in(namespace: Value) -> Value {
    json!({ "apiGroup": null, "kind": "PersistentVolumeClaim", "name": "source", "namespace": namespace })
}

/// The cross-namespace rows of the snapshot table and of the clone table. `None`: no grant.
#[tokio::test(start_paused = true)]
async fn volumes_are_filled_across_namespaces_by_grant_alone() {
    let away = || json!("shop");
    let to = |change: Value| json!({ "spec": { "to": [change] } });
    let from = |change: Value| json!({ "spec": { "from": [change] } });
    let snapshots = ("snapshot.storage.k8s.io", "VolumeSnapshot");
    let claims = ("", "PersistentVolumeClaim");
    let group = snapshots.0;
    let cases: Vec<(&str, bool, &str, Value, Option<Value>, bool)> = vec![
        ("gate on, no name", true, "bakery", snapshot_in(away()), Some(json!({})), true),
        (
            "name",
            true,
            "bakery",
            snapshot_in(away()),
            Some(to(json!({ "group": group, "kind": "VolumeSnapshot", "name": "monday" }))),
            true,
        ),
        (
            "name empty",
            true,
            "bakery",
            snapshot_in(away()),
            Some(to(json!({ "group": group, "kind": "VolumeSnapshot", "name": "" }))),
            true,
        ),
        ("own namespace", true, "shop", snapshot_in(away()), None, true),
        ("no namespace", true, "shop", snapshot_in(Value::Null), None, true),
        ("no grant", true, "bakery", snapshot_in(away()), None, false),
        ("gate off", false, "bakery", snapshot_in(away()), Some(json!({})), false),
        (
            "grant elsewhere",
            true,
            "bakery",
            snapshot_in(away()),
            Some(json!({ "metadata": { "namespace": "bakery" } })),
            false,
        ),
        (
            "from.group",
            true,
            "bakery",
            snapshot_in(away()),
            Some(from(json!({ "group": "x", "kind": "PersistentVolumeClaim", "namespace": "bakery" }))),
            false,
        ),
        (
            "from.kind",
            true,
            "bakery",
            snapshot_in(away()),
            Some(from(json!({ "group": "", "kind": "x", "namespace": "bakery" }))),
            false,
        ),
        (
            "from.namespace",
            true,
            "bakery",
            snapshot_in(away()),
            Some(from(json!({ "group": "", "kind": "PersistentVolumeClaim", "namespace": "x" }))),
            false,
        ),
        ("to.kind", true, "bakery", snapshot_in(away()), Some(to(json!({ "group": group, "kind": "x" }))), false),
        (
            "to.group",
            true,
            "bakery",
            snapshot_in(away()),
            Some(to(json!({ "group": "x", "kind": "VolumeSnapshot" }))),
            false,
        ),
        (
            "to.name",
            true,
            "bakery",
            snapshot_in(away()),
            Some(to(json!({ "group": group, "kind": "VolumeSnapshot", "name": "x" }))),
            false,
        ),
        ("empty", true, "bakery", snapshot_in(away()), Some(json!({ "spec": { "from": [], "to": [] } })), false),
        ("clone, no name", true, "bakery", claim_in(away()), Some(json!({})), true),
        (
            "clone, name",
            true,
            "bakery",
            claim_in(away()),
            Some(to(json!({ "group": "", "kind": "PersistentVolumeClaim", "name": "source" }))),
            true,
        ),
        (
            "clone, group empty",
            true,
            "bakery",
            with(claim_in(away()), &json!({ "apiGroup": "" })),
            Some(json!({})),
            true,
        ),
        ("clone, own namespace", true, "shop", claim_in(away()), None, true),
        ("clone, no namespace", true, "shop", claim_in(Value::Null), None, true),
        (
            "clone, other kind",
            true,
            "bakery",
            with(claim_in(away()), &json!({ "kind": "WrongKind" })),
            Some(json!({})),
            false,
        ),
        (
            "clone, grant elsewhere",
            true,
            "bakery",
            claim_in(away()),
            Some(json!({ "metadata": { "namespace": "bakery" } })),
            false,
        ),
        (
            "clone, from.group",
            true,
            "bakery",
            claim_in(away()),
            Some(from(json!({ "group": "x", "kind": "PersistentVolumeClaim", "namespace": "bakery" }))),
            false,
        ),
        (
            "clone, from.kind",
            true,
            "bakery",
            claim_in(away()),
            Some(from(json!({ "group": "", "kind": "x", "namespace": "bakery" }))),
            false,
        ),
        (
            "clone, from.namespace",
            true,
            "bakery",
            claim_in(away()),
            Some(from(json!({ "group": "", "kind": "PersistentVolumeClaim", "namespace": "x" }))),
            false,
        ),
        (
            "clone, to.group",
            true,
            "bakery",
            claim_in(away()),
            Some(to(json!({ "group": "x", "kind": "PersistentVolumeClaim" }))),
            false,
        ),
        ("clone, to.kind", true, "bakery", claim_in(away()), Some(to(json!({ "group": "", "kind": "x" }))), false),
        (
            "clone, to.name",
            true,
            "bakery",
            claim_in(away()),
            Some(to(json!({ "group": "", "kind": "PersistentVolumeClaim", "name": "x" }))),
            false,
        ),
        ("clone, empty", true, "bakery", claim_in(away()), Some(json!({ "spec": { "from": [], "to": [] } })), false),
        ("clone, no grant", true, "bakery", claim_in(away()), None, false),
        ("clone, gate off", false, "bakery", claim_in(away()), Some(json!({})), false),
    ];
    assert_eq!(cases.len(), 31);
    for (case, gate, namespace, reference, grant, filled) in cases {
        let scene = scene(gate).await;
        let (group, kind) = if case.starts_with("clone") { claims } else { snapshots };
        if let Some(change) = grant {
            add_grant(&scene.api, group, kind, &change);
        }
        scene.pass(Duration::from_millis(10)).await;
        let uid = scene.add_claim(from_shop(namespace, reference));
        if filled {
            scene.volume(&format!("pvc-{uid}")).await;
            assert_eq!(contents(&scene).len(), 1, "{case}");
        } else {
            let text = scene.event("ProvisioningFailed").await;
            let expected = if gate { "ReferenceGrant" } else { "CrossNamespaceVolumeDataSource" };
            assert!(text.contains(expected), "{case}: {text}");
            assert_eq!(scene.count(Rpc::CreateVolume), 0, "{case}");
        }
    }
}

/// The grant's event brings the claim back, however long its backoff is by then.
#[tokio::test(start_paused = true)]
async fn a_claim_that_waits_for_a_grant_is_provisioned_when_it_appears() {
    let scene = scene(true).await;
    let uid = scene.add_claim(from_shop("bakery", claim_in(json!("shop"))));
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
    let before = tokio::time::Instant::now();
    add_grant(&scene.api, "", "PersistentVolumeClaim", &json!({}));
    scene.volume(&format!("pvc-{uid}")).await;
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_is_taken_back_allows_nothing_more() {
    let scene = scene(true).await;
    add_grant(&scene.api, "", "PersistentVolumeClaim", &json!({}));
    scene.pass(Duration::from_secs(1)).await;
    scene.api.delete::<ReferenceGrant>("shop", "open");
    scene.pass(Duration::from_secs(1)).await;
    scene.add_claim(from_shop("bakery", claim_in(json!("shop"))));
    assert!(scene.event("ProvisioningFailed").await.contains("no ReferenceGrant in namespace shop"));
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
}

/// Grants are nobody's business while the gate is off, and their kind may not exist while it is on.
#[tokio::test(start_paused = true)]
async fn grants_are_watched_with_the_gate_alone_and_hold_up_nothing() {
    let asked = |scene: &Scene| scene.api.requests().iter().any(|request| request.resource == "referencegrants");
    assert!(!asked(&scene(false).await));

    let missing = fake_apiserver::Status::new(404, "NotFound", "the server could not find the requested resource");
    let scene = Scene::configured(
        |settings| settings.flags.cross_namespace_gate = true,
        fills,
        |api| {
            let grants = fake_apiserver::Matcher::any().resource("referencegrants");
            api.react(grants, fake_apiserver::Reaction::Refuse(missing));
        },
    )
    .await;
    scene.add_class(class("fast", json!({})));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.volume(&format!("pvc-{uid}")).await;
    assert!(asked(&scene));
}
