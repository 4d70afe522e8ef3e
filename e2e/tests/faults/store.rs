//! The API server and the store behind it go away for longer than the lease, and come back.

use anyhow::Result;
use e2e::scene::{PATIENCE, Scene, leading};
use e2e::{Cluster, eventually};
use serde_json::json;

use crate::lease::Brief as _;

#[tokio::test]
async fn the_api_server_and_etcd_are_restarted_and_the_provisioner_is_not() -> Result<()> {
    let mut cluster = Cluster::start().await?;
    let scene = Scene::start_in(&cluster, "store", &[]).await?;
    let mut leader = leading(scene.replica()?.brief()).await?;
    scene.claim("first", &json!({})).await?;
    let first = scene.bound("first").await?;

    cluster.apiserver().kill().await?;
    leader.process().logged("stopped leading", PATIENCE).await?;
    cluster.apiserver().start().await?;
    scene.claim("second", &json!({})).await?;
    let second = scene.bound("second").await?;

    cluster.etcd().kill().await?;
    cluster.etcd().start().await?;
    eventually::eventually("the API server to store claims again", PATIENCE, async || {
        scene.claim("third", &json!({})).await.map(Some)
    })
    .await?;
    let third = scene.bound("third").await?;
    for (claim, volume) in [("first", &first), ("second", &second), ("third", &third)] {
        scene.delete_claim(claim).await?;
        eventually::gone(&scene.volumes(), volume, PATIENCE).await?;
    }
    assert_eq!(leader.process().exit_code()?, None, "no restart");
    assert_eq!(scene.codes("CreateVolume")?, ["OK"; 3]);
    assert_eq!(scene.codes("DeleteVolume")?, ["OK"; 3]);
    assert_eq!(scene.backend_volumes()?, 0);
    Ok(())
}
