//! The object of a new volume is written once, for this claim and this backend volume.

use std::time::Duration;

use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Release, Rpc, Step};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::json;

use super::objects::{DRIVER, claim, class};
use super::scene::Scene;

fn refused() -> Reaction {
    Reaction::Refuse(Status::new(500, "InternalError", "etcd is busy"))
}

#[tokio::test(start_paused = true)]
async fn a_claim_updated_before_its_volume_can_be_written_gets_no_second_call() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.api.react(Matcher::of("create", "persistentvolumes").times(12), refused());
    let uid = scene.add_claim(claim("data", "fast"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    for round in 0..5 {
        let change = json!({ "metadata": { "annotations": { "round": round.to_string() } } });
        scene.api.merge::<PersistentVolumeClaim>("shop", "data", &change);
        scene.pass(Duration::from_millis(500)).await;
    }
    scene.volume(&format!("pvc-{uid}")).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 1);
}

/// Same claim with another backend volume, and the other way round: neither is ours.
#[tokio::test(start_paused = true)]
async fn an_existing_object_counts_only_for_this_claim_and_this_backend_volume() {
    for (same_claim, same_handle) in [(true, false), (false, true)] {
        let scene = Scene::start().await;
        scene.add_class(class("fast", json!({})));
        let release = Release::new();
        scene.driver.script(Rpc::CreateVolume, Step::answer().held_by(&release));
        let uid = scene.add_claim(claim("data", "fast"));
        scene.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
        let name = format!("pvc-{uid}");
        let handle = if same_handle { format!("handle-1-of-{name}") } else { "another".to_owned() };
        let claim_uid = if same_claim { uid.as_str() } else { "11111111-2222-3333-4444-555555555555" };
        scene.add_volume(json!({
            "metadata": { "name": name, "annotations": { "pv.kubernetes.io/provisioned-by": "other" } },
            "spec": { "claimRef": { "uid": claim_uid }, "csi": { "driver": DRIVER, "volumeHandle": handle } },
        }));
        release.release();
        assert!(scene.event("ProvisioningFailed").await.contains("exists and is for another claim"));
        assert!(scene.events("ProvisioningSucceeded").is_empty());
    }
}

/// The answer to the write was lost, the volume has lived and is reclaimed before the next try.
#[tokio::test(start_paused = true)]
async fn a_volume_reclaimed_before_the_retry_of_its_write_does_not_come_back() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.api.react(Matcher::of("create", "persistentvolumes").times(14), refused());
    scene.api.react(Matcher::of("create", "persistentvolumes").once(), Reaction::LoseAnswer);
    let uid = scene.add_claim(claim("data", "fast"));
    let name = format!("pvc-{uid}");
    scene.volume(&name).await;
    scene.bind("data", &name);
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    scene.release(&name);
    scene.volume_gone(&name).await;
    let deletes = scene.count(Rpc::DeleteVolume);
    scene.pass(Duration::from_mins(30)).await;
    assert!(
        scene.api.get_json::<PersistentVolume>(None, &name).is_none(),
        "a PersistentVolume without a backend volume"
    );
    assert_eq!(deletes, scene.count(Rpc::DeleteVolume));
}
