//! Changing the class of attributes: contract §7.7 and field reports.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use controller_runtime::Backoff;
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use serde_json::{Value, json};
use tonic::Code;

use super::objects::{CLAIM, NAMESPACE, attributes_class, claim, volume};
use super::scene::{Config, Scene, config, create, modified};

/// A claim that wants `wanted` and has `current`; `target` is worked on in `status`.
pub(super) fn classed(wanted: &str, current: &str, target: Option<(&str, &str)>) -> Value {
    let mut claim = claim("1Gi", "1Gi");
    if !wanted.is_empty() {
        claim["spec"]["volumeAttributesClassName"] = json!(wanted);
    }
    if !current.is_empty() {
        claim["status"]["currentVolumeAttributesClassName"] = json!(current);
    }
    if let Some((target, status)) = target {
        claim["status"]["modifyVolumeStatus"] = json!({ "targetVolumeAttributesClassName": target, "status": status });
    }
    claim
}

pub(super) fn volume_with(class: &str) -> Value {
    let mut volume = volume("1Gi");
    if !class.is_empty() {
        volume["spec"]["volumeAttributesClassName"] = json!(class);
    }
    volume
}

pub(super) async fn scene_of(config: Config, claim: Value, volume: Value) -> Scene {
    Scene::prepared(
        config,
        |_| (),
        |api, _| {
            for (name, iops) in [("silver", "3000"), ("gold", "4567"), ("bronze", "100")] {
                api.create_json::<VolumeAttributesClass>(attributes_class(name, json!({ "iops": iops })));
            }
            create(api, claim, volume);
        },
    )
    .await
}

pub(super) fn iops(values: &[&str]) -> Vec<BTreeMap<String, String>> {
    values.iter().map(|value| BTreeMap::from([("iops".to_owned(), (*value).to_owned())])).collect()
}

/// `reason: message`, in order.
pub(super) fn events(scene: &Scene) -> Vec<String> {
    let events = scene.events().into_iter().filter_map(|event| {
        let (_kind, event) = event.split_once(' ')?;
        let (reason, message) = event.split_once(' ')?;
        Some(format!("{reason}: {message}"))
    });
    events.collect()
}

pub(super) fn reasons(scene: &Scene) -> BTreeSet<String> {
    events(scene).iter().filter_map(|event| Some(event.split_once(':')?.0.to_owned())).collect()
}

pub(super) fn current(scene: &Scene) -> String {
    scene.claim_json()["status"]["currentVolumeAttributesClassName"].as_str().unwrap_or_default().to_owned()
}

pub(super) fn status(scene: &Scene) -> Value {
    scene.claim_json()["status"].get("modifyVolumeStatus").cloned().unwrap_or_default()
}

pub(super) fn want(scene: &Scene, class: &str) {
    scene.merge_claim(&json!({ "spec": { "volumeAttributesClassName": class } }));
}

pub(super) fn fail(scene: &Scene, code: Code) {
    scene.driver.script_always(Rpc::ControllerModifyVolume, move || Step::fail(code, "mock"));
}

