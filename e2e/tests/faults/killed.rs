//! The provisioner is killed at the worst moments.

use anyhow::Result;
use e2e::eventually;
use e2e::proxy::{Fault, On, Proxy};
use e2e::scene::{PATIENCE, Scene, leading};
use serde_json::json;

use crate::lease::Brief as _;

/// Slow before the work in one test and after it in the other: either way the work is done, and the answer finds nobody.
const SLOW_WORK: &str = "--fault=CreateVolume:delay=2s,times=1";
const SLOW_ANSWER: &str = "--fault=CreateVolume:answer-delay=2s,times=1";

#[tokio::test]
async fn killed_before_the_driver_has_done_the_work() -> Result<()> {
    killed_during_create_volume("killed-before-work", SLOW_WORK).await
}

#[tokio::test]
async fn killed_after_the_driver_has_done_the_work() -> Result<()> {
    killed_during_create_volume("killed-after-work", SLOW_ANSWER).await
}

async fn killed_during_create_volume(purpose: &str, fault: &str) -> Result<()> {
    let mut scene = Scene::start(purpose, &["--log-level=debug", fault]).await?;
    kill_during_create_volume(&mut scene).await?;
    let _next = scene.replica()?.brief().start()?;
    one_volume_for_the_claim(&scene).await
}

#[tokio::test]
async fn killed_between_the_answer_and_the_volume_object() -> Result<()> {
    let scene = Scene::start("killed-unsaved", &[]).await?;
    kill_before_the_volume_is_saved(&scene).await?;
    let _next = scene.replica()?.brief().start()?;
    one_volume_for_the_claim(&scene).await?;
    assert_eq!(scene.codes("CreateVolume")?, ["OK", "OK"]);
    Ok(())
}

/// The known leak: what was asked of the driver is remembered by the process that died, and the claim is gone before
/// another runs. Once the intent is durable, the next leader deletes the volume, and these assertions turn round.
#[tokio::test]
async fn a1_killed_during_create_volume_with_the_claim_deleted_meanwhile_leaks_the_volume() -> Result<()> {
    let mut scene = Scene::start("a1-during", &["--log-level=debug", SLOW_WORK]).await?;
    kill_during_create_volume(&mut scene).await?;
    the_volume_leaks_when_the_claim_goes(&scene).await
}

/// As above.
#[tokio::test]
async fn a1_killed_before_the_volume_object_with_the_claim_deleted_meanwhile_leaks_the_volume() -> Result<()> {
    let scene = Scene::start("a1-unsaved", &[]).await?;
    kill_before_the_volume_is_saved(&scene).await?;
    the_volume_leaks_when_the_claim_goes(&scene).await
}

async fn kill_during_create_volume(scene: &mut Scene) -> Result<()> {
    let mut first = leading(scene.replica()?.brief()).await?;
    scene.claim("data", &json!({})).await?;
    scene.driver.called("CreateVolume", PATIENCE).await?;
    first.process().kill().await?;
    assert_eq!(scene.codes("CreateVolume")?, [""; 0], "it was killed while the call was running");
    // The driver does not know that nobody waits.
    eventually::eventually("the end of the driver's work", PATIENCE, async || {
        Ok((scene.codes("CreateVolume")?.len() == 1).then_some(()))
    })
    .await?;
    assert_eq!((scene.backend_volumes()?, scene.volume_objects().await?), (1, 0));
    Ok(())
}

async fn kill_before_the_volume_is_saved(scene: &Scene) -> Result<()> {
    let proxy = Proxy::start(&scene.account.kubeconfig).await?;
    let held = proxy.fault(On::only("create", "persistentvolumes"), Fault::Hold);
    let mut first = leading(scene.replica_behind(&proxy)?.brief()).await?;
    scene.claim("data", &json!({})).await?;
    held.met(PATIENCE).await?;
    first.process().kill().await?;
    drop(held);
    assert_eq!(scene.codes("CreateVolume")?, ["OK"]);
    assert_eq!((scene.backend_volumes()?, scene.volume_objects().await?), (1, 0));
    Ok(())
}

async fn one_volume_for_the_claim(scene: &Scene) -> Result<()> {
    let name = scene.bound("data").await?;
    assert_eq!((scene.backend_volumes()?, scene.volume_objects().await?), (1, 1));
    let names: Vec<_> = scene.driver.calls("CreateVolume")?.iter().map(|call| call.request["name"].clone()).collect();
    assert!(names.iter().all(|found| *found == json!(name)), "repeated under one name: {names:?}");
    assert_eq!(scene.codes("DeleteVolume")?, [""; 0]);
    scene.delete_claim("data").await?;
    scene.gone(&name).await
}

async fn the_volume_leaks_when_the_claim_goes(scene: &Scene) -> Result<()> {
    scene.delete_claim("data").await?;
    eventually::gone(&scene.claims(), "data", PATIENCE).await?;
    let _next = scene.replica()?.brief().start()?;
    scene.claim("other", &json!({})).await?;
    let other = scene.bound("other").await?;
    scene.delete_claim("other").await?;
    eventually::gone(&scene.volumes(), &other, PATIENCE).await?;
    assert_eq!(scene.volume_objects().await?, 0);
    assert_eq!(scene.backend_volumes()?, 1, "without a durable record nobody knows of the first volume");
    assert_eq!(scene.codes("DeleteVolume")?, ["OK"], "that of the other claim");
    Ok(())
}
