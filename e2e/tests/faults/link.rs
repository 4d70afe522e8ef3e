//! The way to the API server is gone for a while, or drops connections.

use std::time::Duration;

use anyhow::Result;
use e2e::eventually::{self, throughout};
use e2e::journal::within_terms;
use e2e::proxy::{Fault, On, Proxy};
use e2e::scene::{PATIENCE, Scene, leading};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;

use crate::lease::{Brief as _, ON_ITS_WAY, RENEW_DEADLINE};

/// A request that is sent on a connection which died unnoticed is given up after 30 s, and the next may meet another one.
const AFTER_BLACK_HOLE: Duration = Duration::from_mins(2);

/// What becomes of the connections from before the black hole.
#[derive(Clone, Copy)]
enum OldConnections {
    GoOn,
    Dead,
}

#[tokio::test]
async fn e1_a_black_hole_longer_than_the_lease_ends_the_term_and_not_the_process() -> Result<()> {
    black_hole("e1-resumed", OldConnections::GoOn).await
}

/// Nobody tells the process that its connections are dead: renewals, watches and writes must find new ones.
#[tokio::test]
async fn e1_connections_that_stay_dead_after_a_black_hole_are_left() -> Result<()> {
    black_hole("e1-dead", OldConnections::Dead).await
}

async fn black_hole(purpose: &str, old: OldConnections) -> Result<()> {
    let scene = Scene::start(purpose, &[]).await?;
    let link = Proxy::start(&scene.account.kubeconfig).await?;
    let mut leader = leading(scene.replica_behind(&link)?.brief()).await?;
    scene.claim("before", &json!({})).await?;
    let before = scene.bound("before").await?;
    link.black_hole();
    leader.process().logged("stopped leading", PATIENCE).await?;
    scene.claim("meanwhile", &json!({})).await?;
    scene.delete_claim("before").await?;
    let quiet = async || Ok(scene.driver.calls("CreateVolume")?.len() == 1 && scene.codes("DeleteVolume")?.is_empty());
    throughout("a process without lease calls nothing", Duration::from_secs(2), quiet).await?;
    match old {
        OldConnections::GoOn => link.heal(),
        OldConnections::Dead => link.heal_new_connections(),
    }
    let bound = |claim: &PersistentVolumeClaim| claim.spec.as_ref().is_some_and(|spec| spec.volume_name.is_some());
    eventually::object(&scene.claims(), "meanwhile", "the claim to be bound", AFTER_BLACK_HOLE, bound).await?;
    eventually::gone(&scene.volumes(), &before, AFTER_BLACK_HOLE).await?;
    assert_eq!(leader.process().exit_code()?, None, "no restart");
    assert_eq!(scene.codes("CreateVolume")?, ["OK"; 2]);
    assert_eq!(scene.codes("DeleteVolume")?, ["OK"]);
    within_terms(&scene.driver.journal()?, leader.pid(), &link.terms(RENEW_DEADLINE)?, ON_ITS_WAY)
}

/// The owner of the capacities is looked up at the API server before anything else is.
#[tokio::test]
async fn m3_http_is_served_while_the_api_server_is_out_of_reach() -> Result<()> {
    let scene = Scene::start("m3-http-first", &[]).await?;
    let link = Proxy::start(&scene.account.kubeconfig).await?;
    link.black_hole();
    let settings = scene.replica_behind(&link)?.flag("--enable-capacity").flag("--capacity-ownerref-level=0");
    let settings = settings.environment("NAMESPACE", &scene.namespace).environment("POD_NAME", "no-such-pod");
    let mut provisioner = settings.start()?;
    provisioner.process().logged("CSI driver is ready", PATIENCE).await?;
    assert_eq!(provisioner.http_get("/metrics").await?.0, 200);
    link.heal();
    link.cut();
    assert_eq!(provisioner.process().ended(PATIENCE).await?, 255, "there is no such pod");
    assert!(provisioner.process().tail().contains("POD_NAME"));
    Ok(())
}

#[tokio::test]
async fn reset_connections_and_lost_answers_double_nothing() -> Result<()> {
    const CLAIMS: usize = 30;
    let scene = Scene::start("resets", &[]).await?;
    let link = Proxy::start(&scene.account.kubeconfig).await?;
    let mut leader = leading(scene.replica_behind(&link)?.brief()).await?;
    let lost = link.fault_times(5, On::only("create", "persistentvolumes"), Fault::LoseAnswer);
    let _cut = link.fault_times(5, On::only("create", "persistentvolumes"), Fault::Cut);
    for n in 0..CLAIMS {
        scene.claim(&format!("data-{n}"), &json!({})).await?;
        if n % 5 == 4 {
            link.cut();
        }
    }
    let mut volumes = Vec::new();
    for n in 0..CLAIMS {
        volumes.push(scene.bound(&format!("data-{n}")).await?);
    }
    assert_eq!(lost.hits(), 5);
    assert_eq!((scene.backend_volumes()?, scene.volume_objects().await?), (CLAIMS, CLAIMS));
    let _lost = link.fault_times(5, On::only("delete", "persistentvolumes"), Fault::LoseAnswer);
    let _lost = link.fault_times(5, On::only("patch", "persistentvolumes"), Fault::LoseAnswer);
    for n in 0..CLAIMS {
        scene.delete_claim(&format!("data-{n}")).await?;
        if n % 5 == 4 {
            link.cut();
        }
    }
    for volume in &volumes {
        scene.gone(volume).await?;
    }
    assert_eq!(scene.codes("CreateVolume")?, ["OK"; CLAIMS]);
    assert_eq!(scene.codes("DeleteVolume")?, ["OK"; CLAIMS]);
    assert_eq!(leader.process().exit_code()?, None, "no restart");
    Ok(())
}
