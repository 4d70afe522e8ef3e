//! One replica gives way to another: asked to, or paused without notice.

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::eventually::{eventually, throughout};
use e2e::journal::{Moment, no_overlap, within_terms};
use e2e::proxy::{Fault, On, Proxy};
use e2e::scene::{PATIENCE, Scene, leading};
use rustix::process::Signal;
use serde_json::json;

use crate::lease::{Brief as _, ON_ITS_WAY, RENEW_DEADLINE, standing_by};

/// Every claim here fails at the driver and waits for its next try, which is long due when the paused leader wakes up.
#[tokio::test]
async fn a_leader_paused_for_longer_than_its_lease_sends_nothing_after_waking() -> Result<()> {
    const CLAIMS: usize = 10;
    let mut scene = Scene::start("paused", &["--fault=CreateVolume:code=ABORTED"]).await?;
    let (old_link, new_link) =
        (Proxy::start(&scene.account.kubeconfig).await?, Proxy::start(&scene.account.kubeconfig).await?);
    let eager = ["--retry-interval-start=200ms", "--retry-interval-max=200ms"];
    let replica = |link| Ok::<_, anyhow::Error>(scene.replica_behind(link)?.brief().flag(eager[0]).flag(eager[1]));
    let mut old = leading(replica(&old_link)?).await?;
    let mut new = standing_by(replica(&new_link)?).await?;
    for n in 0..CLAIMS {
        scene.claim(&format!("data-{n}"), &json!({})).await?;
    }
    all_called_by(&scene, old.pid(), CLAIMS).await?;
    old.process().signal(Signal::STOP)?;
    let stopped = Moment::now();
    new.process().logged("work starts", PATIENCE).await?;
    all_called_by(&scene, new.pid(), CLAIMS).await?;

    let woken = Moment::now();
    old.process().signal(Signal::CONT)?;
    old.process().logged("stopped leading", PATIENCE).await?;
    let silent = async || {
        let calls = scene.driver.journal()?;
        let called = calls.iter().any(|call| {
            call.peer_pid == Some(old.pid()) && call.volume().is_some() && call.started() > stopped + ON_ITS_WAY
        });
        let wrote = old_link.exchanges()?.into_iter().any(|exchange| {
            exchange.received > woken && exchange.request.writes() && exchange.request.resource != "events"
        });
        Ok(!called && !wrote)
    };
    throughout("the old leader neither calls nor writes", Duration::from_secs(1), silent).await?;

    scene.driver.stop().await?;
    scene.driver.set_flags(&[]);
    scene.driver.start_again().await?;
    for n in 0..CLAIMS {
        scene.bound(&format!("data-{n}")).await?;
    }
    assert_eq!((scene.backend_volumes()?, scene.volume_objects().await?), (CLAIMS, CLAIMS));
    // It works again when it is its turn.
    new.terminate()?;
    assert_eq!(new.process().ended(PATIENCE).await?, 0);
    scene.claim("after", &json!({})).await?;
    scene.bound("after").await?;
    let calls = scene.driver.journal()?;
    let successes = calls.iter().filter(|call| call.rpc == "CreateVolume" && call.code == "OK");
    let callers: Vec<_> = successes.map(|call| call.peer_pid).collect();
    assert_eq!(callers, [vec![Some(new.pid()); CLAIMS], vec![Some(old.pid())]].concat());
    no_overlap(&calls)?;
    within_terms(&calls, old.pid(), &old_link.terms(RENEW_DEADLINE)?, ON_ITS_WAY)?;
    within_terms(&calls, new.pid(), &new_link.terms(RENEW_DEADLINE)?, ON_ITS_WAY)
}

