//! Snapshots that an earlier process has left protected.

use std::time::Duration;

use csi_proto::csi::v1::controller_service_capability::rpc::Type as ControllerRpc;
use fake_apiserver::{FakeApiServer, Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Value, json};
use storage_kube::wire::{VolumeSnapshot, VolumeSnapshotContent};
use tonic::Code;

use super::node_deployment::node;
use super::objects::{class, with};
use super::scene::{PATIENCE, Scene, flags};
use super::source_objects::{RESTORING, add_snapshot, add_snapshot_named, fills, restore, snapshot_finalizers};
use crate::settings::ProvisioningFlags;

fn protected() -> Value {
    json!({ "metadata": { "finalizers": ["other", RESTORING] } })
}

fn is_protected(api: &FakeApiServer, name: &str) -> bool {
    snapshot_finalizers(api, name).unwrap().contains(&RESTORING.to_owned())
}

fn lists(scene: &Scene) -> usize {
    scene.api.requests_of(&Matcher::of("list", "volumesnapshots")).len()
}

/// The rows of the sweep's own table. The class of the claims is missing, so that nothing is decided about them.
#[tokio::test(start_paused = true)]
async fn a_snapshot_is_released_unless_a_restore_waits() {
    let bound = json!({ "spec": { "volumeName": "pv-data" }, "status": { "phase": "Bound" } });
    let source = |change: Value| json!({ "spec": { "dataSource": change, "dataSourceRef": null } });
    let by_reference = json!({ "spec": { "dataSource": null } });
    let away = json!({ "metadata": { "namespace": "bakery" } });
    let away_by_name = json!({
        "metadata": { "namespace": "bakery" },
        "spec": { "dataSource": null, "dataSourceRef": { "namespace": "shop" } },
    });
    let cases = [
        ("no claim", None, false),
        ("bound claim", Some(bound), false),
        ("Pending claim by dataSource", Some(json!({})), true),
        ("Pending claim by dataSourceRef", Some(by_reference), true),
        ("Pending claim of another group", Some(source(json!({ "apiGroup": "example.com" }))), false),
        ("Pending claim of another kind", Some(source(json!({ "kind": "PersistentVolumeClaim" }))), false),
        ("Pending claim of another snapshot", Some(source(json!({ "name": "tuesday" }))), false),
        ("Pending claim of another namespace", Some(away), false),
        ("Pending claim of another namespace, by its name", Some(away_by_name), true),
    ];
    assert_eq!(cases.len(), 9);
    for (case, change, kept) in cases {
        let scene = Scene::configured(
            |_| (),
            fills,
            |api| {
                add_snapshot(api, &protected(), &json!({}));
                if let Some(change) = change {
                    api.create_json::<PersistentVolumeClaim>(with(restore("data", "monday"), &change));
                }
            },
        )
        .await;
        scene.pass(Duration::from_mins(1)).await;
        assert_eq!(is_protected(&scene.api, "monday"), kept, "{case}");
        assert!(snapshot_finalizers(&scene.api, "monday").unwrap().contains(&"other".to_owned()), "{case}");
    }
}

