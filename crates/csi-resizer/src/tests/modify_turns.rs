//! Which class has its turn, and when: what may be going on at the driver, what failed, and what is wanted by then.

use std::time::Duration;

use csi_proto::csi::v1::{ControllerModifyVolumeRequest, ControllerModifyVolumeResponse};
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use serde_json::{Value, json};
use storage_kube::names::ClassName;
use storage_kube::wire::ClaimProgress;
use tonic::Code;

use super::modifying::{classed, current, events, fail, iops, reasons, scene_of, status, volume_with, want};
use super::objects::{CLAIM, NAMESPACE, attributes_class};
use super::scene::{Config, Scene, config, create, modified};
use crate::modify::decision::{ModifyDecision, decide};
use crate::records::ClaimRecord;

/// Next to no time: less than any delay.
const AT_ONCE: Duration = Duration::from_millis(500);

/// The driver refuses the class with these parameters and does every other.
pub(super) fn refuse(scene: &Scene, iops: &'static str, code: Code, after: Duration) {
    scene.driver.script_always(Rpc::ControllerModifyVolume, move || {
        Step::respond(move |request: &ControllerModifyVolumeRequest| {
            if request.mutable_parameters["iops"] == iops {
                return Err(tonic::Status::new(code, "mock"));
            }
            Ok(ControllerModifyVolumeResponse {})
        })
        .after(after)
    });
}

/// Contract §4.7, rows 1 to 5.
#[test]
fn the_class_that_may_be_coming_goes_before_the_one_that_is_wanted() {
    use ModifyDecision::{GoOn, Nothing, RollBack, Work};
    let class = ClassName::from;
    let (gold, bronze) = (Some(("gold", "InProgress")), class("bronze"));
    let rows = [
        ("silver", "silver", None, false, Nothing),
        ("", "", None, false, Nothing),
        ("gold", "", None, false, Work(class("gold"))),
        ("gold", "silver", None, false, Work(class("gold"))),
        ("silver", "silver", Some(("gold", "Infeasible")), false, Work(class("silver"))),
        ("", "silver", None, false, RollBack),
        ("", "silver", Some(("gold", "Pending")), false, RollBack),
        ("", "silver", Some(("gold", "Infeasible")), false, RollBack),
        ("", "silver", gold, false, GoOn(class("gold"))),
        ("", "silver", gold, true, GoOn(class("gold"))),
        ("bronze", "silver", gold, false, GoOn(class("gold"))),
        ("bronze", "silver", gold, true, Work(bronze.clone())),
        ("bronze", "silver", Some(("gold", "Pending")), false, Work(bronze.clone())),
        ("bronze", "silver", Some(("gold", "Infeasible")), false, Work(bronze.clone())),
        ("bronze", "silver", Some(("", "InProgress")), false, Work(bronze)),
    ];
    assert_eq!(rows.len(), 15);
    for (wanted, current, target, failed_finally, decision) in rows {
        let claim: ClaimProgress = serde_json::from_value(classed(wanted, current, target)).unwrap();
        let claim = ClaimRecord::of(claim).unwrap();
        assert_eq!(decide(&claim.class, failed_finally), decision, "{wanted} {current} {target:?} {failed_finally}");
    }
}

/// What was going on has failed for good: the class that is wanted has its turn, however long the other is left alone.
#[tokio::test(start_paused = true)]
async fn g7_a_class_that_fails_for_good_makes_way_at_once() {
    for code in [Code::InvalidArgument, Code::Internal] {
        let scene =
            scene_of(config(), classed("silver", "silver", Some(("gold", "InProgress"))), volume_with("silver")).await;
        fail(&scene, Code::Unavailable);
        scene.until("a call", |scene| !scene.modified().is_empty()).await;
        want(&scene, "bronze");
        scene.pass(AT_ONCE).await;
        refuse(&scene, "4567", code, Duration::ZERO);
        let before = scene.modified().len();
        scene.until("gold is asked for", |scene| scene.modified().len() > before).await;
        scene.pass(AT_ONCE).await;
        assert_eq!(current(&scene), "bronze", "{code:?}");
        assert_eq!(scene.modified()[before..], iops(&["4567", "100"])[..], "{code:?}");
    }
}

/// No class is wanted: what the driver will never do is given up as soon as it says so.
#[tokio::test(start_paused = true)]
async fn g7_a_class_that_nobody_wants_and_the_driver_refuses_is_given_up_at_once() {
    let scene = scene_of(config(), classed("gold", "silver", None), volume_with("silver")).await;
    fail(&scene, Code::Unavailable);
    scene.until("a failure", |scene| scene.conditions().len() == 2).await;
    scene.merge_claim(&json!({ "spec": { "volumeAttributesClassName": null } }));
    scene.pass(AT_ONCE).await;
    fail(&scene, Code::InvalidArgument);
    scene.until("infeasible", |scene| status(scene)["status"] == "Infeasible").await;
    scene.pass(AT_ONCE).await;
    assert_eq!(scene.conditions(), ["ModifyVolumeError"]);
    scene.pass(AT_ONCE).await;
    assert!(reasons(&scene).contains("VolumeModifyCanceled"), "{:?}", events(&scene));
}