/// The driver's answer waits in the socket of the paused leader, which would write the volume next.
#[tokio::test]
async fn a_leader_paused_during_create_volume_does_not_save_the_volume_after_waking() -> Result<()> {
    let slow = "--fault=CreateVolume:answer-delay=1s,times=1";
    let mut scene = Scene::start("paused-call", &["--log-level=debug", slow]).await?;
    let (old_link, new_link) =
        (Proxy::start(&scene.account.kubeconfig).await?, Proxy::start(&scene.account.kubeconfig).await?);
    let mut old = leading(scene.replica_behind(&old_link)?.brief()).await?;
    let _new = standing_by(scene.replica_behind(&new_link)?.brief()).await?;
    let held = new_link.fault(On::only("create", "persistentvolumes"), Fault::Hold);
    scene.claim("data", &json!({})).await?;
    scene.driver.called("CreateVolume", PATIENCE).await?;
    old.process().signal(Signal::STOP)?;
    // The new leader has repeated the call and is about to write.
    held.met(PATIENCE).await?;
    old.process().signal(Signal::CONT)?;
    old.process().logged("stopped leading", PATIENCE).await?;
    let unsaved = async || Ok(old_link.count("create", "persistentvolumes")? == 0);
    throughout("the old leader does not write the volume", Duration::from_secs(1), unsaved).await?;
    drop(held);
    let name = scene.bound("data").await?;
    assert_eq!((scene.backend_volumes()?, scene.volume_objects().await?), (1, 1));
    assert_eq!(scene.codes("CreateVolume")?, ["OK"; 2]);
    no_overlap(&scene.driver.journal()?)?;
    scene.delete_claim("data").await?;
    scene.gone(&name).await
}

async fn all_called_by(scene: &Scene, pid: i32, claims: usize) -> Result<()> {
    eventually("a call for every claim", PATIENCE, async || {
        let calls = scene.driver.calls("CreateVolume")?;
        let mut names: Vec<_> =
            calls.iter().filter(|call| call.peer_pid == Some(pid)).filter_map(|call| call.volume()).collect();
        names.sort_unstable();
        names.dedup();
        Ok((names.len() == claims).then_some(()))
    })
    .await
}

/// With the lease of 15 s that is the default, and a call in flight that the release must wait for.
#[tokio::test]
async fn e3_a_leader_that_ends_hands_over_within_two_seconds_and_after_its_last_call() -> Result<()> {
    let scene = Scene::start("e3", &["--fault=CreateVolume:delay=1s,times=1"]).await?;
    let (old_link, new_link) =
        (Proxy::start(&scene.account.kubeconfig).await?, Proxy::start(&scene.account.kubeconfig).await?);
    let mut old = leading(scene.replica_behind(&old_link)?).await?;
    let mut new = standing_by(scene.replica_behind(&new_link)?).await?;
    scene.claim("before", &json!({})).await?;
    old.process().logged("/csi.v1.Controller/CreateVolume", PATIENCE).await?;
    old.terminate()?;
    scene.claim("after", &json!({})).await?;
    new.process().logged("work starts", PATIENCE).await?;
    scene.bound("before").await?;
    scene.bound("after").await?;
    assert_eq!(old.process().ended(PATIENCE).await?, 0);

    let released = old_link.exchanges()?.into_iter().find(|exchange| exchange.holder.as_deref() == Some(""));
    let released = released.context("the lease is released")?.received;
    let calls = scene.driver.calls("CreateVolume")?;
    assert_eq!(calls.iter().map(|call| call.peer_pid).collect::<Vec<_>>(), [Some(old.pid()), Some(new.pid())]);
    assert!(calls[0].ended() <= released, "not released while the driver works: {calls:?}");
    let took = calls[1].started().since(released);
    assert!(took < Duration::from_secs(2), "hand-over took {took:?}");
    no_overlap(&calls)?;
    within_terms(&calls, old.pid(), &old_link.terms(Duration::from_secs(10))?, ON_ITS_WAY)?;
    within_terms(&calls, new.pid(), &new_link.terms(Duration::from_secs(10))?, ON_ITS_WAY)
}
