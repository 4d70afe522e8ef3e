//! Two replicas, one lease: one works, and the other takes over.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::scene::{PATIENCE, Scene};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use serde_json::json;

/// Both replicas run on this machine, so they have one host name, as two hostNetwork pods on a node do.
#[tokio::test]
async fn e10_of_two_replicas_with_one_host_name_exactly_one_works() -> Result<()> {
    let scene = Scene::start("one-host", &[]).await?;
    let leader = scene.leader().await?;
    let mut standby = scene.replica()?.start()?;
    standby.metric("leader_election_master_status{name=\"\"} 0", PATIENCE).await?;
    for n in 0..20 {
        scene.claim(&format!("data-{n}"), &json!({})).await?;
    }
    let mut volumes = Vec::new();
    for n in 0..20 {
        volumes.push(scene.bound(&format!("data-{n}")).await?);
    }
    for n in 0..20 {
        scene.delete_claim(&format!("data-{n}")).await?;
    }
    for volume in &volumes {
        scene.gone(volume).await?;
    }
    let callers = |rpc: &str| {
        Ok::<_, anyhow::Error>(scene.driver.calls(rpc)?.iter().filter_map(|call| call.peer_pid).collect::<Vec<_>>())
    };
    assert_eq!(callers("CreateVolume")?, vec![leader.pid(); 20]);
    assert_eq!(callers("DeleteVolume")?, vec![leader.pid(); 20]);
    leader.metric("leader_election_master_status{name=\"\"} 1", PATIENCE).await?;
    assert_eq!(standby.process().exit_code()?, None);
    Ok(())
}

/// The lock is a Lease under the name that the Go provisioner uses, so that old and new exclude each other.
#[tokio::test]
async fn e11_the_lease_has_the_name_and_fields_of_the_go_provisioner() -> Result<()> {
    let scene = Scene::start("lease", &[]).await?;
    let mut leader = scene.replica()?.flag("--leader-election-labels=team:storage").start()?;
    leader.process().logged("work starts", PATIENCE).await?;
    let leases: Api<Lease> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let lease =
        leases.get(&scene.driver.name().replace('.', "-")).await.context("the lease is named after the driver")?;
    let spec = lease.spec.expect("a lease has a spec");
    assert_eq!(spec.lease_duration_seconds, Some(15));
    assert_eq!(spec.lease_transitions, Some(0));
    assert!(spec.holder_identity.is_some_and(|holder| !holder.is_empty()));
    assert_eq!(lease.metadata.labels.and_then(|labels| labels.get("team").cloned()).as_deref(), Some("storage"));
    Ok(())
}

#[tokio::test]
async fn hand_over_on_sigterm() -> Result<()> {
    let scene = Scene::start("hand-over", &[]).await?;
    let mut old = scene.leader().await?;
    let mut new = scene.replica()?.start()?;
    new.metric("leader_election_master_status{name=\"\"} 0", PATIENCE).await?;
    old.terminate()?;
    new.process()
        .logged("work starts", Duration::from_secs(10))
        .await
        .context("long before the lease of 15 s runs out")?;
    assert_eq!(old.process().ended(PATIENCE).await?, 0);
    scene.claim("data", &json!({})).await?;
    scene.bound("data").await?;
    let callers: BTreeSet<_> = scene.driver.calls("CreateVolume")?.iter().filter_map(|call| call.peer_pid).collect();
    assert_eq!(callers, BTreeSet::from([new.pid()]));
    Ok(())
}

/// The lease is not released while the driver works for the old leader.
#[tokio::test]
async fn hand_over_waits_for_the_call_in_flight() -> Result<()> {
    let scene = Scene::start("in-flight", &["--fault=CreateVolume:delay=4s,times=1"]).await?;
    let mut old = scene.leader().await?;
    let mut new = scene.replica()?.start()?;
    new.metric("leader_election_master_status{name=\"\"} 0", PATIENCE).await?;
    scene.claim("data", &json!({})).await?;
    old.process().logged("/csi.v1.Controller/CreateVolume", PATIENCE).await?;
    old.terminate()?;
    assert_eq!(old.process().ended(PATIENCE).await?, 0);
    new.process().logged("work starts", PATIENCE).await?;
    scene.bound("data").await?;
    let calls = scene.driver.calls("CreateVolume")?;
    let codes: Vec<_> = calls.iter().map(|call| (call.peer_pid, call.code.as_str())).collect();
    assert_eq!(codes, [(Some(old.pid()), "OK")], "the old leader ends its call and saves the volume");
    Ok(())
}

#[tokio::test]
async fn a_standby_and_a_replica_that_waits_for_its_driver_end_at_once() -> Result<()> {
    let mut scene = Scene::start("idle-end", &[]).await?;
    let _leader = scene.leader().await?;
    let mut standby = scene.replica()?.start()?;
    standby.metric("leader_election_master_status{name=\"\"} 0", PATIENCE).await?;
    standby.terminate()?;
    assert_eq!(standby.process().ended(PATIENCE).await?, 0);
    scene.driver.stop().await?;
    let mut waiting = scene.replica()?.start()?;
    waiting.process().logged("csi.sock", PATIENCE).await?;
    waiting.terminate()?;
    assert_eq!(waiting.process().ended(PATIENCE).await?, 0);
    Ok(())
}
