//! The driver and the API server go away and come back; the provisioner stays.

use anyhow::Result;
use e2e::Cluster;
use e2e::scene::{PATIENCE, Scene};
use serde_json::json;

#[tokio::test]
async fn driver_goes_down_and_comes_back() -> Result<()> {
    let mut scene = Scene::start("driver-down", &[]).await?;
    let mut provisioner = scene.leader().await?;
    scene.claim("before", &json!({})).await?;
    scene.bound("before").await?;
    scene.driver.kill().await?;
    scene.claim("meanwhile", &json!({})).await?;
    scene.event("ProvisioningFailed", "no connection to the CSI driver").await?;
    scene.driver.start_again().await?;
    let name = scene.bound("meanwhile").await?;
    scene.delete_claim("meanwhile").await?;
    e2e::eventually::gone(&scene.volumes(), &name, PATIENCE).await?;
    assert_eq!(provisioner.process().exit_code()?, None, "no restart");
    assert_eq!(scene.codes("CreateVolume")?, ["OK", "OK"]);
    Ok(())
}

#[tokio::test]
async fn a_driver_that_comes_back_under_another_name_is_not_called_and_ends_the_process() -> Result<()> {
    let mut scene = Scene::start("driver-renamed", &[]).await?;
    let mut provisioner = scene.leader().await?;
    scene.driver.stop().await?;
    scene.driver.rename("another.outrigger.dev");
    scene.driver.start_again().await?;
    let code = provisioner.process().ended(PATIENCE).await?;
    assert_eq!(code, 1, "{}", provisioner.process().tail());
    assert!(provisioner.process().log().contains("another.outrigger.dev"));
    assert_eq!(scene.codes("CreateVolume")?, [""; 0]);
    Ok(())
}

#[tokio::test]
async fn a_driver_that_is_not_there_yet_is_waited_for() -> Result<()> {
    let mut scene = Scene::start("driver-late", &[]).await?;
    scene.driver.stop().await?;
    scene.claim("data", &json!({})).await?;
    let mut provisioner = scene.replica()?.start()?;
    provisioner.process().logged("csi.sock", PATIENCE).await?;
    scene.driver.start_again().await?;
    scene.bound("data").await?;
    Ok(())
}

#[tokio::test]
async fn api_server_restarted() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    let scene = Scene::start_in(&cluster, "api-down", &[]).await?;
    let mut provisioner = scene.leader().await?;
    scene.claim("before", &json!({})).await?;
    let before = scene.bound("before").await?;
    cluster.apiserver().kill().await?;
    cluster.apiserver().start().await?;
    scene.claim("after", &json!({})).await?;
    let after = scene.bound("after").await?;
    for (claim, volume) in [("before", &before), ("after", &after)] {
        scene.delete_claim(claim).await?;
        e2e::eventually::gone(&scene.volumes(), volume, PATIENCE).await?;
    }
    assert_eq!(provisioner.process().exit_code()?, None, "no restart");
    assert_eq!(scene.codes("CreateVolume")?, ["OK", "OK"]);
    assert_eq!(scene.codes("DeleteVolume")?, ["OK", "OK"]);
    Ok(())
}

/// The answer of the driver is lost with the provisioner; the next one finds the volume under its name.
#[tokio::test]
async fn a_provisioner_killed_during_create_volume_leaves_one_volume() -> Result<()> {
    let scene = Scene::start("killed", &["--fault=CreateVolume:answer-delay=3s,times=1"]).await?;
    let mut first = scene.leader().await?;
    scene.claim("data", &json!({})).await?;
    first.process().logged("/csi.v1.Controller/CreateVolume", PATIENCE).await?;
    first.process().kill().await?;
    let _second = scene.replica()?.start()?;
    let name = scene.bound("data").await?;
    assert_eq!(scene.backend_volumes()?, 1);
    scene.delete_claim("data").await?;
    scene.gone(&name).await
}
