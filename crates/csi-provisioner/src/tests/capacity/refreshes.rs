//! When the driver is asked again. The table of refreshes: by class all its segments, by segment exactly that one in all
//! classes, what is not known nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use csi_proto::csi::v1::GetCapacityRequest;
use csi_proto::csi::v1::plugin_capability::service::Type as PluginService;
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Value, json};
use storage_kube::names::ClassName;
use storage_kube::topology::Segment;
use tonic::Code;

use super::super::objects::{claim, volume, with};
use super::super::scene::Scene;
use super::pool::{POLL, Pool, add_class, add_pod, add_zone, flags, late, scene};
use crate::settings::CapacityFlags;

/// Two classes in two zones, all asked for once; the next poll is days away.
async fn start() -> Scene {
    let scene = scene(CapacityFlags { poll_interval: 10_000 * POLL, ..flags() }, &Pool::default(), |api| {
        add_zone(api, "a");
        add_zone(api, "b");
        add_class(api, late("fast", 1));
        add_class(api, late("slow", 2));
    })
    .await;
    scene.pass(Duration::from_secs(30)).await;
    assert_eq!(asked(&scene), ["1 a", "1 b", "2 a", "2 b"]);
    scene
}

/// `times zone` of all calls, sorted.
fn asked(scene: &Scene) -> Vec<String> {
    let mut all: Vec<_> = scene
        .driver
        .requests::<GetCapacityRequest>()
        .iter()
        .map(|request| {
            let zone = &request.accessible_topology.as_ref().unwrap().segments["zone"];
            format!("{} {zone}", request.parameters["times"])
        })
        .collect();
    all.sort();
    all
}

/// What was asked for beyond the first round.
async fn asked_again(scene: &Scene) -> Vec<String> {
    scene.pass(Duration::from_secs(10)).await;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for one in asked(scene) {
        *counts.entry(one).or_default() += 1;
    }
    counts.into_iter().flat_map(|(one, count)| vec![one; count - 1]).collect()
}

#[tokio::test(start_paused = true)]
async fn every_refresh_asks_for_what_it_is_about() {
    type Refresh = fn(&crate::capacity::Capacity);
    let cases: [(&str, Refresh, &[&str]); 5] = [
        ("a class", |capacity| capacity.refresh_class(&ClassName::from("slow")), &["2 a", "2 b"]),
        ("a class that is not known", |capacity| capacity.refresh_class(&ClassName::from("none")), &[]),
        ("a segment", |capacity| capacity.refresh_segment(&Segment::from_iter([("zone", "b")])), &["1 b", "2 b"]),
        ("a segment that is not known", |capacity| capacity.refresh_segment(&Segment::from_iter([("zone", "c")])), &[]),
        ("a part of a segment", |capacity| capacity.refresh_segment(&Segment::default()), &[]),
    ];
    assert_eq!(cases.len(), 5);
    for (name, refresh, expected) in cases {
        let scene = start().await;
        let queue = scene.process.capacity.as_ref().unwrap().metrics.at_work().unwrap();
        refresh(&queue);
        assert_eq!(asked_again(&scene).await, expected, "{name}");
    }
}

fn selected(name: &str, class: &str) -> Value {
    let node = json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": "a" } } });
    with(claim(name, class), &node)
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_was_made_without_a_place_refreshes_its_class() {
    let scene = start().await;
    scene.add_claim(selected("data", "fast"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    assert_eq!(asked_again(&scene).await, ["1 a", "1 b"]);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_the_driver_refuses_refreshes_its_class() {
    let scene = start().await;
    scene.driver.script(Rpc::CreateVolume, Step::fail(Code::ResourceExhausted, "full"));
    scene.driver.script_always(Rpc::CreateVolume, Step::hang);
    scene.add_claim(selected("data", "slow"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    assert_eq!(asked_again(&scene).await, ["2 a", "2 b"]);
}

#[tokio::test(start_paused = true)]
async fn claims_that_fail_before_the_driver_is_asked_refresh_nothing() {
    let scene = start().await;
    scene.add_claim(with(selected("data", "fast"), &json!({ "spec": { "accessModes": ["Unknown"] } })));
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
    assert_eq!(asked_again(&scene).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_failures_at_once_are_one_refresh() {
    let scene = start().await;
    scene.driver.script_always(Rpc::CreateVolume, || Step::fail(Code::Internal, "broken"));
    for n in 0..100 {
        scene.add_claim(selected(&format!("data-{n}"), "fast"));
    }
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 100).await;
    for n in 0..100 {
        scene.api.remove::<PersistentVolumeClaim>("shop", &format!("data-{n}"));
    }
    assert_eq!(asked_again(&scene).await, ["1 a", "1 b"]);
}

#[tokio::test(start_paused = true)]
async fn the_place_of_a_reclaimed_volume_is_refreshed_as_the_api_server_tells_it_last() {
    let expression =
        |values: &[&str]| json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": values }] });
    let affinity = |terms: Value| json!({ "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": terms } } } });
    let bare = json!({ "metadata": { "finalizers": null } });
    let cases = [
        ("one place", affinity(json!([expression(&["b"])])), &["1 b", "2 b"][..]),
        ("two places", affinity(json!([expression(&["b"]), expression(&["a"])])), &["1 a", "1 b", "2 a", "2 b"]),
        ("a term of others beside", affinity(json!([expression(&["a", "b"]), expression(&["a"])])), &["1 a", "2 a"]),
        ("no affinity", json!({}), &["1 a", "1 b"]),
        ("nothing is told of an object that goes at once", with(affinity(json!([expression(&["b"])])), &bare), &[]),
    ];
    assert_eq!(cases.len(), 5);
    for (name, change, expected) in cases {
        let scene = start().await;
        scene.add_volume(with(volume("pvc-1", "handle", "Released", "Delete"), &change));
        scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, 1).await;
        assert_eq!(asked_again(&scene).await, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_place_of_a_new_volume_is_refreshed() {
    let pool = Pool::default();
    let scene = Scene::arranged(
        |settings| {
            settings.capacity = Some(CapacityFlags { poll_interval: 10_000 * POLL, ..flags() });
        },
        |api, driver| {
            driver
                .configure(|identity| identity.plugin_capabilities.push(PluginService::VolumeAccessibilityConstraints));
            pool.serve(driver);
            add_pod(api);
            add_zone(api, "a");
            add_zone(api, "b");
            add_class(api, late("fast", 1));
            add_class(api, late("slow", 2));
        },
    )
    .await;
    scene.pass(Duration::from_secs(30)).await;
    scene.add_claim(selected("data", "fast"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    assert_eq!(asked_again(&scene).await, ["1 a", "2 a"]);
}
