//! A volume grows: what is asked of the driver, what is written, in which order, and what is told.

use std::time::Duration;

use csi_proto::csi::v1::volume_capability::AccessType;
use csi_proto::csi::v1::{ControllerExpandVolumeRequest, ControllerModifyVolumeResponse};
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Release, Rpc, Step};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use serde_json::{Value, json};
use tonic::Code;

use super::growth::{GI, ONE_TRY, grows, refuses};
use super::objects::{CLAIM, NAMESPACE, attributes_class, claim, volume};
use super::scene::{Config, Scene, config};
use crate::expand::in_use;
use crate::records::ClaimRecord;

const STATUS: &str = "patch persistentvolumeclaims/status default/data";
const ON_VOLUME: &str = "patch persistentvolumes pv1";
const NOTE: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

fn annotating() -> Config {
    Config { annotates: true, ..config() }
}

fn conflict() -> Reaction {
    Reaction::Refuse(Status::new(409, "Conflict", "the object has been modified"))
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    *object.pointer_mut(pointer).unwrap() = value;
    object
}

/// Which claims the driver is asked for.
#[tokio::test(start_paused = true)]
async fn only_a_bound_claim_that_asks_for_more_than_its_own_volume_has_reaches_the_driver() {
    let unbound = with(claim("2Gi", "1Gi"), "/status/phase", json!("Pending"));
    let no_reference = with(volume("1Gi"), "/spec/claimRef", Value::Null);
    let other_namespace = with(volume("1Gi"), "/spec/claimRef/namespace", json!("test1"));
    let other_driver = with(volume("1Gi"), "/spec/csi/driver", json!("other.example.com"));
    let cases = [
        ("has all", claim("1Gi", "1Gi"), Some(volume("1Gi")), false),
        ("asks for less", claim("1Gi", "2Gi"), Some(volume("2Gi")), false),
        ("not bound", unbound, Some(volume("1Gi")), false),
        ("no volume", claim("2Gi", "1Gi"), None, false),
        ("no claimRef", claim("2Gi", "1Gi"), Some(no_reference), false),
        ("claimRef of another namespace", claim("2Gi", "1Gi"), Some(other_namespace), false),
        ("another driver's", claim("2Gi", "1Gi"), Some(other_driver), false),
        ("to grow", claim("2Gi", "1Gi"), Some(volume("1Gi")), true),
    ];
    assert_eq!(cases.len(), 8);
    for (what, claim, volume, called) in cases {
        let scene = Scene::start().await;
        grows(&scene.driver, false);
        match volume {
            Some(volume) if volume["spec"]["claimRef"].is_null() => {
                scene.add_claim(claim);
                scene.add_volume(volume);
            }
            Some(volume) => drop(scene.add_pair(claim, volume)),
            None => scene.add_claim(claim),
        }
        scene.pass(ONE_TRY).await;
        assert_eq!(scene.asked().len(), usize::from(called), "{what}");
        assert_eq!(scene.patches().is_empty(), !called, "{what}");
    }
    // The UID in `claimRef` is that of an earlier claim.
    let scene = Scene::start().await;
    grows(&scene.driver, false);
    scene.add_claim(claim("2Gi", "1Gi"));
    scene.add_volume(volume("1Gi"));
    scene.pass(ONE_TRY).await;
    assert!(scene.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_driver_gets_handle_size_capability_and_secret() {
    let scene = Scene::start().await;
    grows(&scene.driver, false);
    let data = json!({ "password": "aHVudGVyMg==" });
    scene.api.create_json::<Secret>(json!({ "metadata": { "namespace": "s", "name": "n" }, "data": data }));
    let mut volume = volume("1Gi");
    volume["spec"]["csi"]["fsType"] = json!("xfs");
    volume["spec"]["csi"]["controllerExpandSecretRef"] = json!({ "namespace": "s", "name": "n" });
    volume["spec"]["mountOptions"] = json!(["noatime"]);
    scene.add_pair(claim("1500000000500m", "1Gi"), volume);
    scene.pass(ONE_TRY).await;
    let [request] = scene.driver.requests::<ControllerExpandVolumeRequest>().try_into().unwrap();
    assert_eq!(request.volume_id, "handle1");
    let range = request.capacity_range.unwrap();
    assert_eq!((range.required_bytes, range.limit_bytes), (1_500_000_001, 0));
    assert_eq!(request.secrets["password"], "hunter2");
    let Some(AccessType::Mount(mount)) = request.volume_capability.unwrap().access_type else { panic!("mount") };
    assert_eq!((mount.fs_type.as_str(), mount.mount_flags), ("xfs", vec!["noatime".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn a_raw_device_is_one_for_the_driver() {
    let scene = Scene::start().await;
    grows(&scene.driver, false);
    let mut volume = volume("1Gi");
    volume["spec"]["volumeMode"] = json!("Block");
    scene.add_pair(claim("2Gi", "1Gi"), volume);
    scene.pass(ONE_TRY).await;
    let [request] = scene.driver.requests::<ControllerExpandVolumeRequest>().try_into().unwrap();
    let access = request.volume_capability.unwrap().access_type;
    assert!(matches!(access, Some(AccessType::Block(_))), "{access:?}");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_cannot_be_asked_for_says_why_and_keeps_its_size() {
    let secret = json!({ "namespace": "s", "name": "n" });
    let cases = [
        ("/spec/csi/volumeHandle", json!(""), "empty volume handle"),
        ("/spec/accessModes", json!([]), "failed to get capabilities of volume: no access mode given"),
        ("/spec/accessModes", json!(["ReadWriteOnce", "ReadOnlyMany"]), "cannot be combined"),
        ("/spec/csi/controllerExpandSecretRef", secret, "failed to get secret: secret s/n does not exist"),
    ];
    assert_eq!(cases.len(), 4);
    for (pointer, value, text) in cases {
        let scene = Scene::start().await;
        grows(&scene.driver, false);
        let mut object = volume("1Gi");
        object["spec"]["csi"]["controllerExpandSecretRef"] = Value::Null;
        scene.add_pair(claim("2Gi", "1Gi"), with(object, pointer, value));
        scene.pass(ONE_TRY).await;
        assert!(scene.asked().is_empty());
        let failed = scene.events().into_iter().find(|event| event.contains("VolumeResizeFailed")).unwrap();
        let start = "Warning VolumeResizeFailed resize volume \"pv1\" by resizer \"csi.example.com\" failed: ";
        assert!(failed.starts_with(start) && failed.contains(text), "{failed}");
        // Not known to be final: the size stays.
        assert_eq!(scene.sizes()[2].as_deref(), Some("ControllerResizeInProgress"));
    }
}

/// Whether pods use the volume, and whether the driver has called it in use.
#[tokio::test(start_paused = true)]
async fn a_volume_that_was_called_in_use_is_left_alone_while_it_is() {
    // Handled, pod, called in use → asked.
    let cases = [
        (true, true, true, false),
        (true, true, false, true),
        (true, false, true, true),
        (false, true, true, true),
        (false, true, false, true),
        (false, false, true, true),
    ];
    assert_eq!(cases.len(), 6);
    for (handle_in_use, pod, called_in_use, asked) in cases {
        let scene = Scene::with(Config { handle_in_use, ..config() }, |_| ()).await;
        grows(&scene.driver, true);
        scene.pass(ONE_TRY).await;
        scene.add_pair(claim("1Gi", "1Gi"), volume("1Gi"));
        if pod {
            scene.api.create_json::<Pod>(json!({
                "metadata": { "namespace": NAMESPACE, "name": "pod" },
                "spec": { "volumes": [{ "persistentVolumeClaim": { "claimName": CLAIM } }] },
                "status": { "phase": "Running" },
            }));
        }
        if called_in_use {
            let record = ClaimRecord::of(serde_json::from_value(scene.claim_json()).unwrap()).unwrap();
            in_use::mark(&scene.term(), &record).await;
        }
        scene.ask_for("2Gi");
        scene.pass(ONE_TRY).await;
        let what = format!("handled {handle_in_use} pod {pod} called in use {called_in_use}");
        assert_eq!(!scene.asked().is_empty(), asked, "{what}");
        let text = "Warning VolumeResizeFailed Unable to expand default/data because CSI driver csi.example.com only \
                    supports offline expansion and volume is currently in-use";
        assert_eq!(scene.events().iter().any(|event| event == text), !asked, "{what}: {:?}", scene.events());
    }
}

#[tokio::test(start_paused = true)]
async fn without_recovery_conditions_alone_tell_and_conflicts_are_silent() {
    let legacy = || Config { recovers: false, annotates: true, ..config() };
    let resizing = "Normal Resizing External resizer is resizing volume pv1";
    // The node has to do its part.
    let scene = Scene::with(legacy(), |_| ()).await;
    grows(&scene.driver, true);
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(Duration::from_hours(1)).await;
    let required = "Normal FileSystemResizeRequired Require file system resize of volume on node";
    assert_eq!(scene.events(), [resizing, required]);
    assert_eq!(scene.conditions(), ["FileSystemResizePending"]);
    assert_eq!(scene.sizes(), [Some("1Gi".to_owned()), None, None]);
    assert_eq!(scene.volume_json()["metadata"]["annotations"][NOTE], "1Gi");
    assert_eq!(scene.asked().len(), 1);

    // The driver fails.
    let scene = Scene::with(legacy(), |_| ()).await;
    refuses(&scene.driver, Code::InvalidArgument);
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(ONE_TRY).await;
    let failed = "Warning VolumeResizeFailed resize volume \"pv1\" by resizer \"csi.example.com\" failed: rpc error: code = \
                  InvalidArgument desc = no";
    assert_eq!(scene.events(), [resizing, failed]);
    assert_eq!(scene.conditions(), ["Resizing"]);
    scene.pass(Duration::from_secs(11)).await;
    assert_eq!(scene.asked().len(), 4, "no size is called infeasible");

    // Writes that meet newer claims.
    let scene = Scene::with(legacy(), |_| ()).await;
    grows(&scene.driver, false);
    scene.api.react(Matcher::of("patch", "persistentvolumeclaims").after(1).times(2), conflict());
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(ONE_TRY).await;
    assert_eq!(scene.events(), [resizing, "Normal VolumeResizeSuccessful Resize volume succeeded"]);
    assert_eq!(scene.sizes(), [Some("2Gi".to_owned()), None, None]);
    assert!(scene.claim_json()["metadata"].get("annotations").is_none());
}

#[tokio::test(start_paused = true)]
async fn g3_success_is_told_after_volume_and_claim_say_so_and_not_before() {
    for node_required in [true, false] {
        let scene = Scene::start().await;
        grows(&scene.driver, node_required);
        let down = || Reaction::Refuse(Status::internal_error("down"));
        scene.api.react(Matcher::of("patch", "persistentvolumes").times(2), down());
        scene.api.react(Matcher::of("patch", "persistentvolumeclaims").after(1).times(1), down());
        scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
        let done = if node_required { "FileSystemResizeRequired" } else { "VolumeResizeSuccessful" };
        // Tries are due after 0, 1, 3 and 7 seconds.
        for (seconds, through) in [(0, false), (1, false), (2, false), (4, true)] {
            scene.pass(Duration::from_secs(seconds)).await;
            scene.pass(ONE_TRY).await;
            assert_eq!(scene.told(done), through, "{seconds} more");
        }
        let saved = "Warning VolumeResizeFailed error updating pv \"pv1\" by resizer: ";
        assert!(scene.events().iter().any(|event| event.starts_with(saved)), "{:?}", scene.events());
        // The driver has done it once; what could not be written was written later.
        assert_eq!(scene.asked().len(), 1);
        assert_eq!(scene.patches(), [STATUS, ON_VOLUME, ON_VOLUME, ON_VOLUME, STATUS, STATUS]);
    }
}

/// Many at once, volumes of plugins among them, and statuses that meet newer claims.
#[tokio::test(start_paused = true)]
async fn g4_a_hundred_claims_that_fail_at_once_are_all_told() {
    let scene = Scene::start().await;
    refuses(&scene.driver, Code::Internal);
    scene.api.react(Matcher::of("patch", "persistentvolumeclaims").times(40), conflict());
    for number in 0..120 {
        let (name, in_tree) = (format!("data{number}"), number >= 100);
        let mut claim = claim("2Gi", "1Gi");
        claim["metadata"]["name"] = json!(name);
        claim["spec"]["volumeName"] = json!(format!("pv{number}"));
        let mut volume = volume("1Gi");
        volume["metadata"]["name"] = json!(format!("pv{number}"));
        volume["spec"]["claimRef"]["name"] = json!(name);
        if in_tree {
            volume["spec"]["csi"] = Value::Null;
            volume["spec"]["awsElasticBlockStore"] = json!({ "volumeID": "vol-1" });
        }
        scene.add_pair(claim, volume);
    }
    scene.pass(Duration::from_secs(20)).await;
    let claims = scene.api.list::<PersistentVolumeClaim>();
    let failed = claims.iter().filter(|claim| {
        let conditions = claim.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
        conditions.iter().any(|condition| condition.type_ == "ControllerResizeError")
    });
    assert_eq!(failed.count(), 100);
    grows(&scene.driver, false);
    scene.pass(Duration::from_mins(5)).await;
    let grown = scene.api.list::<PersistentVolume>().into_iter().filter(|volume| {
        let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.clone()).unwrap_or_default();
        capacity["storage"].0 == "2Gi"
    });
    assert_eq!(grown.count(), 100);
}

/// While the volume has more than the claim, the claim's status keeps the kubelet from growing the file system; what the
/// node need not do is said together with the new size.
#[tokio::test(start_paused = true)]
async fn g10_the_kubelet_does_not_take_a_volume_that_grows_for_one_that_waits_for_it() {
    // Status and allocated before, by which the kubelet would grow the file system.
    for (state, allocated) in [("", ""), ("", "2Gi"), ("NodeResizePending", "2Gi"), ("NodeResizeInProgress", "2Gi")] {
        let scene = Scene::start().await;
        grows(&scene.driver, false);
        let on_volume = Matcher::of("patch", "persistentvolumes");
        scene.api.react(on_volume, Reaction::DelayAnswer(Duration::from_secs(5)));
        let mut claim = claim("2Gi", "1Gi");
        if !allocated.is_empty() {
            claim["status"]["allocatedResources"] = json!({ "storage": allocated });
        }
        if !state.is_empty() {
            claim["status"]["allocatedResourceStatuses"] = json!({ "storage": state });
        }
        scene.add_pair(claim, volume("1Gi"));
        scene.pass(Duration::from_secs(2)).await;
        assert_eq!(scene.volume_json()["spec"]["capacity"]["storage"], "2Gi");
        assert_eq!(scene.sizes()[2].as_deref(), Some("ControllerResizeInProgress"), "{state:?} {allocated:?}");
        scene.pass(Duration::from_secs(5)).await;
        assert_eq!(scene.patches(), [STATUS, ON_VOLUME, STATUS]);
        let last = scene.api.requests_of(&Matcher::of("patch", "persistentvolumeclaims")).pop().unwrap();
        assert_eq!(last.body["metadata"]["annotations"]["volume.kubernetes.io/node-expansion-not-required"], "true");
        assert_eq!(last.body["status"]["capacity"]["storage"], "2Gi");
        assert_eq!(scene.sizes(), [Some("2Gi".to_owned()), Some("2Gi".to_owned()), None]);
    }
}

#[tokio::test(start_paused = true)]
async fn g12_a_write_that_meets_a_newer_claim_is_no_failure_and_no_second_call() {
    // How many writes of the status go through before.
    for before in [0, 1] {
        let scene = Scene::start().await;
        grows(&scene.driver, false);
        scene.api.react(Matcher::of("patch", "persistentvolumeclaims").after(before).times(2), conflict());
        scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
        scene.pass(ONE_TRY).await;
        assert!(scene.told("VolumeResizeSuccessful") && !scene.told("VolumeResizeFailed"), "{:?}", scene.events());
        assert_eq!(scene.asked().len(), 1);
        assert_eq!(scene.sizes()[0].as_deref(), Some("2Gi"));
    }
    // Writes that never go through wait like any failure.
    let scene = Scene::start().await;
    grows(&scene.driver, false);
    scene.api.react(Matcher::of("patch", "persistentvolumeclaims").after(1), conflict());
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(Duration::from_secs(12)).await;
    assert_eq!(scene.asked().len(), 1);
    assert!(scene.patches().len() <= 2 + 4 * 6, "{}", scene.patches().len());
    assert!(!scene.told("VolumeResizeFailed"));
}

/// Somebody writes to the claim while the driver is at work.
#[tokio::test(start_paused = true)]
async fn g12_a_claim_that_changes_during_the_call_gets_its_result_all_the_same() {
    let scene = Scene::start().await;
    let release = Release::new();
    let held = release.clone();
    scene.driver.script_always(Rpc::ControllerExpandVolume, move || {
        Step::respond(|request: &ControllerExpandVolumeRequest| {
            let capacity_bytes = request.capacity_range.unwrap_or_default().required_bytes;
            Ok(csi_proto::csi::v1::ControllerExpandVolumeResponse { capacity_bytes, node_expansion_required: false })
        })
        .held_by(&held)
    });
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.driver.wait_for_calls(Rpc::ControllerExpandVolume, 1).await;
    scene.merge_claim(&json!({ "metadata": { "labels": { "a": "b" } } }));
    scene.ask_for("3Gi");
    scene.pass(ONE_TRY).await;
    release.release();
    scene.pass(ONE_TRY).await;
    assert_eq!(scene.asked(), [2 * GI, 3 * GI], "one after the other");
    assert_eq!(scene.sizes(), [Some("3Gi".to_owned()), Some("3Gi".to_owned()), None]);
    assert!(!scene.told("VolumeResizeFailed"));
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_cannot_be_saved_is_told_with_both_reasons() {
    let scene = Scene::start().await;
    refuses(&scene.driver, Code::OutOfRange);
    let down = Reaction::Refuse(Status::internal_error("down"));
    scene.api.react(Matcher::of("patch", "persistentvolumeclaims").after(1).once(), down);
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(ONE_TRY).await;
    let text = "Warning VolumeResizeFailed resizing failed in controller with rpc error: code = OutOfRange desc = no but failed \
                to update PVC default/data with: ";
    assert!(scene.events().iter().any(|event| event.starts_with(text)), "{:?}", scene.events());
    scene.pass(Duration::from_secs(2)).await;
    assert_eq!(scene.sizes()[2].as_deref(), Some("ControllerResizeInfeasible"), "the status has it in the end");
    assert_eq!(scene.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_vanishes_during_the_call_leaves_a_volume_that_says_its_size() {
    let scene = Scene::start().await;
    let release = Release::new();
    let held = release.clone();
    scene.driver.script_by(move |request: &ControllerExpandVolumeRequest| {
        let capacity_bytes = request.capacity_range.unwrap_or_default().required_bytes;
        let answer =
            csi_proto::csi::v1::ControllerExpandVolumeResponse { capacity_bytes, node_expansion_required: true };
        Some(Step::respond(move |_: &ControllerExpandVolumeRequest| Ok(answer)).held_by(&held))
    });
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.driver.wait_for_calls(Rpc::ControllerExpandVolume, 1).await;
    scene.api.remove::<PersistentVolumeClaim>(NAMESPACE, CLAIM);
    release.release();
    scene.pass(ONE_TRY).await;
    assert_eq!(scene.volume_json()["spec"]["capacity"]["storage"], "2Gi");
    assert!(!scene.told("VolumeResizeFailed") && !scene.told("FileSystemResizeRequired"));
    assert_eq!(scene.term().memories.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn n6_size_and_class_together_are_two_calls_side_by_side_whose_writes_come_one_after_the_other() {
    let scene = Scene::start().await;
    scene.driver.script_by(|request: &ControllerExpandVolumeRequest| {
        let capacity_bytes = request.capacity_range.unwrap_or_default().required_bytes;
        let answer =
            csi_proto::csi::v1::ControllerExpandVolumeResponse { capacity_bytes, node_expansion_required: false };
        Some(Step::respond(move |_: &ControllerExpandVolumeRequest| Ok(answer)).after(Duration::from_secs(3)))
    });
    scene.driver.script_always(Rpc::ControllerModifyVolume, || {
        Step::respond(|_: &csi_proto::csi::v1::ControllerModifyVolumeRequest| {
            Ok(ControllerModifyVolumeResponse::default())
        })
        .after(Duration::from_secs(3))
    });
    scene.add_attributes_class(attributes_class("gold", json!({ "iops": "1" })));
    for resource in ["persistentvolumeclaims", "persistentvolumes"] {
        scene.api.react(Matcher::of("patch", resource), Reaction::DelayAnswer(Duration::from_millis(50)));
    }
    let mut claim = claim("2Gi", "1Gi");
    claim["spec"]["volumeAttributesClassName"] = json!("gold");
    scene.add_pair(claim, volume("1Gi"));
    scene.pass(Duration::from_secs(20)).await;
    let calls: Vec<_> =
        scene.driver.calls().into_iter().filter(|call| call.rpc.to_string().contains("Volume")).collect();
    let [first, second] = calls.as_slice() else { panic!("{calls:?}") };
    assert_eq!((first.rpc, second.rpc), (Rpc::ControllerExpandVolume, Rpc::ControllerModifyVolume));
    assert!(second.started < first.ended.unwrap(), "the driver sees both");
    // A write that did not wait for the answer to the one before would be refused, and come again.
    assert_eq!(scene.patches(), [STATUS, STATUS, ON_VOLUME, STATUS, ON_VOLUME, STATUS]);
    let claim = scene.claim_json();
    assert_eq!(claim["status"]["capacity"]["storage"], "2Gi");
    assert_eq!(claim["status"]["currentVolumeAttributesClassName"], "gold");
    assert!(!scene.told("VolumeResizeFailed") && !scene.told("VolumeModifyFailed"));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_says_its_size_already_is_not_written_again() {
    let scene = Scene::with(annotating(), |_| ()).await;
    grows(&scene.driver, false);
    scene.add_pair(claim("2Gi", "1Gi"), volume("2Gi"));
    scene.pass(ONE_TRY).await;
    assert_eq!(scene.patches(), [STATUS, STATUS]);
    assert_eq!(scene.sizes()[0].as_deref(), Some("2Gi"));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_may_not_be_written_is_told_and_nothing_is_asked_of_the_driver() {
    let scene = Scene::start().await;
    grows(&scene.driver, false);
    let forbidden = Reaction::Refuse(Status::forbidden("persistentvolumeclaims/status is forbidden"));
    scene.api.react(Matcher::of("patch", "persistentvolumeclaims"), forbidden);
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(ONE_TRY).await;
    assert!(scene.asked().is_empty());
    let text = "Warning VolumeResizeFailed marking pvc \"default/data\" as resizing failed: ";
    assert!(scene.events().iter().any(|event| event.starts_with(text)), "{:?}", scene.events());
}

/// What the status says already is not written again before each call.
#[tokio::test(start_paused = true)]
async fn a_driver_that_fails_costs_one_write_for_each_call() {
    let scene = Scene::start().await;
    refuses(&scene.driver, Code::Internal);
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(Duration::from_secs(12)).await;
    assert_eq!(scene.asked().len(), 4);
    assert_eq!(scene.patches(), [STATUS; 5]);
    assert_eq!(scene.conditions(), ["Resizing", "ControllerResizeError"]);
    // An uncertain answer is not written at all.
    refuses(&scene.driver, Code::Aborted);
    scene.pass(Duration::from_secs(8)).await;
    assert_eq!((scene.asked().len(), scene.patches().len()), (5, 5));
}

/// The size changes while the call waits for the driver's Secret: the call is not sent, and the new size is asked for.
#[tokio::test(start_paused = true)]
async fn a_size_that_changes_before_its_call_is_sent_is_not_asked_for() {
    let scene = Scene::start().await;
    grows(&scene.driver, false);
    scene.api.create_json::<Secret>(json!({ "metadata": { "namespace": "s", "name": "n" }, "data": {} }));
    scene.api.react(Matcher::of("get", "secrets").once(), Reaction::DelayAnswer(Duration::from_millis(200)));
    let mut volume = volume("1Gi");
    volume["spec"]["csi"]["controllerExpandSecretRef"] = json!({ "namespace": "s", "name": "n" });
    scene.add_pair(claim("2Gi", "1Gi"), volume);
    scene.pass(Duration::from_millis(100)).await;
    scene.ask_for("3Gi");
    scene.pass(ONE_TRY).await;
    // It was begun, so it comes first.
    assert_eq!(scene.asked(), [2 * GI, 3 * GI]);
    assert_eq!(scene.sizes()[0].as_deref(), Some("3Gi"));
    assert!(!scene.told("VolumeResizeFailed"), "{:?}", scene.events());
}
