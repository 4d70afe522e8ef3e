//! The driver and its socket come and go while claims keep coming.

use anyhow::Result;
use e2e::Driver;
use e2e::scene::{PATIENCE, Scene, leading};
use serde_json::json;

use crate::lease::Brief as _;

#[tokio::test]
async fn a_driver_that_is_killed_again_and_again_gives_every_claim_one_volume() -> Result<()> {
    const ROUNDS: usize = 4;
    let mut scene = Scene::start("driver-load", &["--fault=CreateVolume:answer-delay=50ms"]).await?;
    let mut provisioner = leading(scene.replica()?.brief().flag("--retry-interval-start=200ms")).await?;
    for round in 0..ROUNDS {
        for n in 0..10 {
            scene.claim(&format!("data-{round}-{n}"), &json!({})).await?;
        }
        scene.driver.kill().await?;
        scene.claim(&format!("data-{round}-10"), &json!({})).await?;
        scene.driver.start_again().await?;
    }
    for round in 0..ROUNDS {
        for n in 0..=10 {
            scene.bound(&format!("data-{round}-{n}")).await?;
        }
    }
    assert_eq!((scene.backend_volumes()?, scene.volume_objects().await?), (11 * ROUNDS, 11 * ROUNDS));
    assert_eq!(scene.codes("DeleteVolume")?, [""; 0]);
    assert_eq!(provisioner.process().exit_code()?, None, "no restart");
    Ok(())
}

#[tokio::test]
async fn a_connection_outlives_its_socket_file() -> Result<()> {
    let mut scene = Scene::start("socket-deleted", &[]).await?;
    let mut provisioner = leading(scene.replica()?.brief()).await?;
    std::fs::remove_file(scene.driver.socket())?;
    scene.claim("without-file", &json!({})).await?;
    scene.bound("without-file").await?;
    assert!(!provisioner.process().log().contains("Lost the connection"), "{}", provisioner.process().tail());
    scene.driver.stop().await?;
    provisioner.process().logged("Lost the connection", PATIENCE).await?;
    scene.driver.start_again().await?;
    scene.claim("with-file", &json!({})).await?;
    scene.bound("with-file").await?;
    assert_eq!(scene.codes("CreateVolume")?, ["OK"; 2]);
    Ok(())
}

/// The old instance still runs and answers, but the path leads to the new one.
#[tokio::test]
async fn calls_go_to_the_instance_that_replaced_the_socket_file() -> Result<()> {
    let scene = Scene::start("socket-replaced", &[]).await?;
    let mut provisioner = leading(scene.replica()?.brief()).await?;
    scene.claim("old", &json!({})).await?;
    scene.bound("old").await?;
    std::fs::remove_file(scene.driver.socket())?;
    let mut replacement = Driver::prepare(scene.driver.name(), &[])?;
    replacement.serve_at(scene.driver.socket());
    replacement.start_again().await?;
    provisioner.process().logged("generation=2", PATIENCE).await?;
    scene.claim("new", &json!({})).await?;
    scene.bound("new").await?;
    assert_eq!(scene.codes("CreateVolume")?, ["OK"]);
    assert_eq!(replacement.calls("CreateVolume")?.len(), 1);
    assert_eq!(provisioner.process().exit_code()?, None, "no restart");
    Ok(())
}

#[tokio::test]
async fn a_stale_socket_file_is_waited_out() -> Result<()> {
    let mut scene = Scene::start("socket-stale", &[]).await?;
    scene.driver.kill().await?;
    assert!(scene.driver.socket().exists(), "a killed driver leaves its file");
    let mut provisioner = scene.replica()?.brief().start()?;
    provisioner.process().logged("stale socket file", PATIENCE).await?;
    scene.claim("data", &json!({})).await?;
    scene.driver.start_again().await?;
    scene.bound("data").await?;
    assert_eq!(provisioner.process().exit_code()?, None, "no restart");
    Ok(())
}
