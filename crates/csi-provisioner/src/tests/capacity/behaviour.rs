//! Under faults, at the end of a term, on one node.

use std::time::Duration;

use csi_proto::csi::v1::GetCapacityRequest;
use fake_apiserver::{FakeApiServer, Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::storage::v1::CSIStorageCapacity;
use serde_json::{Value, json};
use storage_kube::names::NodeName;
use tokio::time::Instant;
use tonic::Code;

use super::super::objects::{class, with};
use super::super::scene::Scene;
use super::pool::{
    GIB, NAMESPACE, POLL, Pool, add_class, add_node, add_object, add_pod, add_zone, all, flags, gauges, late, object,
    owner, scene, told, until,
};
use crate::settings::NodeFlags;

async fn with_one(pool: &Pool) -> Scene {
    scene(flags(), pool, |api| {
        add_zone(api, "z1");
        add_class(api, late("fast", 1));
    })
    .await
}

fn writes(scene: &Scene, verb: &str) -> usize {
    scene.writes().iter().filter(|write| **write == format!("{verb} csistoragecapacities")).count()
}

#[tokio::test(start_paused = true)]
async fn the_request_and_the_object_in_full() {
    let scene = scene(flags(), &Pool::default(), |api| {
        add_zone(api, "z1");
        let parameters = json!({ "times": "3", "csi.storage.k8s.io/fstype": "xfs" });
        add_class(api, with(class("fast", parameters), &json!({ "volumeBindingMode": "WaitForFirstConsumer" })));
    })
    .await;
    until(&scene, &["fast z1 3Gi"]).await;
    let [request] = &scene.driver.requests::<GetCapacityRequest>()[..] else { panic!("one call") };
    assert!(request.volume_capabilities.is_empty());
    assert_eq!(request.parameters["csi.storage.k8s.io/fstype"], "xfs", "drivers may read the reserved keys");
    assert_eq!(request.accessible_topology.as_ref().unwrap().segments["zone"], "z1");
    let [created] = &scene.api.requests_of(&Matcher::of("create", "csistoragecapacities"))[..] else {
        panic!("one object")
    };
    assert_eq!(created.namespace, NAMESPACE);
    assert_eq!(
        created.body,
        json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {
                "generateName": "csisc-",
                "namespace": NAMESPACE,
                "labels": {
                    "csi.storage.k8s.io/drivername": "fake.csi.example.com",
                    "csi.storage.k8s.io/managed-by": "external-provisioner",
                },
                "ownerReferences": [owner()],
            },
            "storageClassName": "fast",
            "nodeTopology": { "matchLabels": { "zone": "z1" } },
            "capacity": "3Gi",
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_carries_what_changes_and_leaves_the_rest_to_others() {
    let pool = Pool::default();
    let scene = scene(flags(), &pool, |api| {
        add_zone(api, "z1");
        add_class(api, late("fast", 1));
        let theirs = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "u" });
        let change = json!({ "metadata": { "ownerReferences": [theirs], "annotations": { "note": "theirs" } } });
        add_object(api, with(object("a", "fast", "z1", "7Gi"), &change));
    })
    .await;
    until(&scene, &["fast z1 1Gi"]).await;
    let found = &all(&scene.api)[0].metadata;
    assert_eq!(found.annotations.as_ref().unwrap()["note"], "theirs");
    let owners: Vec<_> = found.owner_references.iter().flatten().map(|one| one.name.as_str()).collect();
    assert_eq!(owners, ["theirs", "provisioner"]);
    pool.set("z1", 2 * GIB);
    until(&scene, &["fast z1 2Gi"]).await;
    let patches = scene.api.requests_of(&Matcher::of("patch", "csistoragecapacities"));
    let uid = found.uid.as_deref();
    assert_eq!(
        patches.last().unwrap().body,
        json!({ "metadata": { "uid": uid }, "capacity": "2Gi", "maximumVolumeSize": null })
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_too_little_to_be_published() {
    let pool = Pool::default();
    pool.set("z1", 0);
    let scene = with_one(&pool).await;
    until(&scene, &["fast z1 0"]).await;
    scene.pass(3 * POLL).await;
    assert_eq!(scene.writes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_counts_follow_the_work() {
    let scene = scene(flags(), &Pool::default(), |api| {
        add_zone(api, "z1");
        add_class(api, late("fast", 1));
        add_object(api, object("a", "gone", "z1", "1Gi"));
        api.react(Matcher::any().verb("create"), Reaction::Refuse(Status::internal_error("not now")));
        api.react(Matcher::any().verb("delete"), Reaction::Refuse(Status::internal_error("not now")));
    })
    .await;
    scene.pass(Duration::from_secs(2)).await;
    assert_eq!(gauges(&scene), [1, 0, 1]);
    scene.api.clear_reactions();
    scene.pass(Duration::from_secs(10)).await;
    assert_eq!(gauges(&scene), [1, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_one_object() {
    let scene = scene(flags(), &Pool::default(), |api| {
        add_zone(api, "z1");
        add_class(api, late("fast", 1));
        api.react(Matcher::of("create", "csistoragecapacities").times(1), Reaction::LoseAnswer);
    })
    .await;
    scene.pass(Duration::from_secs(30)).await;
    assert_eq!((told(&scene.api), writes(&scene, "create")), (vec!["fast z1 1Gi".to_owned()], 1));
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_stands_still_makes_no_second_object() {
    let pool = Pool::default();
    let scene = with_one(&pool).await;
    until(&scene, &["fast z1 1Gi"]).await;
    scene.pass(Duration::from_secs(1)).await;
    // From here on the watch shows nothing.
    scene.api.react(Matcher::any().resource("csistoragecapacities").verb("watch"), Reaction::Hang);
    scene.api.react(Matcher::any().resource("csistoragecapacities").verb("list"), Reaction::Hang);
    scene.api.break_watches();
    add_zone(&scene.api, "z2");
    for size in 1..=5 {
        pool.set("z2", size * GIB);
        scene.pass(POLL).await;
    }
    assert_eq!(told(&scene.api), ["fast z1 1Gi", "fast z2 5Gi"]);
    assert_eq!(writes(&scene, "create"), 2);
    // Deleted in a moment in which nobody watches: found out by asking.
    let second = all(&scene.api).into_iter().find(|one| one.capacity.as_ref().unwrap().0 == "5Gi").unwrap();
    scene.api.remove::<CSIStorageCapacity>(NAMESPACE, &second.metadata.name.unwrap());
    scene.pass(3 * POLL).await;
    assert_eq!(told(&scene.api), ["fast z1 1Gi", "fast z2 5Gi"]);
}

/// The code is that of an object made anew under the name, but names are generated.
#[tokio::test(start_paused = true)]
async fn k8_a_change_that_a_webhook_refuses_with_a_conflict_makes_no_second_object() {
    let pool = Pool::default();
    let scene = with_one(&pool).await;
    until(&scene, &["fast z1 1Gi"]).await;
    scene.pass(Duration::from_secs(1)).await;
    // From here on the watch shows nothing.
    scene.api.react(Matcher::any().resource("csistoragecapacities").verb("watch"), Reaction::Hang);
    scene.api.react(Matcher::any().resource("csistoragecapacities").verb("list"), Reaction::Hang);
    scene.api.break_watches();
    add_zone(&scene.api, "z2");
    scene.pass(Duration::from_secs(1)).await;
    let refused = Status::new(409, "Conflict", "admission webhook \"quota.example.com\" denied the request");
    scene.api.react(Matcher::of("patch", "csistoragecapacities").times(3), Reaction::Refuse(refused));
    pool.set("z2", 2 * GIB);
    scene.pass(2 * POLL).await;
    assert_eq!(told(&scene.api), ["fast z1 1Gi", "fast z2 2Gi"]);
    assert_eq!((writes(&scene, "create"), writes(&scene, "patch")), (2, 4));
}

#[tokio::test(start_paused = true)]
async fn own_writes_do_not_ask_the_driver_again() {
    let pool = Pool::default();
    let scene = with_one(&pool).await;
    until(&scene, &["fast z1 1Gi"]).await;
    scene.pass(Duration::from_secs(5)).await;
    assert_eq!(scene.count(Rpc::GetCapacity), 1);
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_fails_is_asked_again_and_nothing_is_taken_away() {
    let pool = Pool::default();
    let scene = with_one(&pool).await;
    until(&scene, &["fast z1 1Gi"]).await;
    scene.driver.script_always(Rpc::GetCapacity, || Step::fail(Code::Internal, "disk gone"));
    scene.pass(30 * POLL).await;
    assert_eq!(told(&scene.api), ["fast z1 1Gi"]);
    let calls = scene.count(Rpc::GetCapacity);
    assert!((25..=45).contains(&calls), "{calls} in 30 min");
    pool.set("z1", 2 * GIB);
    pool.serve(&scene.driver);
    scene.pass(POLL + Duration::from_secs(1)).await;
    assert_eq!(told(&scene.api), ["fast z1 2Gi"]);
}

#[tokio::test(start_paused = true)]
async fn a_segment_that_goes_while_the_driver_is_asked_gets_no_object() {
    let pool = Pool::default();
    pool.set_takes(Duration::from_secs(5));
    let scene = with_one(&pool).await;
    scene.driver.wait_for_calls(Rpc::GetCapacity, 1).await;
    super::pool::remove_zone(&scene.api, "z1");
    scene.pass(Duration::from_secs(30)).await;
    assert_eq!(scene.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_end_waits_for_no_call_and_no_turn_to_write() {
    let pool = Pool::default();
    pool.set_takes(Duration::from_secs(9));
    let scene = with_one(&pool).await;
    scene.driver.wait_for_calls(Rpc::GetCapacity, 1).await;
    let before = Instant::now();
    let (api, driver) = scene.stop().await;
    assert!(before.elapsed() < Duration::from_secs(2), "{:?}", before.elapsed());
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(driver.calls_of(Rpc::GetCapacity).len(), 1);
    assert!(all(&api).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_holds_up_no_volume() {
    let scene = scene(flags(), &Pool::default(), |api| {
        let refused = Reaction::Refuse(Status::forbidden("csistoragecapacities"));
        api.react(Matcher::any().resource("csistoragecapacities"), refused);
        add_class(api, class("now", json!({})));
    })
    .await;
    let uid = scene.add_claim(super::super::objects::claim("data", "now"));
    scene.volume(&format!("pvc-{uid}")).await;
}

/// A scene of the provisioner of the node n1.
async fn of_node(pool: &Pool, prepare: impl FnOnce(&FakeApiServer)) -> Scene {
    Scene::arranged(
        |settings| {
            settings.capacity = Some(flags());
            settings.node = Some(NodeFlags {
                place: None,
                name: NodeName::from("n1"),
                immediate_binding: true,
                base_delay: Duration::from_secs(20),
                max_delay: Duration::from_mins(1),
            });
        },
        |api, driver| {
            add_pod(api);
            pool.serve(driver);
            add_class(api, late("fast", 1));
            prepare(api);
        },
    )
    .await
}

fn of_the_node(name: &str) -> Value {
    let by = json!({ "csi.storage.k8s.io/managed-by": format!("external-provisioner-{name}") });
    with(object(name, "fast", name, "1Gi"), &json!({ "metadata": { "labels": by } }))
}

#[tokio::test(start_paused = true)]
async fn m2_objects_of_a_node_that_is_gone_are_deleted_by_another_node() {
    let pool = Pool::default();
    let another_driver = json!({ "metadata": { "labels": { "csi.storage.k8s.io/drivername": "another" } } });
    let scene = of_node(&pool, |api| {
        for node in ["n1", "there"] {
            add_node(api, node, &json!({}));
        }
        for node in ["there", "gone"] {
            add_object(api, of_the_node(node));
        }
        add_object(api, with(of_the_node("of-another-driver"), &another_driver));
        add_object(api, object("of-the-cluster", "fast", "z9", "1Gi"));
    })
    .await;
    let others = ["fast of-another-driver 1Gi", "fast there 1Gi", "fast z9 1Gi"];
    until(&scene, &["fast gone 1Gi", "fast n1 1Gi", others[0], others[1], others[2]]).await;
    scene.pass(Duration::from_hours(1)).await;
    until(&scene, &["fast n1 1Gi", others[0], others[1], others[2]]).await;
    scene.pass(Duration::from_hours(2)).await;
    assert_eq!(scene.writes(), ["create csistoragecapacities", "delete csistoragecapacities"]);
    assert_eq!(scene.api.requests_of(&Matcher::of("list", "nodes")).len(), 3, "once an hour");
}

#[tokio::test(start_paused = true)]
async fn m2_nothing_is_deleted_where_nodes_may_not_be_listed() {
    let scene = of_node(&Pool::default(), |api| {
        add_object(api, of_the_node("gone"));
        api.react(Matcher::of("list", "nodes"), Reaction::Refuse(Status::forbidden("nodes")));
    })
    .await;
    scene.pass(Duration::from_hours(2)).await;
    assert_eq!(told(&scene.api), ["fast gone 1Gi", "fast n1 1Gi"]);
}

/// The provisioner of one node has one segment, and objects that bear the node's name.
#[tokio::test(start_paused = true)]
async fn a_provisioner_of_one_node_knows_one_segment_and_its_own_objects() {
    let pool = Pool::default();
    let scene = of_node(&pool, |api| {
        add_zone(api, "z1");
        add_object(api, object("central", "fast", "z9", "1Gi"));
    })
    .await;
    until(&scene, &["fast n1 1Gi", "fast z9 1Gi"]).await;
    let [created] = &scene.api.requests_of(&Matcher::of("create", "csistoragecapacities"))[..] else {
        panic!("one object")
    };
    let managed_by = &created.body["metadata"]["labels"]["csi.storage.k8s.io/managed-by"];
    assert_eq!(managed_by, "external-provisioner-n1");
    scene.pass(3 * POLL).await;
    assert_eq!(scene.writes().len(), 1);
}