/// The user changes the class while the driver is busy with one that it then refuses.
#[tokio::test(start_paused = true)]
async fn g7_a_class_that_is_wanted_since_the_call_began_does_not_wait_for_its_failure() {
    for code in [Code::InvalidArgument, Code::Internal] {
        let scene = scene_of(config(), classed("silver", "silver", None), volume_with("silver")).await;
        refuse(&scene, "4567", code, Duration::from_secs(2));
        want(&scene, "gold");
        scene.until("the call", |scene| scene.driver.running(Rpc::ControllerModifyVolume) == 1).await;
        want(&scene, "bronze");
        scene.pass(Duration::from_secs(4) + AT_ONCE).await;
        assert_eq!(current(&scene), "bronze", "{code:?}");
        assert_eq!(scene.modified(), iops(&["4567", "100"]), "{code:?}");
    }
}

/// Back to the class the volume has, and away from it again before the driver has answered.
#[tokio::test(start_paused = true)]
async fn g7_the_class_a_volume_has_already_is_finished_and_then_another_begun() {
    let going_back = classed("gold", "silver", Some(("silver", "InProgress")));
    let scene = scene_of(config(), going_back, volume_with("silver")).await;
    scene.pass(AT_ONCE).await;
    assert_eq!(scene.modified(), iops(&["3000", "4567"]));
    assert_eq!(current(&scene), "gold");
}

/// Somebody else writes to the claim during the call: the status says all the same how it ended.
#[tokio::test(start_paused = true)]
async fn g4_how_a_call_failed_is_saved_on_a_claim_that_has_changed_meanwhile() {
    let scene = scene_of(config(), classed("silver", "silver", None), volume_with("silver")).await;
    refuse(&scene, "4567", Code::InvalidArgument, Duration::from_secs(2));
    want(&scene, "gold");
    scene.until("the call", |scene| scene.driver.running(Rpc::ControllerModifyVolume) == 1).await;
    scene.merge_claim(&json!({ "metadata": { "annotations": { "who": "somebody" } } }));
    scene.pass(Duration::from_secs(2) + AT_ONCE).await;
    assert_eq!(status(&scene)["status"], "Infeasible");
    assert_eq!(scene.conditions(), ["ModifyingVolume", "ModifyVolumeError"]);
    scene.pass(Duration::from_mins(4)).await;
    assert_eq!(scene.modified().len(), 1);
}

/// A refusal that could not be saved is asked for again until the status says it.
#[tokio::test(start_paused = true)]
async fn g4_a_refusal_that_cannot_be_saved_is_tried_again_with_backoff() {
    let scene = scene_of(config(), classed("silver", "silver", None), volume_with("silver")).await;
    fail(&scene, Code::InvalidArgument);
    let refusal = Reaction::Refuse(Status::internal_error("the store is full"));
    scene.api.react(Matcher::of("patch", "persistentvolumeclaims").after(1).times(1), refusal);
    want(&scene, "gold");
    scene.pass(AT_ONCE).await;
    assert_eq!((status(&scene)["status"].as_str(), scene.modified().len()), (Some("InProgress"), 1));
    scene.pass(Duration::from_secs(5)).await;
    assert_eq!((status(&scene)["status"].as_str(), scene.modified().len()), (Some("Infeasible"), 2));
}

/// The class that may be coming is gone, and then there again: which class is wanted does not matter.
#[tokio::test(start_paused = true)]
async fn g7_a_class_that_was_deleted_under_way_is_gone_on_with_when_it_is_back() {
    for wanted in [json!("bronze"), Value::Null] {
        let scene = scene_of(config(), classed("gold", "silver", None), volume_with("silver")).await;
        fail(&scene, Code::Unavailable);
        scene.until("a failure", |scene| scene.conditions().len() == 2).await;
        scene.api.remove::<VolumeAttributesClass>(None, "gold");
        scene.merge_claim(&json!({ "spec": { "volumeAttributesClassName": wanted } }));
        let gone = |scene: &Scene| events(scene).iter().any(|event| event.contains("VAC \"gold\" does not exist."));
        scene.until("the event", gone).await;
        scene.pass(Duration::from_secs(10)).await;
        let before = scene.modified().len();
        scene.driver.script_always(Rpc::ControllerModifyVolume, modified);
        scene.add_attributes_class(attributes_class("gold", json!({ "iops": "4567" })));
        scene.pass(AT_ONCE).await;
        assert_eq!(scene.modified().get(before), iops(&["4567"]).first(), "{wanted}");
        assert_eq!(current(&scene), wanted.as_str().unwrap_or("gold"));
    }
}

