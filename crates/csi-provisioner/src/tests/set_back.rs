//! The API server's data is put back to an earlier state under a provisioner without a lease (fault K1).

use std::time::Duration;

use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolume, PersistentVolumeClaim};
use serde_json::json;
use tonic::Code;

use super::objects::{claim, class};
use super::scene::Scene;

#[tokio::test(start_paused = true)]
async fn k1_a_volume_that_is_bound_again_is_not_deleted_and_new_claims_are_seen() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    let uid = scene.add_claim(claim("kept", "fast"));
    let volume = format!("pvc-{uid}");
    scene.volume(&volume).await;
    scene.bind("kept", &volume);
    scene.api.merge::<PersistentVolume>(None, &volume, &json!({ "status": { "phase": "Bound" } }));
    let backup = scene.api.backup();
    for number in 0..50 {
        scene
            .api
            .create_json::<ConfigMap>(json!({ "metadata": { "name": format!("c{number}"), "namespace": "shop" } }));
    }

    scene.driver.script_always(Rpc::DeleteVolume, || Step::fail(Code::Internal, "not now"));
    scene.api.remove::<PersistentVolumeClaim>("shop", "kept");
    scene.release(&volume);
    scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, 1).await;
    scene.api.restore(&backup);
    scene.pass(Duration::from_secs(5)).await;
    let tried = scene.count(Rpc::DeleteVolume);
    let new = scene.add_claim(claim("new", "fast"));
    scene.volume(&format!("pvc-{new}")).await;
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), tried);
    assert!(scene.api.get_json::<PersistentVolume>(None, &volume).is_some());
}
