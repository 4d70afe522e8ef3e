//! What goes wrong for people, by the id of the report.

use std::time::Duration;

use csi_proto::csi::v1::GetCapacityRequest;
use fake_apiserver::{FakeApiServer, Matcher};
use fake_driver::Rpc;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use serde_json::json;
use tokio::time::Instant;

use super::super::objects::{DRIVER, claim, class};
use super::super::scene::Scene;
use super::pool::{GIB, POLL, Pool, add_class, add_zone, flags, late, scene, told, until};
use crate::capacity::budget::WriteLimit;
use crate::settings::CapacityFlags;

/// So many segments and two classes, with a driver that takes 50 ms for each answer.
async fn large(segments: usize, flags: CapacityFlags, pool: &Pool) -> Scene {
    pool.set_takes(Duration::from_millis(50));
    scene(flags, pool, |api| {
        add_class(api, late("fast", 1));
        add_class(api, late("slow", 2));
        (0..segments).for_each(|n| add_zone(api, &format!("z{n:04}")));
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn b2_all_objects_of_2000_segments_are_there_within_two_polls_and_new_segments_come_first() {
    let pool = Pool::default();
    let began = Instant::now();
    let scene = large(2_000, flags(), &pool).await;
    scene.pass(Duration::from_millis(1)).await;
    let objects = || scene.term().capacity.as_ref().unwrap().objects.len();
    while objects() < 4_000 {
        assert!(began.elapsed() < 2 * POLL, "{} objects after two polls", objects());
        scene.pass(Duration::from_secs(1)).await;
    }
    let capacity = scene.process.capacity.as_ref().unwrap().metrics.at_work().unwrap();
    while capacity.queue.len() < 3_000 {
        scene.pass(Duration::from_millis(500)).await;
        assert!(began.elapsed() < 4 * POLL, "the next round does not begin");
    }
    add_zone(&scene.api, "new");
    scene.pass(Duration::from_secs(3)).await;
    assert_eq!(objects(), 4_002, "new segments wait for nobody");
    assert!(capacity.queue.len() > 1_000, "the others wait");
    assert!(scene.writes().iter().all(|write| write == "create csistoragecapacities"));
}

#[tokio::test(start_paused = true)]
async fn b2_a_round_that_takes_longer_than_the_interval_adds_nothing_that_waits() {
    let pool = Pool::default();
    let slow = CapacityFlags { threads: Some(1), poll_interval: Duration::from_secs(2), ..flags() };
    let scene = large(50, slow, &pool).await;
    for _ in 0..30 {
        scene.pass(Duration::from_secs(2)).await;
        let capacity = scene.process.capacity.as_ref().unwrap().metrics.at_work().unwrap();
        assert!(capacity.queue.len() <= 100, "{} wait", capacity.queue.len());
        assert!(scene.driver.running(Rpc::GetCapacity) <= 1);
    }
    // 60 s of one call at a time, in turn.
    let mut counts = std::collections::HashMap::new();
    for request in scene.driver.requests::<GetCapacityRequest>() {
        let key = (request.accessible_topology.unwrap().segments["zone"].clone(), request.parameters["times"].clone());
        *counts.entry(key).or_insert(0) += 1;
    }
    let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
    assert!(counts.len() == 100 && 4 * least >= 3 * most, "nothing starves: {least} to {most}");
}

#[tokio::test(start_paused = true)]
async fn b3_writes_have_a_limit_of_their_own_and_nothing_is_written_that_has_not_changed() {
    let pool = Pool::default();
    let few = RequestFlags { qps: 2.0, burst: 3 };
    let limited =
        CapacityFlags { write_limit: WriteLimit::of_flags(Some(few.qps), Some(few.burst)).unwrap(), ..flags() };
    let scene = large(20, limited, &pool).await;
    add_class(&scene.api, class("now", json!({})));
    scene.pass(Duration::from_secs(5)).await;
    let written = scene.writes().len();
    assert!((8..=14).contains(&written), "{written} writes in 5 s");
    // A volume does not wait for them.
    let uid = scene.add_claim(claim("data", "now"));
    let before = Instant::now();
    scene.volume(&format!("pvc-{uid}")).await;
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    scene.pass(Duration::from_mins(1)).await;
    let count = || scene.writes().iter().filter(|write| write.ends_with("csistoragecapacities")).count();
    assert_eq!(count(), 40);
    scene.pass(10 * POLL).await;
    assert_eq!(count(), 40, "ten rounds in which nothing has changed");
    // Of what changes faster than it may be written, the last is.
    for step in 1..=10 {
        pool.set("z0000", step * GIB);
        scene.pass(Duration::from_secs(1)).await;
    }
    scene.pass(2 * POLL).await;
    assert!(told(&scene.api).contains(&"fast z0000 10Gi".to_owned()));
    assert!(count() <= 44, "{}", count());
}

struct RequestFlags {
    qps: f64,
    burst: i64,
}

#[tokio::test(start_paused = true)]
async fn b5_a_driver_that_registers_after_the_start_gets_its_objects() {
    let scene = scene(flags(), &Pool::default(), |api| {
        add_class(api, class("a-binds-at-once", json!({})));
        add_class(api, late("b-binds-late", 1));
        api.create_json::<Node>(json!({ "metadata": { "name": "n1", "labels": { "zone": "a" } } }));
    })
    .await;
    scene.pass(3 * POLL).await;
    assert_eq!(told(&scene.api), [""; 0]);
    api_registers(&scene.api, "n1");
    until(&scene, &["b-binds-late a 1Gi"]).await;
    scene.api.merge::<Node>(None, "n1", &json!({ "metadata": { "labels": { "zone": "b" } } }));
    until(&scene, &["b-binds-late b 1Gi"]).await;
    add_class(&scene.api, late("c-binds-late", 2));
    until(&scene, &["b-binds-late b 1Gi", "c-binds-late b 2Gi"]).await;
}

fn api_registers(api: &FakeApiServer, node: &str) {
    let driver = json!({ "name": DRIVER, "nodeID": node, "topologyKeys": ["zone"] });
    api.create_json::<CSINode>(json!({ "metadata": { "name": node }, "spec": { "drivers": [driver] } }));
}

#[tokio::test(start_paused = true)]
async fn b7_an_api_server_without_the_api_is_asked_once_and_volumes_are_made() {
    let scene = scene(flags(), &Pool::default(), |api| {
        api.serve("storage.k8s.io", "v1", "csistoragecapacities", false);
        add_zone(api, "a");
        add_class(api, late("late", 1));
        add_class(api, class("now", json!({})));
    })
    .await;
    let uid = scene.add_claim(claim("data", "now"));
    scene.volume(&format!("pvc-{uid}")).await;
    assert!(scene.term().capacity.is_none());
    scene.pass(10 * POLL).await;
    assert_eq!(scene.api.requests_of(&Matcher::any().resource("csistoragecapacities")).len(), 0);
    assert_eq!(scene.count(Rpc::GetCapacity), 0);
}

#[tokio::test(start_paused = true)]
async fn b7_an_api_server_with_the_beta_alone_gets_objects_there() {
    let scene = scene(flags(), &Pool::default(), |api| {
        api.serve("storage.k8s.io", "v1", "csistoragecapacities", false);
        api.serve("storage.k8s.io", "v1beta1", "csistoragecapacities", true);
        add_zone(api, "a");
        add_class(api, late("late", 1));
    })
    .await;
    scene.pass(Duration::from_secs(10)).await;
    let created = scene.api.requests_of(&Matcher::of("create", "csistoragecapacities"));
    let [created] = created.as_slice() else { panic!("{created:?}") };
    assert_eq!(created.body["apiVersion"], "storage.k8s.io/v1beta1");
    assert_eq!(created.body["nodeTopology"], json!({ "matchLabels": { "zone": "a" } }));
    scene.pass(3 * POLL).await;
    assert_eq!(scene.writes().len(), 1, "the watch is there too");
}

/// The API server is upgraded while the provisioner runs, and leadership is lost and won again.
#[tokio::test(start_paused = true)]
async fn k3_each_term_publishes_in_the_version_that_the_api_server_has_by_then() {
    let scene = scene(flags(), &Pool::default(), |api| {
        api.serve("storage.k8s.io", "v1", "csistoragecapacities", false);
        add_zone(api, "a");
        add_class(api, late("late", 1));
    })
    .await;
    scene.pass(Duration::from_secs(10)).await;
    assert_eq!(scene.writes(), [""; 0], "there is no version at all");

    scene.begin_stop();
    for version in ["v1beta1", "v1"] {
        for other in ["v1", "v1beta1"] {
            scene.api.serve("storage.k8s.io", other, "csistoragecapacities", other == version);
        }
        add_class(&scene.api, late(version, 1));
        scene.api.clear_requests();
        let stop = scene.lead_again();
        scene.pass(Duration::from_secs(10)).await;
        let created = scene.api.requests_of(&Matcher::of("create", "csistoragecapacities"));
        let ours = created.iter().find(|request| request.body["storageClassName"] == version).unwrap();
        assert_eq!(ours.body["apiVersion"], format!("storage.k8s.io/{version}"));
        stop.cancel();
        scene.pass(Duration::from_secs(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn b7_a_version_is_found_without_a_write_that_must_fail() {
    let scene = scene(flags(), &Pool::default(), |_| ()).await;
    scene.pass(3 * POLL).await;
    assert_eq!(scene.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn b7_a_maximum_that_changes_alone_is_written_and_a_new_volume_is_no_poll_later() {
    let pool = Pool::default();
    let scene = scene(flags(), &pool, |api| {
        add_zone(api, "a");
        add_class(api, late("late", 1));
    })
    .await;
    until(&scene, &["late a 1Gi"]).await;
    pool.set_maximum(Some(GIB / 2));
    scene.pass(POLL + Duration::from_secs(1)).await;
    assert_eq!(told(&scene.api), ["late a 1Gi/512Mi"]);
}
