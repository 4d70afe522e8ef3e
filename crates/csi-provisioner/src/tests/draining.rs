//! The end of a term in good order.

use std::time::Duration;

use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::json;
use tonic::Code;

use super::objects::{claim, class, secret};
use super::scene::Scene;

/// At the end of a pod the driver often goes first: what waits for it has sent nothing and must not hold up the end.
#[tokio::test(start_paused = true)]
async fn a_term_that_drains_does_not_wait_for_a_driver_that_is_gone() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.stop().await;
    scene.add_claim(claim("data", "fast"));
    scene.pass(Duration::from_secs(1)).await;
    let before = tokio::time::Instant::now();
    let _ends = scene.stop().await;
    assert!(before.elapsed() < Duration::from_secs(3), "no call is in flight, yet it took {:?}", before.elapsed());
}

/// A Secret that is still being read when the term drains: its call is new work.
#[tokio::test(start_paused = true)]
async fn a_term_that_drains_starts_no_call_after_reading_a_secret() {
    let scene = Scene::start().await;
    let parameters = json!({
        "csi.storage.k8s.io/provisioner-secret-name": "key",
        "csi.storage.k8s.io/provisioner-secret-namespace": "shop",
    });
    scene.add_class(class("fast", parameters));
    scene.add_secret(secret("shop", "key", "password", "c2VzYW1l"));
    scene.api.react(Matcher::of("get", "secrets").once(), Reaction::DelayAnswer(Duration::from_secs(5)));
    scene.add_claim(claim("data", "fast"));
    scene.pass(Duration::from_secs(1)).await;
    let (_api, driver) = scene.stop().await;
    assert_eq!(driver.calls_of(Rpc::CreateVolume).len(), 0, "nothing is started while draining");
}

#[tokio::test(start_paused = true)]
async fn a_term_that_drains_tries_once_more_to_write_its_volumes() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene
        .api
        .react(Matcher::of("create", "persistentvolumes"), Reaction::Refuse(Status::internal_error("etcd is busy")));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.pass(Duration::from_mins(30)).await;
    scene.api.clear_reactions();
    let (api, _driver) = scene.stop().await;
    assert!(api.get_json::<PersistentVolume>(None, &format!("pvc-{uid}")).is_some());
}

/// The claim is gone, so no other leader will ask what became of the call.
#[tokio::test(start_paused = true)]
async fn sigterm_leaves_no_volume_of_a_deleted_claim_behind() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.script(Rpc::CreateVolume, Step::work_then_fail(Code::Aborted, "operation pending"));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    let (api, driver) = scene.stop().await;
    let known = api.get_json::<PersistentVolume>(None, &format!("pvc-{uid}")).is_some();
    assert!(known || driver.volumes().is_empty(), "a backend volume that no object names");
}

/// The durable record is to close this leak; until then a person can.
#[tokio::test(start_paused = true)]
async fn l8_a_volume_that_is_left_without_object_and_claim_is_told_with_name_and_handle() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene
        .api
        .react(Matcher::of("create", "persistentvolumes"), Reaction::Refuse(Status::internal_error("etcd is busy")));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    scene.pass(Duration::from_secs(1)).await;
    let (api, _driver) = scene.stop().await;
    let name = format!("pvc-{uid}");
    let told = api.list::<k8s_openapi::api::core::v1::Event>().into_iter().filter_map(|event| event.message);
    let told: Vec<_> = told.filter(|text| text.contains("is left at the CSI driver")).collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].contains(&format!("volume {name} with handle handle-1-of-{name} ")), "{told:?}");
}
