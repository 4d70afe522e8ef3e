//! The resizer is killed in the middle of a call, and between the call and each of its writes; what is left is a claim, a volume
//! and a driver of one mind.

use anyhow::Result;
use e2e::proxy::{Fault, On, Proxy};
use e2e::resize_scene::{Fields, RESIZES, ResizeScene, allocated, capacity};
use e2e::scene::{PATIENCE, leading};
use e2e::sidecar::{Role, Settings};
use e2e::{Cluster, Sidecar};
use serde_json::json;

use crate::leadership::brief;

/// Calls show in the driver's log when they arrive.
const TELLS: &str = "--log-level=debug";
const SLOW_WORK: &str = "--fault=ControllerExpandVolume:delay=2s,times=1";
const SLOW_ANSWER: &str = "--fault=ControllerExpandVolume:answer-delay=2s,times=1";
const STATUS: On = On::only("patch", "persistentvolumeclaims/status");
const VOLUME: On = On::only("patch", "persistentvolumes");

/// Claim `data` of 1 MiB, and its handle.
async fn scene(purpose: &str, faults: &[&str]) -> Result<(ResizeScene, String)> {
    let flags: Vec<_> = [RESIZES, TELLS].iter().chain(faults).copied().collect();
    let scene = ResizeScene::start(Cluster::shared().await?, purpose, &flags).await?;
    let handle = scene.add_claim("data", &Fields::default()).await?;
    Ok((scene, handle))
}

/// A leader that reaches the API server through a proxy.
async fn leader_behind(scene: &ResizeScene, proxy: &Proxy) -> Result<Sidecar> {
    let settings = Settings::new(Role::Resizer, proxy.kubeconfig(), &scene.driver.address())?;
    leading(brief(scene.competing(settings))).await
}

async fn next_leader(scene: &ResizeScene) -> Result<Sidecar> {
    leading(brief(scene.replica()?)).await
}

/// Claim and volume have the size, and the driver was asked for nothing else.
async fn has(scene: &ResizeScene, handle: &str, size: &str, bytes: &str) -> Result<()> {
    let claim = scene.has("data", size).await?;
    assert_eq!(claim.status.as_ref().and_then(allocated), Some(size));
    let volume = scene.volumes().get(&scene.name("data")).await?;
    let of_volume = json!(volume.spec.unwrap_or_default().capacity);
    assert_eq!(of_volume["storage"], size);
    let calls = scene.calls_about(handle)?;
    let others: Vec<_> =
        calls.iter().filter(|call| call.request["capacity_range"]["required_bytes"] != bytes).collect();
    assert!(others.is_empty(), "another size: {others:#?}");
    Ok(())
}

#[tokio::test]
async fn killed_while_the_driver_grows_the_volume() -> Result<()> {
    for fault in [SLOW_WORK, SLOW_ANSWER] {
        let (mut scene, handle) = scene("grow-killed", &[fault]).await?;
        let mut first = next_leader(&scene).await?;
        scene.ask("data", "2Mi").await?;
        scene.driver.called("ControllerExpandVolume", PATIENCE).await?;
        first.process().kill().await?;
        let claim = scene.claims().get("data").await?;
        assert_eq!(claim.status.as_ref().and_then(allocated), Some("2Mi"), "written before the call");
        let _second = next_leader(&scene).await?;
        has(&scene, &handle, "2Mi", "2097152").await?;
    }
    Ok(())
}

/// Nobody knows whether the volume has grown, so the next resizer asks for the size that was begun, not for less.
#[tokio::test]
async fn killed_while_the_driver_grows_the_volume_and_lowered_before_the_next_comes() -> Result<()> {
    let (mut scene, handle) = scene("grow-lowered", &[SLOW_ANSWER]).await?;
    let mut first = next_leader(&scene).await?;
    scene.ask("data", "4Mi").await?;
    scene.driver.called("ControllerExpandVolume", PATIENCE).await?;
    first.process().kill().await?;
    scene.ask("data", "2Mi").await?;
    let _second = next_leader(&scene).await?;
    has(&scene, &handle, "4Mi", "4194304").await
}

#[tokio::test]
async fn killed_before_the_status_says_that_it_begins() -> Result<()> {
    let (scene, handle) = scene("grow-unbegun", &[]).await?;
    let proxy = Proxy::start(&scene.account.kubeconfig).await?;
    let held = proxy.fault(STATUS, Fault::Hold);
    let mut first = leader_behind(&scene, &proxy).await?;
    scene.ask("data", "4Mi").await?;
    held.met(PATIENCE).await?;
    first.process().kill().await?;
    drop(held);
    assert_eq!(scene.course_of(&handle)?, [""; 0], "no call before the status says so");
    // Nothing was begun, so less may be asked for.
    scene.ask("data", "2Mi").await?;
    let _second = next_leader(&scene).await?;
    has(&scene, &handle, "2Mi", "2097152").await
}