/// What is left alone: nothing is called and nothing written.
#[tokio::test(start_paused = true)]
async fn what_has_its_class_or_is_not_ours_is_left_alone() {
    let other = |mut volume: Value| {
        volume["spec"]["csi"]["driver"] = json!("other");
        volume
    };
    let not_csi = |mut volume: Value| {
        volume["spec"]["csi"] = Value::Null;
        volume["spec"]["hostPath"] = json!({ "path": "/" });
        volume
    };
    let changed = |field: &str, value: Value| {
        let mut claim = classed("gold", "silver", None);
        if field == "phase" {
            claim["status"]["phase"] = value;
        } else {
            claim["spec"][field] = value;
        }
        claim
    };
    let rows = [
        ("it has its class", config(), classed("silver", "silver", None), volume_with("silver")),
        (
            "none is wanted, and the last one could not be had",
            config(),
            classed("", "silver", Some(("gold", "Infeasible"))),
            volume_with("silver"),
        ),
        ("another driver", config(), classed("gold", "silver", None), other(volume_with("silver"))),
        ("not CSI", config(), classed("gold", "silver", None), not_csi(volume_with("silver"))),
        ("not bound", config(), changed("phase", json!("Pending")), volume_with("silver")),
        ("no volume", config(), changed("volumeName", json!("")), volume_with("silver")),
        (
            "the gate is off",
            Config { attributes_class: false, ..config() },
            classed("gold", "silver", None),
            volume_with("silver"),
        ),
    ];
    for (what, config, claim, volume) in rows {
        let scene = scene_of(config, claim, volume).await;
        scene.pass(Duration::from_secs(30)).await;
        assert_eq!(scene.modified(), iops(&[]), "{what}");
        assert_eq!(scene.writes(), [""; 0], "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_gets_the_class_that_is_wanted_and_then_the_claim_says_so() {
    for (before, target) in [("", None), ("silver", None), ("silver", Some(("silver", "Infeasible")))] {
        let scene = scene_of(config(), classed("gold", before, target), volume_with(before)).await;
        scene.until("gold", |scene| current(scene) == "gold").await;
        assert_eq!(scene.modified(), iops(&["4567"]));
        assert_eq!(status(&scene), Value::Null);
        assert_eq!(scene.conditions(), [""; 0]);
        assert_eq!(scene.volume_json()["spec"]["volumeAttributesClassName"], "gold");
        assert_eq!(
            scene.writes(),
            ["persistentvolumeclaims status", "persistentvolumes", "persistentvolumeclaims status"]
        );
        scene.pass(Duration::from_secs(1)).await;
        assert_eq!(
            events(&scene),
            [
                "VolumeModify: external resizer is modifying volume data with vac gold",
                "VolumeModifySuccessful: external resizer modified volume data with vac gold successfully",
            ]
        );
        assert_eq!(scene.term().memories.len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_driver_is_told_what_the_flag_says_and_gets_the_secret_of_the_volume() {
    let mut annotated = volume_with("silver");
    annotated["spec"]["csi"]["controllerExpandSecretRef"] = json!({ "name": "expand", "namespace": "kube-system" });
    let expand_only = annotated.clone();
    annotated["metadata"]["annotations"] = json!({
        "volume.kubernetes.io/controller-modify-secret-name": "modify",
        "volume.kubernetes.io/controller-modify-secret-namespace": "kube-system",
    });
    for (volume, secret) in [(annotated, Some("modify")), (expand_only, Some("expand")), (volume_with("silver"), None)]
    {
        let scene = Scene::prepared(
            Config { extra_modify_metadata: true, ..config() },
            |_| (),
            |api, _| {
                for (name, who) in [("modify", "bW9kaWZ5"), ("expand", "ZXhwYW5k")] {
                    let metadata = json!({ "name": name, "namespace": "kube-system" });
                    api.create_json::<Secret>(json!({ "metadata": metadata, "data": { "who": who } }));
                }
                api.create_json::<VolumeAttributesClass>(attributes_class("gold", json!({ "iops": "4567" })));
                create(api, classed("gold", "silver", None), volume);
            },
        )
        .await;
        scene.until("gold", |scene| current(scene) == "gold").await;
        let requests: Vec<csi_proto::csi::v1::ControllerModifyVolumeRequest> = scene.driver.requests();
        assert_eq!(requests.len(), 1);
        let expected = [
            ("csi.storage.k8s.io/pv/name", "pv1"),
            ("csi.storage.k8s.io/pvc/name", "data"),
            ("csi.storage.k8s.io/pvc/namespace", "default"),
            ("iops", "4567"),
        ];
        let parameters: BTreeMap<_, _> =
            requests[0].mutable_parameters.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(parameters.into_iter().collect::<Vec<_>>(), expected);
        assert_eq!(requests[0].secrets.get("who").map(String::as_str), secret);
        assert_eq!(requests[0].volume_id, super::objects::HANDLE);
    }
}

/// Each code once: how often the driver is called in twelve seconds, and what the status says.
#[tokio::test(start_paused = true)]
async fn a_failing_driver_is_called_at_the_pace_of_the_backoff_whatever_is_written_meanwhile() {
    for code in (1..=16).map(Code::from) {
        let scene = scene_of(config(), classed("silver", "silver", None), volume_with("silver")).await;
        fail(&scene, code);
        want(&scene, "gold");
        scene.pass(Duration::from_secs(12)).await;
        let infeasible = code == Code::InvalidArgument;
        let uncertain =
            [Code::Cancelled, Code::DeadlineExceeded, Code::Unavailable, Code::ResourceExhausted, Code::Aborted]
                .contains(&code);
        assert_eq!(scene.modified().len(), if infeasible { 1 } else { 4 }, "{code:?}");
        assert_eq!(status(&scene)["status"], if infeasible { "Infeasible" } else { "InProgress" }, "{code:?}");
        assert_eq!(status(&scene)["targetVolumeAttributesClassName"], "gold");
        assert_eq!(scene.conditions(), ["ModifyingVolume", "ModifyVolumeError"]);
        let told = events(&scene).into_iter().find(|event| event.starts_with("VolumeModifyFailed")).unwrap();
        assert_eq!(told.ends_with(". Still modifying to VAC gold"), uncertain, "{told}");
        assert_eq!(current(&scene), "silver");
        if infeasible {
            scene.pass(Duration::from_mins(11)).await;
            assert_eq!(scene.modified().len(), 3, "one call in five minutes");
        }
    }
}

/// The driver may be working on gold: bronze has to wait until it has said how that ended.
#[tokio::test(start_paused = true)]
async fn g7_a_class_that_may_be_coming_is_finished_or_failed_before_another_is_asked_for() {
    let scene = scene_of(config(), classed("gold", "silver", None), volume_with("silver")).await;
    fail(&scene, Code::Unavailable);
    scene.until("a failure", |scene| scene.conditions().len() == 2).await;
    want(&scene, "bronze");
    scene.pass(Duration::from_secs(10)).await;
    assert!(scene.modified().iter().all(|parameters| parameters["iops"] == "4567"), "{:?}", scene.modified());
    scene.driver.script_always(Rpc::ControllerModifyVolume, modified);
    scene.until("bronze", |scene| current(scene) == "bronze").await;
    assert_eq!(scene.modified().last(), iops(&["100"]).last());
    assert!(events(&scene).iter().any(|event| event.contains("with vac gold successfully")));

    // It failed for good: bronze at once.
    let scene = scene_of(config(), classed("gold", "silver", None), volume_with("silver")).await;
    fail(&scene, Code::Internal);
    scene.until("a failure", |scene| scene.conditions().len() == 2).await;
    let before = scene.modified().len();
    scene.driver.script_always(Rpc::ControllerModifyVolume, modified);
    want(&scene, "bronze");
    scene.until("bronze", |scene| current(scene) == "bronze").await;
    assert_eq!(scene.modified()[before..], iops(&["100"])[..]);
}

/// Nobody knows after a start how the last call ended.
#[tokio::test(start_paused = true)]
async fn g7_after_a_restart_what_is_in_progress_is_finished_first() {
    let scene =
        scene_of(config(), classed("bronze", "silver", Some(("gold", "InProgress"))), volume_with("silver")).await;
    scene.until("bronze", |scene| current(scene) == "bronze").await;
    assert_eq!(scene.modified(), iops(&["4567", "100"]));
}

#[tokio::test(start_paused = true)]
async fn g7_going_back_is_a_modification_like_any_other() {
    let scene =
        scene_of(config(), classed("gold", "silver", Some(("gold", "Infeasible"))), volume_with("silver")).await;
    fail(&scene, Code::InvalidArgument);
    scene.until("a call", |scene| !scene.modified().is_empty()).await;
    scene.driver.script_always(Rpc::ControllerModifyVolume, modified);
    want(&scene, "silver");
    scene.until("the end", |scene| status(scene) == Value::Null).await;
    assert_eq!(scene.modified().last(), iops(&["3000"]).last());
    assert_eq!(current(&scene), "silver");
}

/// No class is wanted any more: what may be going on is finished, what is not is given up.
#[tokio::test(start_paused = true)]
async fn g7_taking_the_class_away_ends_what_is_not_going_on() {
    let mut given_up = classed("", "silver", Some(("gold", "InProgress")));
    given_up["status"]["conditions"] = json!([{ "type": "ModifyingVolume", "status": "True" }]);
    let scene = Scene::prepared(
        config(),
        |_| (),
        |api, driver| {
            driver.script_always(Rpc::ControllerModifyVolume, || Step::fail(Code::InvalidArgument, "mock"));
            api.create_json::<VolumeAttributesClass>(attributes_class("gold", json!({ "iops": "4567" })));
            create(api, given_up, volume_with("silver"));
        },
    )
    .await;
    scene.until("it is given up", |scene| reasons(scene).contains("VolumeModifyCanceled")).await;
    assert_eq!(scene.modified(), iops(&["4567"]));
    assert_eq!(scene.conditions(), ["ModifyVolumeError"]);
}

/// It runs by itself when the class appears.
#[tokio::test(start_paused = true)]
async fn g7_a_missing_class_is_told_and_waited_for() {
    let scene = scene_of(config(), classed("platinum", "silver", None), volume_with("silver")).await;
    scene.until("the event", |scene| reasons(scene).contains("VolumeModifyFailed")).await;
    assert_eq!(events(&scene), ["VolumeModifyFailed: VAC \"platinum\" does not exist."]);
    assert_eq!(status(&scene), json!({ "status": "Pending" }));
    assert_eq!((scene.modified(), current(&scene)), (iops(&[]), "silver".to_owned()));
    scene.pass(Duration::from_secs(20)).await;
    scene.add_attributes_class(attributes_class("platinum", json!({ "iops": "9" })));
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!((scene.modified(), current(&scene)), (iops(&["9"]), "platinum".to_owned()));

    // With a target the target stays.
    let row = classed("platinum", "silver", Some(("whatever", "Infeasible")));
    let scene = scene_of(config(), row, volume_with("silver")).await;
    scene.until("pending", |scene| status(scene)["status"] == "Pending").await;
    assert_eq!(status(&scene)["targetVolumeAttributesClassName"], "whatever");
}

/// Its parameters mean something else to this driver.
#[tokio::test(start_paused = true)]
async fn a_class_of_another_driver_is_not_sent() {
    let scene = scene_of(config(), classed("theirs", "silver", None), volume_with("silver")).await;
    let theirs = json!({ "metadata": { "name": "theirs" }, "driverName": "other", "parameters": {} });
    scene.add_attributes_class(theirs);
    scene.pass(Duration::from_secs(30)).await;
    assert_eq!(scene.modified(), iops(&[]));
    assert!(events(&scene).iter().any(|event| event.contains("is of CSI driver other")), "{:?}", events(&scene));
    assert_eq!(status(&scene)["status"], "Pending");
}

/// The class goes while the driver may be working on it.
#[tokio::test(start_paused = true)]
async fn g7_a_class_that_vanishes_under_way_is_told() {
    let scene = scene_of(config(), classed("gold", "silver", None), volume_with("silver")).await;
    fail(&scene, Code::Unavailable);
    scene.until("a failure", |scene| scene.conditions().len() == 2).await;
    scene.api.remove::<VolumeAttributesClass>(None, "gold");
    scene
        .until("the event", |scene| events(scene).iter().any(|event| event.contains("VAC \"gold\" does not exist.")))
        .await;
    assert_eq!(status(&scene)["status"], "InProgress", "it may be going on");
}

/// What was written is not asked for again.
#[tokio::test(start_paused = true)]
async fn g4_a_success_that_could_not_be_written_is_written_later_and_not_asked_for_again() {
    for resource in ["persistentvolumes", "persistentvolumeclaims"] {
        let scene = scene_of(config(), classed("silver", "silver", None), volume_with("silver")).await;
        let first = usize::from(resource == "persistentvolumeclaims");
        let refusal = Reaction::Refuse(Status::internal_error("the store is full"));
        scene.api.react(Matcher::of("patch", resource).after(first).times(2), refusal);
        want(&scene, "gold");
        scene.until("gold", |scene| current(scene) == "gold").await;
        assert_eq!(scene.modified().len(), 1, "{resource}");
        scene.pass(Duration::from_secs(1)).await;
        assert!(reasons(&scene).contains("VolumeModifyFailed"), "{resource}: {:?}", events(&scene));
    }
}

/// G11: classes may not be read. Sizes do not suffer, and the claim says what is missing.
#[tokio::test(start_paused = true)]
async fn g11_without_the_right_to_read_classes_volumes_still_grow() {
    let mut both = classed("gold", "silver", None);
    both["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
    let scene = Scene::prepared(
        config(),
        |_| (),
        |api, _| {
            for verb in ["get", "list", "watch"] {
                let refusal = Reaction::Refuse(Status::forbidden("volumeattributesclasses is forbidden"));
                api.react(Matcher::of(verb, "volumeattributesclasses"), refusal);
            }
            create(api, both, volume_with("silver"));
        },
    )
    .await;
    scene.until("it has grown", |scene| scene.resize_status() == "NodeResizePending").await;
    scene
        .until("the event", |scene| events(scene).iter().any(|event| event.contains("RBAC rules of csi-resizer")))
        .await;
    assert_eq!(scene.asked().len(), 1);
}

/// One fails and the other does not: neither waits for the other, and neither speeds the other up.
#[tokio::test(start_paused = true)]
async fn a_class_that_fails_holds_up_no_size_and_a_size_that_fails_no_class() {
    let scene = scene_of(config(), classed("silver", "silver", None), volume_with("silver")).await;
    fail(&scene, Code::Internal);
    want(&scene, "gold");
    scene.pass(Duration::from_millis(100)).await;
    let more = json!({ "spec": { "resources": { "requests": { "storage": "2Gi" } } } });
    scene.api.merge::<PersistentVolumeClaim>(NAMESPACE, CLAIM, &more);
    scene.pass(Duration::from_millis(500)).await;
    assert_eq!((scene.resize_status().as_str(), scene.modified().len()), ("NodeResizePending", 1));
    scene.pass(Duration::from_secs(12)).await;
    assert_eq!(scene.modified().len(), 4);
}

/// Only one of the two can be done.
#[tokio::test(start_paused = true)]
async fn a_driver_that_only_modifies_or_only_grows_does_what_it_can() {
    use csi_proto::csi::v1::controller_service_capability::rpc::Type::{ExpandVolume, ModifyVolume};
    for can in [ExpandVolume, ModifyVolume] {
        let mut both = classed("gold", "silver", None);
        both["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
        let scene = Scene::prepared(
            config(),
            |driver| driver.controller_capabilities = vec![can],
            |api, driver| {
                super::growth::node_has_nothing(driver);
                api.create_json::<VolumeAttributesClass>(attributes_class("gold", json!({ "iops": "4567" })));
                create(api, both, volume_with("silver"));
            },
        )
        .await;
        scene.pass(Duration::from_mins(1)).await;
        let done = (scene.asked().len(), scene.modified().len());
        assert_eq!(done, if can == ExpandVolume { (1, 0) } else { (0, 1) }, "{can:?}");
    }
}

/// As growing begins anew.
#[tokio::test(start_paused = true)]
async fn n8_a_claim_that_changes_before_its_status_is_written_is_begun_anew_at_once() {
    let backoff = Backoff { base: Duration::from_mins(1), max: Duration::from_mins(5) };
    let slow = Config { backoff, ..config() };
    let conflict = || Reaction::Refuse(Status::new(409, "Conflict", "the object has been modified"));
    for wanted in ["gold", "missing"] {
        let scene = Scene::prepared(
            slow.clone(),
            |_| (),
            |api, _| {
                api.create_json::<VolumeAttributesClass>(attributes_class("gold", json!({ "iops": "4567" })));
                api.react(Matcher::of("patch", "persistentvolumeclaims").times(2), conflict());
                create(api, classed(wanted, "silver", None), volume_with("silver"));
            },
        )
        .await;
        scene.pass(Duration::from_secs(1)).await;
        let claim = scene.api.get_json::<PersistentVolumeClaim>(NAMESPACE, CLAIM).unwrap();
        if wanted == "gold" {
            assert_eq!(claim["status"]["currentVolumeAttributesClassName"], "gold");
        } else {
            assert_eq!(claim["status"]["modifyVolumeStatus"]["status"], "Pending");
        }
    }
}
