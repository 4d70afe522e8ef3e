//! A size that cannot be had: the claim says so, and may ask for less (KEP-1790).

use anyhow::Result;
use e2e::Cluster;
use e2e::resize_scene::{Fields, ResizeScene, allocated, has_condition, resize_status};

const REFUSED: &str = "ControllerResizeInfeasible";
/// One try, and no second one while the test looks.
const PATIENT: &str = "--retry-interval-max=10m";

#[tokio::test]
async fn g1_a_size_that_the_driver_refuses_may_be_lowered() -> Result<()> {
    let scene = ResizeScene::start(Cluster::shared().await?, "recover", &["--max-volume-size=4194304"]).await?;
    let handle = scene.add_claim("data", &Fields::default()).await?;
    let _resizer = e2e::scene::leading(scene.replica()?.flag(PATIENT)).await?;
    scene.ask("data", "8Mi").await?;
    let claim = scene.status("data", "refused", |status| resize_status(status) == Some(REFUSED)).await?;
    let status = claim.status.unwrap_or_default();
    assert_eq!(allocated(&status), Some("8Mi"));
    assert!(has_condition(&status, "ControllerResizeError"), "{status:?}");
    scene.ask("data", "2Mi").await?;
    let claim = scene.has("data", "2Mi").await?;
    let status = claim.status.unwrap_or_default();
    assert_eq!(allocated(&status), Some("2Mi"), "the quota is free again");
    assert!(status.conditions.unwrap_or_default().is_empty());
    assert_eq!(scene.course_of(&handle)?, ["ControllerExpandVolume OUT_OF_RANGE", "ControllerExpandVolume OK"]);
    Ok(())
}

/// Nobody knows whether the first size was reached: less must not be asked for before the driver has said so.
#[tokio::test]
async fn g1_a_size_that_may_have_been_reached_is_asked_for_until_the_driver_decides() -> Result<()> {
    let flags = ["--fault=ControllerExpandVolume:after=UNAVAILABLE,times=2"];
    let scene = ResizeScene::start(Cluster::shared().await?, "recover-uncertain", &flags).await?;
    let handle = scene.add_claim("data", &Fields::default()).await?;
    let _resizer = e2e::scene::leading(scene.replica()?.flag("--retry-interval-start=500ms")).await?;
    scene.ask("data", "4Mi").await?;
    scene.event("data", "VolumeResizeFailed", "").await?;
    scene.ask("data", "2Mi").await?;
    // The driver has made it bigger; the claim has what the volume has.
    scene.has("data", "4Mi").await?;
    let calls = scene.calls_about(&handle)?;
    let small: Vec<_> =
        calls.iter().filter(|call| call.request["capacity_range"]["required_bytes"] != "4194304").collect();
    assert!(small.is_empty(), "less than may have been reached: {small:#?}");
    Ok(())
}

/// The resizer that was refused is gone, and the next one finds what it has written.
#[tokio::test]
async fn g1_a_lowered_size_is_had_by_the_next_resizer() -> Result<()> {
    let scene = ResizeScene::start(Cluster::shared().await?, "recover-next", &["--max-volume-size=4194304"]).await?;
    let handle = scene.add_claim("data", &Fields::default()).await?;
    let mut first = e2e::scene::leading(scene.replica()?.flag(PATIENT)).await?;
    scene.ask("data", "8Mi").await?;
    scene.status("data", "refused", |status| resize_status(status) == Some(REFUSED)).await?;
    assert_eq!(first.process().stop().await?, 0);
    scene.ask("data", "2Mi").await?;
    let _second = e2e::scene::leading(scene.replica()?.flag(PATIENT)).await?;
    scene.has("data", "2Mi").await?;
    assert_eq!(scene.course_of(&handle)?, ["ControllerExpandVolume OUT_OF_RANGE", "ControllerExpandVolume OK"]);
    Ok(())
}

/// A volume that the driver cannot grow while it is used: it is left alone until the pod is gone, and grows at once then.
#[tokio::test]
async fn a_volume_in_use_grows_when_its_pod_is_gone() -> Result<()> {
    let flags = ["--fault=ControllerExpandVolume:code=FAILED_PRECONDITION,times=1"];
    let scene = ResizeScene::start(Cluster::shared().await?, "in-use", &flags).await?;
    let handle = scene.add_claim("data", &Fields::default()).await?;
    scene.add_pod("user", "data").await?;
    // The second try comes soon; what the pod's end brings about does not wait for a third.
    let resizer = scene.replica()?.flag("--retry-interval-start=500ms").flag("--retry-interval-max=10m");
    let _resizer = e2e::scene::leading(resizer).await?;
    scene.ask("data", "2Mi").await?;
    scene.event("data", "VolumeResizeFailed", "only supports offline expansion").await?;
    assert_eq!(scene.course_of(&handle)?, ["ControllerExpandVolume FAILED_PRECONDITION"]);
    scene.remove_pod("user").await?;
    scene.has("data", "2Mi").await?;
    let course = ["ControllerExpandVolume FAILED_PRECONDITION", "ControllerExpandVolume OK"];
    assert_eq!(scene.course_of(&handle)?, course);
    Ok(())
}