#[tokio::test]
async fn killed_between_the_call_and_the_volume_object() -> Result<()> {
    let (scene, handle) = scene("grow-unsaved", &[]).await?;
    let proxy = Proxy::start(&scene.account.kubeconfig).await?;
    let held = proxy.fault(VOLUME, Fault::Hold);
    let mut first = leader_behind(&scene, &proxy).await?;
    scene.ask("data", "2Mi").await?;
    held.met(PATIENCE).await?;
    first.process().kill().await?;
    drop(held);
    let claim = scene.claims().get("data").await?;
    assert_eq!(claim.status.as_ref().and_then(capacity), Some("1Mi"), "the claim does not say so before the volume");
    let _second = next_leader(&scene).await?;
    has(&scene, &handle, "2Mi", "2097152").await
}

#[tokio::test]
async fn killed_between_the_volume_object_and_the_status() -> Result<()> {
    let (scene, handle) = scene("grow-untold", &[]).await?;
    let proxy = Proxy::start(&scene.account.kubeconfig).await?;
    let held = proxy.fault(VOLUME, Fault::Hold);
    let mut first = leader_behind(&scene, &proxy).await?;
    scene.ask("data", "2Mi").await?;
    held.met(PATIENCE).await?;
    let status = proxy.fault(STATUS, Fault::Hold);
    drop(held);
    status.met(PATIENCE).await?;
    first.process().kill().await?;
    drop(status);
    let volume = json!(scene.volumes().get(&scene.name("data")).await?);
    assert_eq!(volume["spec"]["capacity"]["storage"], "2Mi");
    let _second = next_leader(&scene).await?;
    has(&scene, &handle, "2Mi", "2097152").await
}

/// An answer of the API server that is lost is asked for again; the driver is not.
#[tokio::test]
async fn a_lost_answer_to_a_write_does_not_repeat_the_call() -> Result<()> {
    for on in [VOLUME, STATUS] {
        let (mut scene, handle) = scene("grow-lost-answer", &[SLOW_ANSWER]).await?;
        let proxy = Proxy::start(&scene.account.kubeconfig).await?;
        let settings = Settings::new(Role::Resizer, proxy.kubeconfig(), &scene.driver.address())?;
        let settings = scene.competing(settings).flag("--retry-interval-start=200ms");
        let _resizer = leading(settings).await?;
        scene.ask("data", "2Mi").await?;
        scene.driver.called("ControllerExpandVolume", PATIENCE).await?;
        let lost = proxy.fault_times(1, on, Fault::LoseAnswer);
        scene.has("data", "2Mi").await?;
        lost.met(PATIENCE).await?;
        assert_eq!(scene.course_of(&handle)?, ["ControllerExpandVolume OK"]);
    }
    Ok(())
}

#[tokio::test]
async fn sigterm_waits_for_the_call_and_writes_its_outcome() -> Result<()> {
    let (mut scene, handle) = scene("grow-term", &[SLOW_ANSWER]).await?;
    let mut resizer = next_leader(&scene).await?;
    scene.ask("data", "2Mi").await?;
    scene.driver.called("ControllerExpandVolume", PATIENCE).await?;
    resizer.terminate()?;
    let code = resizer.process().ended(PATIENCE).await?;
    assert_eq!(code, 0, "{}", resizer.process().tail());
    let claim = scene.claims().get("data").await?;
    assert_eq!(claim.status.as_ref().and_then(capacity), Some("2Mi"), "the outcome is written before the end");
    assert_eq!(scene.course_of(&handle)?, ["ControllerExpandVolume OK"]);
    Ok(())
}

#[tokio::test]
async fn the_driver_is_killed_while_it_grows_the_volume() -> Result<()> {
    let (mut scene, handle) = scene("grow-driver-killed", &[SLOW_ANSWER]).await?;
    let mut resizer = next_leader(&scene).await?;
    scene.ask("data", "2Mi").await?;
    scene.driver.called("ControllerExpandVolume", PATIENCE).await?;
    scene.driver.kill().await?;
    scene.driver.set_flags(&[RESIZES]);
    scene.driver.start_again().await?;
    has(&scene, &handle, "2Mi", "2097152").await?;
    assert_eq!(resizer.process().exit_code()?, None, "no restart");
    Ok(())
}

#[tokio::test]
async fn killed_while_the_driver_modifies_the_volume() -> Result<()> {
    let slow = "--fault=ControllerModifyVolume:answer-delay=2s,times=1";
    let (mut scene, handle) = scene("modify-killed", &[slow]).await?;
    scene.add_attributes_class("gold", &json!({ "iops": "700" })).await?;
    scene.add_attributes_class("bronze", &json!({ "iops": "1" })).await?;
    let mut first = next_leader(&scene).await?;
    scene.ask_class("data", "gold").await?;
    scene.driver.called("ControllerModifyVolume", PATIENCE).await?;
    first.process().kill().await?;
    // What was begun is brought to its end first, whatever is wanted by then.
    scene.ask_class("data", "bronze").await?;
    let _second = next_leader(&scene).await?;
    let bronze = scene.name("bronze");
    let done = |status: &k8s_openapi::api::core::v1::PersistentVolumeClaimStatus| {
        let current = status.current_volume_attributes_class_name.as_ref();
        status.modify_volume_status.is_none() && current == Some(&bronze)
    };
    scene.status("data", "bronze", done).await?;
    let asked: Vec<_> =
        scene.calls_about(&handle)?.iter().map(|call| call.request["mutable_parameters"]["iops"].clone()).collect();
    assert_eq!(asked, [json!("700"), json!("700"), json!("1")]);
    Ok(())
}
