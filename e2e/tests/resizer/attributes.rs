//! Volumes change their class of attributes (KEP-3751).

use anyhow::Result;
use e2e::Cluster;
use e2e::resize_scene::{Fields, ResizeScene, capacity};
use k8s_openapi::api::core::v1::PersistentVolumeClaimStatus;
use serde_json::json;

const PATIENT: &str = "--retry-interval-start=10m";
const PATIENT_MAX: &str = "--retry-interval-max=10m";

fn state(status: &PersistentVolumeClaimStatus) -> Option<&str> {
    status.modify_volume_status.as_ref().map(|modify| modify.status.as_str())
}

fn has_class(scene: &ResizeScene, class: &str) -> impl Fn(&PersistentVolumeClaimStatus) -> bool {
    let wanted = scene.name(class);
    move |status| state(status).is_none() && status.current_volume_attributes_class_name.as_ref() == Some(&wanted)
}

async fn scene(purpose: &str, flags: &[&str]) -> Result<ResizeScene> {
    let scene = ResizeScene::start(Cluster::shared().await?, purpose, flags).await?;
    scene.add_attributes_class("silver", &json!({ "iops": "100" })).await?;
    scene.add_attributes_class("gold", &json!({ "iops": "700" })).await?;
    Ok(scene)
}

fn of_silver() -> Fields {
    Fields { both: json!({ "volumeAttributesClassName": "silver.SITE" }), ..Fields::default() }
}

#[tokio::test]
async fn a_volume_changes_its_class() -> Result<()> {
    let scene = scene("class", &[]).await?;
    let handle = scene.add_claim("data", &of_silver()).await?;
    let _resizer = scene.leader().await?;
    scene.ask_class("data", "gold").await?;
    scene.status("data", "gold", has_class(&scene, "gold")).await?;
    let gold = scene.name("gold");
    let volume = scene.volumes().get(&scene.name("data")).await?;
    assert_eq!(volume.spec.and_then(|spec| spec.volume_attributes_class_name), Some(gold.clone()));
    scene.event("data", "VolumeModifySuccessful", &gold).await?;
    assert_eq!(scene.course_of(&handle)?, ["ControllerModifyVolume OK"]);
    assert_eq!(scene.calls_about(&handle)?[0].request["mutable_parameters"], json!({ "iops": "700" }));
    Ok(())
}

#[tokio::test]
async fn size_and_class_at_once_are_one_call_each() -> Result<()> {
    let scene = scene("class-size", &[]).await?;
    let handle = scene.add_claim("data", &of_silver()).await?;
    let _resizer = scene.leader().await?;
    let spec = json!({ "resources": { "requests": { "storage": "2Mi" } },
        "volumeAttributesClassName": scene.name("gold") });
    scene.patch("data", &json!({ "spec": spec })).await?;
    let gold = has_class(&scene, "gold");
    scene.status("data", "2Mi and gold", |status| capacity(status) == Some("2Mi") && gold(status)).await?;
    assert_eq!(scene.course_of(&handle)?, ["ControllerExpandVolume OK", "ControllerModifyVolume OK"]);
    let failed = |event: &k8s_openapi::api::core::v1::Event| event.type_.as_deref() == Some("Warning");
    let warnings: Vec<_> = scene.events("data").await?.into_iter().filter(failed).collect();
    assert!(warnings.is_empty(), "{warnings:#?}");
    Ok(())
}

/// The claim says that it waits, and is worked on when the class is there.
#[tokio::test]
async fn g7_a_class_that_is_missing_is_waited_for() -> Result<()> {
    let scene = scene("class-missing", &[]).await?;
    let handle = scene.add_claim("data", &of_silver()).await?;
    let resizer = scene.replica()?.flag(PATIENT).flag(PATIENT_MAX);
    let _resizer = e2e::scene::leading(resizer).await?;
    scene.ask_class("data", "late").await?;
    scene.status("data", "Pending", |status| state(status) == Some("Pending")).await?;
    scene.event("data", "VolumeModifyFailed", "does not exist").await?;
    assert_eq!(scene.course_of(&handle)?, [""; 0]);
    scene.add_attributes_class("late", &json!({ "iops": "5" })).await?;
    scene.status("data", "of the class", has_class(&scene, "late")).await?;
    assert_eq!(scene.course_of(&handle)?, ["ControllerModifyVolume OK"]);
    Ok(())
}

#[tokio::test]
async fn g7_from_a_class_that_cannot_be_there_is_a_way_back() -> Result<()> {
    let scene = scene("class-back", &[]).await?;
    scene.add_attributes_class("odd", &json!({ "colour": "blue" })).await?;
    let handle = scene.add_claim("data", &of_silver()).await?;
    let resizer = scene.replica()?.flag(PATIENT).flag(PATIENT_MAX);
    let _resizer = e2e::scene::leading(resizer).await?;
    scene.ask_class("data", "odd").await?;
    scene.status("data", "Infeasible", |status| state(status) == Some("Infeasible")).await?;
    scene.ask_class("data", "silver").await?;
    scene.status("data", "silver again", has_class(&scene, "silver")).await?;
    let course = ["ControllerModifyVolume INVALID_ARGUMENT", "ControllerModifyVolume OK"];
    assert_eq!(scene.course_of(&handle)?, course, "the driver may have begun: back is a call, too");
    Ok(())
}

/// A class of another driver means nothing to this one.
#[tokio::test]
async fn a_class_of_another_driver_is_refused_without_a_call() -> Result<()> {
    let scene = scene("class-foreign", &[]).await?;
    scene.add_attributes_class_of("none.example.com", "foreign", &json!({ "iops": "1" })).await?;
    let handle = scene.add_claim("data", &of_silver()).await?;
    let _resizer = scene.leader().await?;
    scene.ask_class("data", "foreign").await?;
    scene.status("data", "Pending", |status| state(status) == Some("Pending")).await?;
    scene.event("data", "VolumeModifyFailed", "none.example.com").await?;
    assert_eq!(scene.course_of(&handle)?, [""; 0]);
    Ok(())
}
