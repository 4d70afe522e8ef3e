//! Volumes grow, once each.

use anyhow::Result;
use e2e::Cluster;
use e2e::resize_scene::{FILE_SYSTEM_RESIZE_PENDING, Fields, RESIZES_WITH_NODE, ResizeScene, capacity, has_condition};
use e2e::scene::PATIENCE;
use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::json;

/// `spec.capacity.storage`.
fn size(volume: &PersistentVolume) -> Option<&str> {
    Some(&volume.spec.as_ref()?.capacity.as_ref()?.get("storage")?.0)
}

#[tokio::test]
async fn a_volume_grows_by_itself() -> Result<()> {
    let scene = ResizeScene::start(Cluster::shared().await?, "grow", &[]).await?;
    let handle = scene.add_claim("data", &Fields::default()).await?;
    let mut resizer = scene.leader().await?;
    scene.ask("data", "2Mi").await?;
    let claim = scene.has("data", "2Mi").await?;
    let status = claim.status.unwrap_or_default();
    assert!(status.conditions.unwrap_or_default().is_empty(), "nothing is said to be going on");
    let not_required = "volume.kubernetes.io/node-expansion-not-required";
    assert_eq!(claim.metadata.annotations.unwrap_or_default().get(not_required).map(String::as_str), Some("true"));
    scene.volume("data", "of 2 MiB", |volume| size(volume) == Some("2Mi")).await?;
    scene.event("data", "VolumeResizeSuccessful", "").await?;
    assert_eq!(scene.course_of(&handle)?, ["ControllerExpandVolume OK"]);
    assert_eq!(scene.calls_about(&handle)?[0].request["capacity_range"]["required_bytes"], "2097152");
    assert_eq!(resizer.process().exit_code()?, None);
    Ok(())
}

/// The claim says that the node is waited for, and keeps saying it until the node has done its part.
#[tokio::test]
async fn a_file_system_is_left_to_the_node() -> Result<()> {
    let scene = ResizeScene::start(Cluster::shared().await?, "grow-node", &[RESIZES_WITH_NODE]).await?;
    let handle = scene.add_claim("data", &Fields::default()).await?;
    let _resizer = scene.leader().await?;
    scene.ask("data", "2Mi").await?;
    let pending = |status: &_| has_condition(status, FILE_SYSTEM_RESIZE_PENDING);
    let claim = scene.status("data", "waiting for the node", pending).await?;
    assert_eq!(claim.status.as_ref().and_then(capacity), Some("1Mi"), "the node has not said so");
    scene.volume("data", "of 2 MiB", |volume| size(volume) == Some("2Mi")).await?;
    scene.event("data", "FileSystemResizeRequired", "").await?;
    scene.file_system_has_grown("data").await?;
    scene.has("data", "2Mi").await?;
    scene.ask("data", "3Mi").await?;
    scene.status("data", "waiting for the node again", pending).await?;
    scene.file_system_has_grown("data").await?;
    scene.has("data", "3Mi").await?;
    assert_eq!(scene.course_of(&handle)?, ["ControllerExpandVolume OK"; 2], "one call for each size");
    Ok(())
}

/// Many at once: one call each, and no status write ends up in another's.
#[tokio::test]
async fn one_call_for_each_of_many() -> Result<()> {
    const MANY: usize = 30;
    let scene = ResizeScene::start(Cluster::shared().await?, "grow-many", &[]).await?;
    let names: Vec<_> = (0..MANY).map(|n| format!("data-{n}")).collect();
    let fields = Fields::default();
    let handles = futures_util::future::try_join_all(names.iter().map(|name| scene.add_claim(name, &fields))).await?;
    let _resizer = scene.leader().await?;
    for (n, name) in names.iter().enumerate() {
        scene.ask(name, &format!("{}Mi", 2 + n % 3)).await?;
    }
    for (n, name) in names.iter().enumerate() {
        scene.has(name, &format!("{}Mi", 2 + n % 3)).await?;
    }
    for handle in &handles {
        assert_eq!(scene.course_of(handle)?, ["ControllerExpandVolume OK"]);
    }
    Ok(())
}

