//! Calls whose outcome is unknown, failures that go on, and the pace of retries.

use std::time::Duration;

use csi_proto::csi::v1::{CreateVolumeRequest, CreateVolumeResponse, Volume};
use fake_driver::{Call, Rpc, Step};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;
use tonic::Code;

use super::objects::{claim, class, secret, with};
use super::scene::Scene;

/// Whole seconds between the starts of calls.
fn gaps(calls: &[Call]) -> Vec<u64> {
    calls.windows(2).map(|pair| (pair[1].started - pair[0].started + Duration::from_millis(500)).as_secs()).collect()
}

/// The driver finishes the work after the deadline; the user has deleted the claim by then.
#[tokio::test(start_paused = true)]
async fn a2_a_claim_deleted_while_its_create_is_uncertain_leaves_no_volume_behind() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.script(Rpc::CreateVolume, Step::answer().answered_after(Duration::from_mins(1)));
    scene.driver.script(Rpc::CreateVolume, Step::work_then_fail(Code::Aborted, "operation pending"));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    let name = format!("pvc-{uid}");
    let volume = scene.volume(&name).await;
    assert_eq!(volume["spec"]["claimRef"]["uid"], uid.as_str());
    assert_eq!(scene.driver.volumes().len(), 1);
    scene.release(&name);
    scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, 1).await;
    assert!(scene.driver.volumes().is_empty());
    let requests = scene.driver.requests::<CreateVolumeRequest>();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| *request == requests[0]), "every try sends the same request");
}

/// Preconditions may block only the first call.
#[tokio::test(start_paused = true)]
async fn a2_an_uncertain_create_goes_on_when_class_and_secret_are_gone() {
    let scene = Scene::start().await;
    let parameters = json!({
        "csi.storage.k8s.io/provisioner-secret-name": "key",
        "csi.storage.k8s.io/provisioner-secret-namespace": "shop",
    });
    scene.add_class(class("fast", parameters));
    scene.add_secret(secret("shop", "key", "password", "c2VzYW1l"));
    for _ in 0..4 {
        scene.driver.script(Rpc::CreateVolume, Step::work_then_fail(Code::Unavailable, "busy"));
    }
    let uid = scene.add_claim(claim("data", "fast"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.api.delete::<StorageClass>(None, "fast");
    scene.api.delete::<Secret>("shop", "key");
    scene.volume(&format!("pvc-{uid}")).await;
    let requests = scene.driver.requests::<CreateVolumeRequest>();
    assert_eq!(requests.len(), 5);
    assert!(requests.iter().all(|request| request.secrets.contains_key("password")));
}

#[tokio::test(start_paused = true)]
async fn a2_a_final_error_ends_the_retries_of_a_deleted_claim() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.script(Rpc::CreateVolume, Step::fail(Code::DeadlineExceeded, "slow"));
    scene.driver.script(Rpc::CreateVolume, Step::fail(Code::Internal, "broken"));
    scene.add_claim(claim("data", "fast"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 2).await;
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 2);
}

/// A backend that needs three times the deadline.
#[tokio::test(start_paused = true)]
async fn a3_no_delete_volume_is_sent_while_the_claim_wants_the_volume() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    for _ in 0..3 {
        scene.driver.script(Rpc::CreateVolume, Step::hang());
    }
    let uid = scene.add_claim(claim("data", "fast"));
    scene.volume(&format!("pvc-{uid}")).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 4);
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
}

#[tokio::test(start_paused = true)]
async fn a20_a_failing_claim_is_tried_for_ever_with_growing_delay() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.script_always(Rpc::CreateVolume, || Step::fail(Code::Internal, "the backend is on fire"));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.pass(Duration::from_hours(2)).await;
    let calls = scene.driver.calls_of(Rpc::CreateVolume);
    let gaps = gaps(&calls);
    assert_eq!(gaps[..9], [1, 2, 4, 8, 16, 32, 64, 128, 256]);
    assert!(gaps[9..].iter().all(|gap| *gap == 300), "{gaps:?}");
    assert!(gaps.len() > 30, "it never gives up");
    scene.driver.forget_script();
    scene.volume(&format!("pvc-{uid}")).await;
}

/// After the operator's repair the claim need not wait out the rest of five minutes.
#[tokio::test(start_paused = true)]
async fn a20_a_change_of_the_claim_that_matters_ends_the_backoff() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.script_always(Rpc::CreateVolume, || Step::fail(Code::Internal, "no"));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.pass(Duration::from_hours(1)).await;
    scene.driver.forget_script();
    let before = tokio::time::Instant::now();
    let change = json!({ "metadata": { "annotations": { "example.com/tier": "other" } } });
    scene.api.merge::<PersistentVolumeClaim>("shop", "data", &change);
    scene.volume(&format!("pvc-{uid}")).await;
    assert!(before.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn an_update_that_changes_nothing_keeps_the_backoff() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.script_always(Rpc::CreateVolume, || Step::fail(Code::Internal, "no"));
    scene.add_claim(claim("data", "fast"));
    for round in 0..600 {
        let change = json!({ "metadata": { "labels": { "round": round.to_string() } } });
        scene.api.merge::<PersistentVolumeClaim>("shop", "data", &change);
        scene.pass(Duration::from_secs(1)).await;
    }
    let gaps = gaps(&scene.driver.calls_of(Rpc::CreateVolume));
    assert_eq!(gaps[..6], [1, 2, 4, 8, 16, 32], "{gaps:?}");
    assert!(gaps.len() < 12);
}

