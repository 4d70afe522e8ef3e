//! Requests that the driver called infeasible: the slow set of csi-lib-utils, and the pace of the library.

use std::time::Duration;

use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::json;
use storage_kube::names::ClaimUid;
use storage_kube::uid::Uid;
use tokio::time::advance;
use tonic::Code;

use super::objects::{claim as claim_object, class as class_object, with};
use super::scene::Scene;
use crate::claim::infeasible::{Infeasible, SLOW_RETRY};

fn claim(uid: &str) -> ClaimUid {
    ClaimUid(Uid::from(uid))
}

#[tokio::test(start_paused = true)]
async fn a_refusal_noted_again_keeps_its_time() {
    let refusals = Infeasible::new(SLOW_RETRY);
    let (class, minute) = (Uid::from("class"), Duration::from_mins(1));
    refusals.add(claim("a"), class.clone());
    assert_eq!(refusals.remaining(&claim("a"), Some(&class)), Some(SLOW_RETRY));
    advance(minute).await;
    refusals.add(claim("a"), class.clone());
    assert_eq!(refusals.remaining(&claim("a"), Some(&class)), SLOW_RETRY.checked_sub(minute), "what remains decreases");
    assert_eq!(refusals.remaining(&claim("b"), Some(&class)), None, "each claim by itself");
}

#[tokio::test(start_paused = true)]
async fn what_ends_the_wait_of_an_infeasible_claim() {
    let (class, other) = (Uid::from("class"), Uid::from("other"));
    let almost = SLOW_RETRY.checked_sub(Duration::from_millis(1)).unwrap();
    let cases = [
        ("time is not over", almost, Some(&class), false),
        ("time is over", SLOW_RETRY, Some(&class), true),
        ("class replaced", Duration::ZERO, Some(&other), true),
        ("class gone", Duration::ZERO, None, false),
    ];
    assert_eq!(cases.len(), 4);
    for (case, passed, seen, over) in cases {
        let refusals = Infeasible::new(SLOW_RETRY);
        refusals.add(claim("a"), class.clone());
        advance(passed).await;
        assert_eq!(refusals.remaining(&claim("a"), seen).is_none(), over, "{case}");
        let later = refusals.remaining(&claim("a"), Some(&class)).is_none();
        assert_eq!(later, over, "{case}: a wait that is over does not come back");
    }
    let refusals = Infeasible::new(SLOW_RETRY);
    refusals.add(claim("a"), class.clone());
    refusals.forget(&claim("a"));
    assert_eq!(refusals.remaining(&claim("a"), Some(&class)), None, "the claim is gone");
}

/// The library's rows: how many calls there are after two tries' time, and after a claim's refusal is forgotten.
#[tokio::test(start_paused = true)]
async fn how_often_the_driver_is_asked_after_a_refusal() {
    let cases = [
        ("any other final error", Code::Internal, false, 2),
        ("infeasible", Code::InvalidArgument, false, 1),
        ("infeasible, and forgotten since its class is another one", Code::InvalidArgument, true, 2),
    ];
    assert_eq!(cases.len(), 3);
    for (case, code, replaced, calls) in cases {
        let scene = Scene::start().await;
        scene.add_class(class_object("fast", json!({})));
        scene.driver.script_always(Rpc::CreateVolume, move || Step::fail(code, "no"));
        scene.add_claim(claim_object("data", "fast"));
        scene.pass(Duration::from_millis(500)).await;
        if replaced {
            scene.api.delete::<StorageClass>(None, "fast");
            scene.add_class(class_object("fast", json!({})));
        }
        scene.pass(Duration::from_secs(2)).await;
        assert_eq!(scene.count(Rpc::CreateVolume), calls, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn l2_an_infeasible_claim_waits_no_longer_than_the_longest_retry_interval() {
    let class = Uid::from("class");
    for (longest, wait) in [(Duration::from_secs(10), Duration::from_secs(10)), (Duration::from_hours(1), SLOW_RETRY)] {
        let refusals = Infeasible::new(longest);
        refusals.add(claim("a"), class.clone());
        assert_eq!((refusals.remaining(&claim("a"), Some(&class)), refusals.wait()), (Some(wait), wait));
    }
}

/// Refused once, and then asked again at once.
async fn asked_again(scene: &Scene, uid: &str) {
    let before = tokio::time::Instant::now();
    scene.volume(&format!("pvc-{uid}")).await;
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn l2_another_selected_node_ends_the_wait_of_an_infeasible_claim() {
    let scene = Scene::start().await;
    scene.add_class(with(class_object("fast", json!({})), &json!({ "volumeBindingMode": "WaitForFirstConsumer" })));
    scene.driver.script(Rpc::CreateVolume, Step::fail(Code::InvalidArgument, "not on that node"));
    let node = |name: &str| json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": name } } });
    let uid = scene.add_claim(with(claim_object("data", "fast"), &node("n1")));
    scene.pass(Duration::from_secs(10)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 1);
    scene.api.merge::<PersistentVolumeClaim>("shop", "data", &node("n2"));
    asked_again(&scene, &uid).await;
}

#[tokio::test(start_paused = true)]
async fn l2_a_new_connection_to_the_driver_ends_the_wait_of_an_infeasible_claim() {
    let scene = Scene::start().await;
    scene.add_class(class_object("fast", json!({})));
    scene.driver.script(Rpc::CreateVolume, Step::fail(Code::InvalidArgument, "no"));
    let uid = scene.add_claim(claim_object("data", "fast"));
    scene.pass(Duration::from_secs(10)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 1);
    scene.driver.stop().await;
    scene.driver.start_again().await;
    asked_again(&scene, &uid).await;
}