/// The finalizer's name is every provisioner's; a snapshot is whose content says so.
#[tokio::test(start_paused = true)]
async fn only_snapshots_of_the_own_driver_are_released() {
    let scene = Scene::configured(
        |_| (),
        fills,
        |api| {
            add_snapshot_named(api, "ours", &protected(), &json!({}));
            add_snapshot_named(api, "theirs", &protected(), &json!({ "spec": { "driver": "other.example.com" } }));
            add_snapshot_named(api, "untouched", &json!({ "metadata": { "finalizers": ["other"] } }), &json!({}));
            add_snapshot_named(api, "lost", &protected(), &json!({}));
            api.delete::<VolumeSnapshotContent>(None, "content-lost");
            let before =
                json!({ "spec": { "source": { "volumeSnapshotContentName": "content-unbound" } }, "status": null });
            add_snapshot_named(
                api,
                "unbound",
                &with(protected(), &before),
                &json!({ "spec": { "driver": "other.example.com" } }),
            );
        },
    )
    .await;
    scene.pass(Duration::from_hours(1)).await;
    assert!(!is_protected(&scene.api, "ours"));
    assert!(is_protected(&scene.api, "theirs"));
    assert!(!is_protected(&scene.api, "lost"), "there is nothing to protect any more");
    assert!(is_protected(&scene.api, "unbound"), "its content is another driver's");
    let changed = scene.api.requests_of(&Matcher::of("update", "volumesnapshots"));
    assert_eq!(changed.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_sweep_runs_at_once_and_then_each_interval() {
    let scene = Scene::with(flags(), fills).await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(lists(&scene), 1);
    scene.pass(Duration::from_mins(12)).await;
    assert_eq!(lists(&scene), 3);
}

#[tokio::test(start_paused = true)]
async fn without_interval_or_capability_nothing_is_listed() {
    let off = Scene::with(ProvisioningFlags { snapshot_sweep: None, ..flags() }, fills).await;
    off.pass(Duration::from_hours(1)).await;
    assert_eq!(lists(&off), 0);
    let incapable = Scene::with(flags(), |driver| {
        fills(driver);
        driver.controller_capabilities.retain(|one| *one != ControllerRpc::CreateDeleteSnapshot);
    })
    .await;
    incapable.pass(Duration::from_hours(1)).await;
    assert_eq!(lists(&incapable), 0);
}

/// Neither holds up the work, and a right that is granted later needs no restart.
#[tokio::test(start_paused = true)]
async fn a_refused_list_costs_one_request_an_interval() {
    let refusals = [
        Status::forbidden("volumesnapshots is forbidden"),
        Status::new(404, "NotFound", "the server could not find the requested resource"),
    ];
    assert_eq!(refusals.len(), 2);
    for refusal in refusals {
        let scene = Scene::configured(
            |_| (),
            fills,
            |api| {
                api.react(Matcher::of("list", "volumesnapshots"), Reaction::Refuse(refusal));
                add_snapshot(api, &protected(), &json!({}));
            },
        )
        .await;
        scene.pass(Duration::from_mins(14)).await;
        assert_eq!(lists(&scene), 3);
        assert!(is_protected(&scene.api, "monday"));
        scene.api.clear_reactions();
        scene.pass(Duration::from_mins(6)).await;
        assert!(!is_protected(&scene.api, "monday"));
    }
}

#[tokio::test(start_paused = true)]
async fn many_snapshots_are_looked_at_in_pages() {
    let scene = Scene::configured(
        |_| (),
        fills,
        |api| {
            for number in 0..600 {
                let change = if number % 100 == 0 { protected() } else { json!({}) };
                add_snapshot_named(api, &format!("s-{number}"), &change, &json!({}));
            }
        },
    )
    .await;
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(lists(&scene), 3);
    let all = scene.api.requests_of(&Matcher::of("list", "volumesnapshots"));
    assert!(all.iter().all(|request| request.query.contains("limit=250")));
    assert!((0..6).all(|number| !is_protected(&scene.api, &format!("s-{}", number * 100))));
    let read = scene.api.requests_of(&Matcher::of("get", "volumesnapshots"));
    assert_eq!(read.len(), 6, "the others are not read");
}

/// A restore of an earlier process: held until the driver has answered for good.
#[tokio::test(start_paused = true)]
async fn a_snapshot_of_an_interrupted_restore_is_released_after_its_final_answer() {
    let scene = Scene::configured(
        |_| (),
        fills,
        |api| {
            add_snapshot(api, &protected(), &json!({}));
            api.delete::<VolumeSnapshot>("shop", "monday");
            api.create_json::<PersistentVolumeClaim>(restore("data", "monday"));
        },
    )
    .await;
    scene.driver.script_always(Rpc::CreateVolume, || Step::fail(Code::Aborted, "pending"));
    scene.add_class(class("fast", json!({})));
    scene.pass(Duration::from_hours(1)).await;
    assert!(is_protected(&scene.api, "monday"), "the restore is in flight");
    scene.driver.script_always(Rpc::CreateVolume, || Step::fail(Code::Internal, "broken"));
    scene.api.until("the release", PATIENCE, |api| (!is_protected(api, "monday")).then_some(())).await;
    scene.pass(Duration::from_hours(1)).await;
    assert!(!is_protected(&scene.api, "monday"), "nor can it be put on again");
}

/// A thousand nodes begin together.
#[tokio::test(start_paused = true)]
async fn m5_the_processes_of_nodes_sweep_seldom_and_each_at_a_time_of_its_own() {
    let period = Duration::from_mins(5);
    let mut at_once = 0;
    for _ in 0..8 {
        let configure = |settings: &mut crate::settings::Settings| {
            settings.node = Some(node("foo"));
            settings.flags.snapshot_sweep = Some(period);
        };
        let scene = Scene::configured(configure, fills, |api| add_snapshot(api, &protected(), &json!({}))).await;
        scene.pass(period).await;
        at_once += lists(&scene);
        scene.pass(11 * period).await;
        assert_eq!(lists(&scene), 1, "in the first twelve periods");
        assert!(!is_protected(&scene.api, "monday"));
        scene.pass(12 * period).await;
        assert_eq!(lists(&scene), 2);
    }
    assert!(at_once < 6, "{at_once} of 8 in the first period");
}
