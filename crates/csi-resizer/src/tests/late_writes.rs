//! A process that is stopped in the middle of a write: when it goes on, the write meets what the next leader has written.

use std::time::Duration;

use controller_runtime::Backoff;
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::Rpc;
use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::{Value, json};
use tonic::Code;

use super::growth::{GI, ONE_TRY, grows, refuses};
use super::modify_turns::refuse;
use super::modifying::{classed, current, iops, reasons, scene_of, status, volume_with, want};
use super::objects::{VOLUME, claim, volume};
use super::scene::{AS_ASKED, Config, Scene, config, grown, modified};

/// As long as the process is stopped.
const STOPPED: Duration = Duration::from_secs(5);

/// How long the driver takes for the next call: longer than the test looks at what is there.
const SLOW: Duration = Duration::from_secs(8);

/// The process is stopped in the next patch of this kind but `before`, before anything of it is read.
fn stop_in_patch(scene: &Scene, plural: &str, before: usize) {
    scene.api.react(Matcher::of("patch", plural).after(before).once(), Reaction::Delay(STOPPED));
}

fn merge_volume(scene: &Scene, spec: &Value) {
    scene.api.merge::<PersistentVolume>(None, VOLUME, &json!({ "spec": spec }));
}

/// A claim and its volume of class silver, with nothing to do.
async fn silver() -> Scene {
    let scene = scene_of(config(), classed("silver", "silver", None), volume_with("silver")).await;
    scene.pass(ONE_TRY).await;
    scene
}

#[tokio::test(start_paused = true)]
async fn k9_a_class_is_not_called_done_when_another_leader_has_begun_another() {
    let scene = silver().await;
    stop_in_patch(&scene, "persistentvolumeclaims", 1);
    want(&scene, "gold");
    scene.driver.wait_for_ended_calls(Rpc::ControllerModifyVolume, 1).await;
    scene.pass(ONE_TRY).await;

    scene.driver.script_always(Rpc::ControllerModifyVolume, || modified().after(SLOW));
    let begun = json!({ "targetVolumeAttributesClassName": "bronze", "status": "InProgress" });
    scene.merge_claim(&json!({
        "spec": { "volumeAttributesClassName": "bronze" }, "status": { "modifyVolumeStatus": begun },
    }));
    scene.pass(STOPPED).await;
    assert_eq!((status(&scene), current(&scene)), (begun, "silver".to_owned()));
    assert!(!reasons(&scene).contains("VolumeModifySuccessful"));

    // This process still leads as far as it knows, so it ends what is begun, at once.
    scene.pass(SLOW).await;
    assert_eq!((status(&scene), current(&scene)), (Value::Null, "bronze".to_owned()));
    assert_eq!(scene.modified(), iops(&["4567", "100"]));
}

#[tokio::test(start_paused = true)]
async fn k9_a_volume_keeps_the_class_that_another_leader_has_given_it() {
    let scene = silver().await;
    stop_in_patch(&scene, "persistentvolumes", 0);
    want(&scene, "gold");
    scene.driver.wait_for_ended_calls(Rpc::ControllerModifyVolume, 1).await;
    scene.pass(ONE_TRY).await;

    merge_volume(&scene, &json!({ "volumeAttributesClassName": "bronze" }));
    scene.merge_claim(&json!({
        "spec": { "volumeAttributesClassName": "bronze" },
        "status": { "currentVolumeAttributesClassName": "bronze", "modifyVolumeStatus": null },
    }));
    scene.pass(2 * STOPPED).await;
    assert_eq!(scene.volume_json()["spec"]["volumeAttributesClassName"], "bronze");
    assert_eq!(current(&scene), "bronze");
    assert_eq!(scene.modified(), iops(&["4567"]));
}

#[tokio::test(start_paused = true)]
async fn k9_a_size_is_not_called_infeasible_when_another_leader_has_begun_another() {
    let scene = Scene::start().await;
    refuses(&scene.driver, Code::OutOfRange);
    stop_in_patch(&scene, "persistentvolumeclaims", 1);
    scene.add_pair(claim("10Gi", "1Gi"), volume("1Gi"));
    scene.driver.wait_for_ended_calls(Rpc::ControllerExpandVolume, 1).await;
    scene.pass(ONE_TRY).await;

    scene.driver.script_always(Rpc::ControllerExpandVolume, || grown(AS_ASKED, true).after(SLOW));
    let begun = "ControllerResizeInProgress";
    scene.merge_claim(&json!({
        "spec": { "resources": { "requests": { "storage": "5Gi" } } },
        "status": {
            "allocatedResources": { "storage": "5Gi" }, "allocatedResourceStatuses": { "storage": begun },
        },
    }));
    scene.pass(STOPPED).await;
    let sizes = |allocated: &str, status: &str| ["1Gi", allocated, status].map(|text| Some(text.to_owned()));
    assert_eq!(scene.sizes(), sizes("5Gi", begun));
    scene.pass(SLOW).await;
    assert_eq!(scene.sizes(), sizes("5Gi", "NodeResizePending"));
    assert_eq!(scene.asked(), [10 * GI, 5 * GI]);
}