/// The class is created, and right after it the claim names it: the cache of classes is late, or never comes to be.
#[tokio::test(start_paused = true)]
async fn g12_a_class_that_the_cache_does_not_know_is_asked_for_before_it_is_called_missing() {
    let never = || Reaction::Refuse(Status::internal_error("not today"));
    for (case, refused, watch) in [("late", &[][..], Reaction::Hang), ("never", &["list"][..], never())] {
        let scene = Scene::prepared(
            config(),
            |_| (),
            |api, _| {
                api.disable_watch_list();
                // The first one asks for the list too, and is refused.
                api.react(Matcher::of("watch", "volumeattributesclasses").after(1), watch);
                for verb in refused {
                    api.react(Matcher::of(verb, "volumeattributesclasses"), never());
                }
                create(api, classed("silver", "silver", None), volume_with("silver"));
            },
        )
        .await;
        scene.pass(AT_ONCE).await;
        let classes = scene.term().caches.attributes_classes.clone().unwrap();
        assert_eq!(classes.is_synced(), case == "late");
        scene.add_attributes_class(attributes_class("gold", json!({ "iops": "4567" })));
        want(&scene, "gold");
        scene.pass(AT_ONCE).await;
        assert_eq!(current(&scene), "gold", "{case}");
        assert!(!reasons(&scene).contains("VolumeModifyFailed"), "{:?}", events(&scene));
    }
}

/// The process ends while the driver may be working on gold, and bronze is wanted when the next one starts. That the last
/// call failed for good is not known any more.
#[tokio::test(start_paused = true)]
async fn g7_a_process_that_takes_over_in_the_middle_finishes_the_class_that_may_be_coming() {
    for code in [Code::Unavailable, Code::Internal] {
        let scene = scene_of(config(), classed("gold", "silver", None), volume_with("silver")).await;
        fail(&scene, code);
        scene.until("a failure", |scene| scene.conditions().len() == 2).await;
        let (api, driver) = scene.stop().await;
        let before = driver.calls_of(Rpc::ControllerModifyVolume).len();
        driver.script_always(Rpc::ControllerModifyVolume, modified);
        let bronze = json!({ "spec": { "volumeAttributesClassName": "bronze" } });
        api.merge::<PersistentVolumeClaim>(NAMESPACE, CLAIM, &bronze);
        let scene = Scene::again(config(), (api, driver)).await;
        scene.pass(AT_ONCE).await;
        assert_eq!(current(&scene), "bronze", "{code:?}");
        assert_eq!(scene.modified()[before..], iops(&["4567", "100"])[..], "{code:?}");
        assert_eq!(scene.conditions(), [""; 0]);
    }
}

/// The driver was not asked, and the claim says why.
#[tokio::test(start_paused = true)]
async fn what_fails_before_the_call_is_told_and_tried_again() {
    let mut volume = volume_with("silver");
    volume["spec"]["csi"]["controllerExpandSecretRef"] = json!({ "name": "late", "namespace": "kube-system" });
    let scene = scene_of(config(), classed("gold", "silver", None), volume).await;
    scene.pass(AT_ONCE).await;
    assert!(events(&scene).iter().any(|event| event.contains("failed to get secret")), "{:?}", events(&scene));
    assert_eq!(scene.modified(), iops(&[]));
    scene.api.create_json::<Secret>(json!({ "metadata": { "name": "late", "namespace": "kube-system" } }));
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(current(&scene), "gold");
}

/// A hundred claims fail together with ten workers: each at its own pace, without a class before.
#[tokio::test(start_paused = true)]
async fn g4_many_claims_that_fail_at_once_each_keep_their_pace() {
    const CLAIMS: usize = 100;
    for code in [Code::Internal, Code::Unavailable] {
        let scene = Scene::prepared(
            Config { workers: 10, ..config() },
            |_| (),
            |api, driver| {
                driver.script_always(Rpc::ControllerModifyVolume, move || Step::fail(code, "mock"));
                api.create_json::<VolumeAttributesClass>(attributes_class("gold", json!({ "iops": "4567" })));
                for number in 0..CLAIMS {
                    let (mut claim, mut volume) = (classed("gold", "", None), volume_with(""));
                    claim["metadata"]["name"] = json!(format!("data-{number}"));
                    claim["spec"]["volumeName"] = json!(format!("pv-{number}"));
                    volume["metadata"]["name"] = json!(format!("pv-{number}"));
                    volume["spec"]["csi"]["volumeHandle"] = json!(format!("handle-{number}"));
                    create(api, claim, volume);
                }
            },
        )
        .await;
        scene.pass(Duration::from_secs(12)).await;
        assert_eq!(scene.modified().len(), 4 * CLAIMS, "{code:?}");
        for number in 0..CLAIMS {
            let claim = scene.api.get_json::<PersistentVolumeClaim>(NAMESPACE, &format!("data-{number}")).unwrap();
            assert_eq!(claim["status"]["conditions"].as_array().unwrap().len(), 2, "{claim}");
        }
        scene.driver.script_always(Rpc::ControllerModifyVolume, modified);
        scene.pass(Duration::from_secs(10)).await;
        assert_eq!(scene.modified().len(), 5 * CLAIMS, "{code:?}");
        assert_eq!((scene.term().memories.len(), scene.term().pace.len()), (0, 0));
    }
}
