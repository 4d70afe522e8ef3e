//! Sources in other namespaces, on a fake API server and a fake driver.

use std::time::Duration;

use fake_driver::Rpc;
use serde_json::{Value, json};
use storage_kube::wire::ReferenceGrant;

use super::objects::{claim, class, with};
use super::scene::{Scene, flags};
use super::source_objects::{CLONING, add_grant, add_snapshot, add_source, contents, fills, puts};
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

/// What is looked at.
#[derive(Clone, Copy)]
struct Row {
    case: &'static str,
    gate: bool,
    /// Of the claim.
    namespace: &'static str,
    /// In the claim's reference.
    away: Option<&'static str>,
    grant: Grant,
    filled: bool,
}

/// The grant in namespace `shop`.
#[derive(Clone, Copy)]
enum Grant {
    None,
    /// To all of the kind.
    Open,
    Elsewhere,
    /// Group, kind and namespace.
    From(&'static str, &'static str, &'static str),
    /// Group, kind and name.
    To(&'static str, &'static str, &'static str),
    Empty,
}

impl Grant {
    fn change(self) -> Option<Value> {
        Some(match self {
            Self::None => return None,
            Self::Open => json!({}),
            Self::Elsewhere => json!({ "metadata": { "namespace": "bakery" } }),
            Self::From(group, kind, namespace) => {
                json!({ "spec": { "from": [{ "group": group, "kind": kind, "namespace": namespace }] } })
            }
            Self::To(group, kind, name) => {
                json!({ "spec": { "to": [{ "group": group, "kind": kind, "name": name }] } })
            }
            Self::Empty => json!({ "spec": { "from": [], "to": [] } }),
        })
    }
}

const PVC: &str = "PersistentVolumeClaim";
const SNAPSHOT: &str = "VolumeSnapshot";
const GROUP: &str = "snapshot.storage.k8s.io";

async fn check(row: Row, group: &str, kind: &str, reference: Value) {
    let case = row.case;
    let scene = scene(row.gate).await;
    if let Some(change) = row.grant.change() {
        add_grant(&scene.api, group, kind, &change);
    }
    scene.pass(Duration::from_millis(10)).await;
    let uid = scene.add_claim(from_shop(row.namespace, reference));
    if row.filled {
        scene.volume(&format!("pvc-{uid}")).await;
        assert_eq!(contents(&scene).len(), 1, "{case}");
        scene.pass(Duration::from_secs(1)).await;
        let cloned = usize::from(kind == PVC);
        assert_eq!(
            puts(&scene.api, "persistentvolumeclaims", CLONING),
            [cloned, cloned],
            "{case}: protected meanwhile"
        );
    } else {
        let text = scene.event("ProvisioningFailed").await;
        let expected = if row.gate { "ReferenceGrant" } else { "CrossNamespaceVolumeDataSource" };
        assert!(text.contains(expected), "{case}: {text}");
        assert_eq!(scene.count(Rpc::CreateVolume), 0, "{case}");
        assert_eq!(puts(&scene.api, "persistentvolumeclaims", CLONING), [0, 0], "{case}");
    }
}

/// A claim of namespace `bakery` with the gate on.
const fn bakery(case: &'static str, grant: Grant, filled: bool) -> Row {
    Row { case, gate: true, namespace: "bakery", away: Some("shop"), grant, filled }
}

/// The cross-namespace rows of the snapshot table.
#[tokio::test(start_paused = true)]
async fn snapshots_are_restored_across_namespaces_by_grant_alone() {
    let cases = [
        bakery("no name", Grant::Open, true),
        bakery("name", Grant::To(GROUP, SNAPSHOT, "monday"), true),
        bakery("name empty", Grant::To(GROUP, SNAPSHOT, ""), true),
        Row { namespace: "shop", ..bakery("own namespace", Grant::None, true) },
        Row { namespace: "shop", away: None, ..bakery("no namespace", Grant::None, true) },
        bakery("no grant", Grant::None, false),
        Row { gate: false, ..bakery("gate off", Grant::Open, false) },
        bakery("grant elsewhere", Grant::Elsewhere, false),
        bakery("from.group", Grant::From("x", PVC, "bakery"), false),
        bakery("from.kind", Grant::From("", "x", "bakery"), false),
        bakery("from.namespace", Grant::From("", PVC, "x"), false),
        bakery("to.kind", Grant::To(GROUP, "x", ""), false),
        bakery("to.group", Grant::To("x", SNAPSHOT, ""), false),
        bakery("to.name", Grant::To(GROUP, SNAPSHOT, "x"), false),
        bakery("empty", Grant::Empty, false),
    ];
    assert_eq!(cases.len(), 15);
    for row in cases {
        check(row, GROUP, SNAPSHOT, snapshot_in(json!(row.away))).await;
    }
}

/// The cross-namespace rows of the clone table.
#[tokio::test(start_paused = true)]
async fn claims_are_cloned_across_namespaces_by_grant_alone() {
    let nothing = || json!({});
    let cases = [
        (bakery("no name", Grant::Open, true), nothing()),
        (bakery("name", Grant::To("", PVC, "source"), true), nothing()),
        (bakery("apiGroup empty", Grant::Open, true), json!({ "apiGroup": "" })),
        (bakery("apiGroup null", Grant::Open, true), json!({ "apiGroup": null })),
        (Row { namespace: "shop", ..bakery("own namespace", Grant::None, true) }, nothing()),
        (Row { namespace: "shop", away: None, ..bakery("no namespace", Grant::None, true) }, nothing()),
        (bakery("kind", Grant::Open, false), json!({ "kind": "WrongKind" })),
        (bakery("grant elsewhere", Grant::Elsewhere, false), nothing()),
        (bakery("from.group", Grant::From("x", PVC, "bakery"), false), nothing()),
        (bakery("from.kind", Grant::From("", "x", "bakery"), false), nothing()),
        (bakery("from.namespace", Grant::From("", PVC, "x"), false), nothing()),
        (bakery("to.group", Grant::To("x", PVC, ""), false), nothing()),
        (bakery("to.kind", Grant::To("", "x", ""), false), nothing()),
        (bakery("to.name", Grant::To("", PVC, "x"), false), nothing()),
        (bakery("empty", Grant::Empty, false), nothing()),
        (bakery("no grant", Grant::None, false), nothing()),
        (Row { gate: false, ..bakery("gate off", Grant::Open, false) }, nothing()),
    ];
    assert_eq!(cases.len(), 17);
    for (row, change) in cases {
        check(row, "", PVC, with(claim_in(json!(row.away)), &change)).await;
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

/// With the gate, on an API server that does not have the kind.
async fn without_the_kind() -> Scene {
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
    scene
}

/// Grants are nobody's business while the gate is off, and their kind may not exist while it is on.
#[tokio::test(start_paused = true)]
async fn grants_are_watched_with_the_gate_alone_and_hold_up_nothing() {
    let asked = |scene: &Scene| scene.api.requests().iter().any(|request| request.resource == "referencegrants");
    assert!(!asked(&scene(false).await));

    let scene = without_the_kind().await;
    let uid = scene.add_claim(claim("data", "fast"));
    scene.volume(&format!("pvc-{uid}")).await;
    assert!(asked(&scene));
}

/// As at each start: the grants come last.
#[tokio::test(start_paused = true)]
async fn l13_a_claim_with_a_grant_is_told_nothing_while_the_grants_are_not_listed() {
    let scene = Scene::configured(
        |settings| settings.flags.cross_namespace_gate = true,
        fills,
        |api| {
            add_grant(api, "", "PersistentVolumeClaim", &json!({}));
            let grants = fake_apiserver::Matcher::of("list", "referencegrants").once();
            api.react(grants, fake_apiserver::Reaction::DelayAnswer(Duration::from_secs(5)));
        },
    )
    .await;
    scene.add_class(class("fast", json!({})));
    add_source(&scene.api, &json!({}), &json!({}));
    let uid = scene.add_claim(from_shop("bakery", claim_in(json!("shop"))));
    scene.volume(&format!("pvc-{uid}")).await;
    assert_eq!(scene.events("ProvisioningFailed"), [""; 0]);
    let failed = "controller_persistentvolumeclaim_provision_failed_total";
    assert_eq!(super::counting::counted(&scene, failed, r#"class="fast",source="""#), 0);
}

#[tokio::test(start_paused = true)]
async fn l13_grants_that_cannot_be_listed_are_told_after_a_minute() {
    let scene = without_the_kind().await;
    scene.add_claim(from_shop("bakery", claim_in(json!("shop"))));
    let before = tokio::time::Instant::now();
    assert!(scene.event("ProvisioningFailed").await.contains("ReferenceGrants cannot be listed"));
    assert!(before.elapsed() <= Duration::from_secs(61), "{:?}", before.elapsed());
}