/// A claim that was bigger before the resizer came.
#[tokio::test]
async fn a_claim_that_waits_when_the_resizer_starts_grows() -> Result<()> {
    let scene = ResizeScene::start(Cluster::shared().await?, "grow-before", &[]).await?;
    let handle = scene.add_claim("data", &Fields::default()).await?;
    scene.ask("data", "2Mi").await?;
    let _resizer = scene.leader().await?;
    scene.has("data", "2Mi").await?;
    assert_eq!(scene.course_of(&handle)?, ["ControllerExpandVolume OK"]);
    Ok(())
}

/// The claim grows while the driver is at work on an earlier wish: both are done, one after the other.
#[tokio::test]
async fn a_claim_that_grows_on_under_way_gets_its_last_size() -> Result<()> {
    let flags = ["--log-level=debug", "--fault=ControllerExpandVolume:delay=2s,times=1"];
    let mut scene = ResizeScene::start(Cluster::shared().await?, "grow-on", &flags).await?;
    let handle = scene.add_claim("data", &Fields::default()).await?;
    let _resizer = scene.leader().await?;
    scene.ask("data", "2Mi").await?;
    scene.driver.called("ControllerExpandVolume", PATIENCE).await?;
    scene.ask("data", "3Mi").await?;
    scene.has("data", "3Mi").await?;
    let asked: Vec<_> = scene
        .calls_about(&handle)?
        .iter()
        .map(|call| call.request["capacity_range"]["required_bytes"].clone())
        .collect();
    assert_eq!(asked, [json!("2097152"), json!("3145728")]);
    Ok(())
}

/// What the driver says is recorded when it is more than was asked for.
#[tokio::test]
async fn more_than_was_asked_for_is_recorded() -> Result<()> {
    let scene = ResizeScene::start(Cluster::shared().await?, "grow-more", &["--answered-size=3145728"]).await?;
    let handle = scene.add_claim("data", &Fields::default()).await?;
    let _resizer = scene.leader().await?;
    scene.ask("data", "2Mi").await?;
    scene.has("data", "3Mi").await?;
    scene.volume("data", "of 3 MiB", |volume| size(volume) == Some("3Mi")).await?;
    assert_eq!(scene.course_of(&handle)?, ["ControllerExpandVolume OK"]);
    Ok(())
}

/// A driver that makes volumes smaller than asked for, or says so: what it says is recorded, and it is asked again with backoff.
#[tokio::test]
async fn less_than_was_asked_for_is_recorded_and_asked_for_again_in_time() -> Result<()> {
    let scene = ResizeScene::start(Cluster::shared().await?, "grow-less", &["--answered-size=2097152"]).await?;
    let handle = scene.add_claim("data", &Fields::default()).await?;
    let resizer = scene.replica()?.flag("--retry-interval-start=2m");
    let _resizer = e2e::scene::leading(resizer).await?;
    scene.ask("data", "4Mi").await?;
    scene.event("data", "VolumeResizeFailed", "less than").await?;
    scene.volume("data", "of 2 MiB", |volume| size(volume) == Some("2Mi")).await?;
    assert_eq!(scene.course_of(&handle)?, ["ControllerExpandVolume OK"], "not again before the backoff is over");
    Ok(())
}

/// A driver that says that it is smaller than it was, or nothing: neither volume nor claim say so.
#[tokio::test]
async fn a_size_that_cannot_be_is_not_recorded() -> Result<()> {
    for answer in ["0", "524288", "-1"] {
        let flag = format!("--answered-size={answer}");
        let scene = ResizeScene::start(Cluster::shared().await?, "grow-nonsense", &[&flag]).await?;
        scene.add_claim("data", &Fields::default()).await?;
        let _resizer = e2e::scene::leading(scene.replica()?.flag("--retry-interval-start=2m")).await?;
        scene.ask("data", "2Mi").await?;
        scene.event("data", "VolumeResizeFailed", "").await?;
        let volume = scene.volumes().get(&scene.name("data")).await?;
        assert_eq!(size(&volume), Some("1Mi"), "{answer}");
        let claim = scene.claims().get("data").await?;
        assert_eq!(claim.status.as_ref().and_then(capacity), Some("1Mi"), "{answer}");
    }
    Ok(())
}