#[tokio::test(start_paused = true)]
async fn an_infeasible_request_is_repeated_every_five_minutes_or_when_the_class_is_replaced() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({ "size": "wrong" })));
    scene.driver.script_always(Rpc::CreateVolume, || Step::fail(Code::InvalidArgument, "no such size"));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.pass(Duration::from_secs(700)).await;
    assert_eq!(gaps(&scene.driver.calls_of(Rpc::CreateVolume)), [300, 300]);
    assert!(scene.event("ProvisioningFailed").await.contains("infeasible"));
    scene.driver.forget_script();
    scene.api.delete::<StorageClass>(None, "fast");
    let before = tokio::time::Instant::now();
    scene.add_class(class("fast", json!({ "size": "right" })));
    scene.volume(&format!("pvc-{uid}")).await;
    assert!(before.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_is_down_is_waited_for_and_its_claims_are_not_lost() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.stop().await;
    let uid = scene.add_claim(claim("data", "fast"));
    scene.pass(Duration::from_mins(30)).await;
    assert!(scene.event("ProvisioningFailed").await.contains("no connection to the CSI driver"));
    scene.driver.start_again().await;
    scene.volume(&format!("pvc-{uid}")).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 1);
}

/// The driver goes away between two tries: that its socket is closed says nothing about the first one.
#[tokio::test(start_paused = true)]
async fn a2_an_uncertain_create_is_not_forgotten_while_the_driver_is_away() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.script(Rpc::CreateVolume, Step::work_then_fail(Code::Aborted, "operation pending"));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.driver.stop().await;
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    scene.pass(Duration::from_mins(30)).await;
    scene.driver.start_again().await;
    scene.volume(&format!("pvc-{uid}")).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 2);
}

#[tokio::test(start_paused = true)]
async fn a_claim_deleted_before_its_first_call_was_sent_is_not_provisioned() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.stop().await;
    scene.add_claim(claim("data", "fast"));
    scene.event("ProvisioningFailed").await;
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    scene.pass(Duration::from_mins(30)).await;
    scene.driver.start_again().await;
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
}

/// Without topology no failure hands a claim back to the scheduler.
#[tokio::test(start_paused = true)]
async fn the_selected_node_stays_on_the_claim_whatever_fails() {
    let codes = [Code::Internal, Code::ResourceExhausted, Code::DeadlineExceeded, Code::InvalidArgument];
    assert_eq!(codes.len(), 4);
    for code in codes {
        let scene = Scene::start().await;
        scene.add_class(with(class("late", json!({})), &json!({ "volumeBindingMode": "WaitForFirstConsumer" })));
        scene.driver.script_always(Rpc::CreateVolume, move || Step::fail(code, "no"));
        let selected = json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": "n1" } } });
        scene.add_claim(with(claim("data", "late"), &selected));
        scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
        scene.pass(Duration::from_mins(10)).await;
        let claim = scene.api.get_json::<PersistentVolumeClaim>("shop", "data").unwrap();
        assert_eq!(claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"], "n1", "{code:?}");
        assert!(scene.writes().is_empty(), "{code:?}: {:?}", scene.writes());
    }
}

/// An update cannot change a request that is repeated as it is.
#[tokio::test(start_paused = true)]
async fn updates_of_a_claim_in_progress_keep_its_backoff() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.script_always(Rpc::CreateVolume, || Step::fail(Code::Aborted, "operation pending"));
    scene.add_claim(claim("data", "fast"));
    for round in 0..120 {
        let change = json!({ "metadata": { "annotations": { "round": round.to_string() } } });
        scene.api.merge::<PersistentVolumeClaim>("shop", "data", &change);
        scene.pass(Duration::from_secs(1)).await;
    }
    assert!(scene.count(Rpc::CreateVolume) < 12, "{} calls in two minutes", scene.count(Rpc::CreateVolume));
}

/// A volume that came out too small and was deleted again leaves nothing to find out.
#[tokio::test(start_paused = true)]
async fn a_deleted_claim_whose_volumes_come_out_too_small_is_given_up() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.script_always(Rpc::CreateVolume, || {
        Step::respond(|_: &CreateVolumeRequest| {
            let volume = Volume { volume_id: "v".into(), capacity_bytes: 1 << 20, ..Volume::default() };
            Ok(CreateVolumeResponse { volume: Some(volume) })
        })
    });
    scene.add_claim(claim("data", "fast"));
    scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, 1).await;
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    scene.pass(Duration::from_hours(1)).await;
    let before = scene.count(Rpc::CreateVolume);
    scene.pass(Duration::from_hours(10)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), before, "nobody wants this volume");
}