#[tokio::test(start_paused = true)]
async fn k9_a_volume_keeps_the_bigger_size_that_another_leader_has_given_it() {
    let scene = Scene::start().await;
    grows(&scene.driver, false);
    stop_in_patch(&scene, "persistentvolumes", 0);
    scene.add_pair(claim("10Gi", "1Gi"), volume("1Gi"));
    scene.driver.wait_for_ended_calls(Rpc::ControllerExpandVolume, 1).await;
    scene.pass(ONE_TRY).await;

    let size = json!({ "storage": "12Gi" });
    merge_volume(&scene, &json!({ "capacity": size }));
    scene.merge_claim(&json!({
        "spec": { "resources": { "requests": size } }, "status": { "capacity": size, "allocatedResources": size },
    }));
    scene.pass(2 * STOPPED).await;
    assert_eq!(scene.volume_json()["spec"]["capacity"]["storage"], "12Gi");
    assert_eq!(scene.asked(), [10 * GI]);
}

/// Others write something else meanwhile.
#[tokio::test(start_paused = true)]
async fn k9_a_write_that_meets_a_newer_object_is_done_again_at_once_and_without_another_call() {
    for (plural, before) in [("persistentvolumeclaims", 0), ("persistentvolumes", 0), ("persistentvolumeclaims", 1)] {
        for asks in [classed("gold", "silver", None), claim("2Gi", "1Gi")] {
            let slow =
                Config { backoff: Backoff { base: Duration::from_mins(1), max: Duration::from_mins(5) }, ..config() };
            let scene = scene_of(slow, claim("1Gi", "1Gi"), volume_with("silver")).await;
            grows(&scene.driver, false);
            scene.pass(ONE_TRY).await;
            let conflict = Status::new(409, "Conflict", "the object has been modified");
            scene.api.react(Matcher::of("patch", plural).after(before).times(2), Reaction::Refuse(conflict));
            scene.merge_claim(&json!({ "spec": asks["spec"], "status": asks["status"] }));
            scene.pass(ONE_TRY).await;
            let done = reasons(&scene);
            let done = done.contains("VolumeModifySuccessful") || done.contains("VolumeResizeSuccessful");
            assert!(done, "{plural} {before}: {:?}", scene.events());
            assert_eq!(scene.modified().len() + scene.asked().len(), 1, "{plural} {before}");
            assert!(!scene.told("VolumeModifyFailed") && !scene.told("VolumeResizeFailed"), "{:?}", scene.events());
        }
    }
}

/// The version that a write names is that of the API server's last answer.
#[tokio::test(start_paused = true)]
async fn k9_nothing_of_a_claim_that_nobody_else_writes_to_is_refused() {
    for node_required in [false, true] {
        let mut both = classed("gold", "silver", None);
        both["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
        let scene = scene_of(config(), classed("silver", "silver", None), volume_with("silver")).await;
        scene.driver.script_always(Rpc::ControllerExpandVolume, move || grown(AS_ASKED, node_required));
        scene.pass(ONE_TRY).await;
        scene.api.clear_requests();
        scene.merge_claim(&json!({ "spec": both["spec"] }));
        scene.pass(Duration::from_secs(30)).await;
        let (status, volume) = ("persistentvolumeclaims status", "persistentvolumes");
        assert_eq!(scene.writes(), [status, status, volume, volume, status, status], "{node_required}");
        let reads = |plural: &str| scene.api.requests_of(&Matcher::of("get", plural)).len();
        assert_eq!((reads("persistentvolumeclaims"), reads("persistentvolumes")), (0, 1), "{node_required}");
        assert_eq!(scene.volume_json()["spec"]["volumeAttributesClassName"], "gold");
    }
}

/// What the driver has done for one class says nothing once it was asked for another.
#[tokio::test(start_paused = true)]
async fn k9_a_class_is_asked_for_again_after_the_driver_was_asked_for_another() {
    let scene = silver().await;
    stop_in_patch(&scene, "persistentvolumes", 0);
    want(&scene, "gold");
    scene.driver.wait_for_ended_calls(Rpc::ControllerModifyVolume, 1).await;
    scene.pass(ONE_TRY).await;

    // Another leader has begun bronze, which fails for good; then gold is wanted again.
    refuse(&scene, "100", Code::Internal, Duration::ZERO);
    let begun = json!({ "targetVolumeAttributesClassName": "bronze", "status": "InProgress" });
    scene.merge_claim(&json!({
        "spec": { "volumeAttributesClassName": "bronze" }, "status": { "modifyVolumeStatus": begun },
    }));
    merge_volume(&scene, &json!({ "mountOptions": ["noatime"] }));
    scene.pass(STOPPED).await;
    want(&scene, "gold");
    scene.pass(STOPPED).await;
    let asked = scene.modified();
    assert_eq!(asked.iter().filter(|asked| asked["iops"] == "4567").count(), 2, "{asked:?}");
    assert!(asked.len() > 2 && current(&scene) == "gold", "{asked:?}");
}
