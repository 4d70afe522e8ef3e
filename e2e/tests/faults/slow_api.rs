//! The API server is slow or has too much to do. Lease times and delays are 0.4 of their real ones: a lease of 6 s stands
//! for 15 s, answers after 3.6 s, 4.4 s and 6.4 s for 9 s, 11 s and 16 s.

use std::time::Duration;

use anyhow::Result;
use e2e::Sidecar;
use e2e::eventually::eventually;
use e2e::journal::{no_overlap, within_terms};
use e2e::proxy::{Fault, On, Proxy};
use e2e::scene::{PATIENCE, Scene, leading};
use e2e::sidecar::Settings;
use futures_util::future::try_join_all;
use serde_json::json;

use crate::lease::{Brief as _, ON_ITS_WAY, RENEW_DEADLINE, standing_by};

const DELAYS: [Duration; 3] = [Duration::from_millis(3600), Duration::from_millis(4400), Duration::from_millis(6400)];
const LEASE_UPDATES: On = On::only("update", "leases");
const SCALED_RENEW_DEADLINE: Duration = Duration::from_secs(4);

fn scaled(settings: Settings) -> Settings {
    settings
        .flag("--leader-election-lease-duration=6s")
        .flag("--leader-election-renew-deadline=4s")
        .flag("--leader-election-retry-period=2s")
}

async fn all_delays(test: impl AsyncFn(Duration) -> Result<()>) -> Result<()> {
    try_join_all(DELAYS.map(|delay| test(delay))).await.map(drop)
}

/// The write is done in time and only its answer late: reading the lease shows it.
#[tokio::test]
async fn e2_late_answers_to_lease_updates_do_not_cost_the_lease() -> Result<()> {
    all_delays(async |delay| {
        let scene = Scene::start("e2-answers", &[]).await?;
        let link = Proxy::start(&scene.account.kubeconfig).await?;
        let mut leader = leading(scaled(scene.replica_behind(&link)?)).await?;
        let slow = link.fault(LEASE_UPDATES, Fault::DelayAnswer(delay));
        eventually("four renewals", PATIENCE, async || Ok((slow.hits() >= 4).then_some(()))).await?;
        scene.claim("data", &json!({})).await?;
        scene.bound("data").await?;
        drop(slow);
        led_throughout(&mut leader)
    })
    .await
}

/// The write is done late: the leader cannot know whether it leads, stops working in time, and stays.
#[tokio::test]
async fn e2_late_lease_updates_end_the_term_and_not_the_process() -> Result<()> {
    all_delays(async |delay| {
        let scene = Scene::start("e2-updates", &[]).await?;
        let link = Proxy::start(&scene.account.kubeconfig).await?;
        let mut leader = leading(scaled(scene.replica_behind(&link)?)).await?;
        let slow = link.fault(LEASE_UPDATES, Fault::DelayRequest(delay));
        leader.process().logged("stopped leading", PATIENCE).await?;
        scene.claim("data", &json!({})).await?;
        drop(slow);
        scene.bound("data").await?;
        assert_eq!(leader.process().exit_code()?, None, "no restart");
        assert_eq!(scene.codes("CreateVolume")?, ["OK"]);
        let terms = link.terms(SCALED_RENEW_DEADLINE)?;
        within_terms(&scene.driver.journal()?, leader.pid(), &terms, ON_ITS_WAY)
    })
    .await
}

/// Writes of the old leader that are carried out after the new one has taken the lease must not take it back.
#[tokio::test]
async fn e2_lease_updates_later_than_the_lease_lose_against_the_standby() -> Result<()> {
    let scene = Scene::start("e2-standby", &[]).await?;
    let (old_link, new_link) =
        (Proxy::start(&scene.account.kubeconfig).await?, Proxy::start(&scene.account.kubeconfig).await?);
    let mut old = leading(scaled(scene.replica_behind(&old_link)?)).await?;
    let mut new = standing_by(scaled(scene.replica_behind(&new_link)?)).await?;
    let slow = old_link.fault(LEASE_UPDATES, Fault::DelayRequest(DELAYS[2]));
    scene.claim("first", &json!({})).await?;
    scene.bound("first").await?;
    new.process().logged("work starts", PATIENCE).await?;
    let late = slow.hits();
    eventually("the late writes to be answered", PATIENCE, async || {
        let exchanges = old_link.exchanges()?;
        let answered = exchanges.iter().filter(|it| it.code == Some(409)).count();
        Ok((answered > 0).then_some(()))
    })
    .await?;
    assert!(late > 0);
    scene.claim("second", &json!({})).await?;
    scene.bound("second").await?;
    assert_eq!(old.process().exit_code()?, None, "no restart");
    let calls = scene.driver.journal()?;
    let callers: Vec<_> = scene.driver.calls("CreateVolume")?.iter().map(|call| call.peer_pid).collect();
    assert_eq!(callers.last(), Some(&Some(new.pid())));
    assert_eq!(callers.len(), 2);
    no_overlap(&calls)?;
    within_terms(&calls, old.pid(), &old_link.terms(SCALED_RENEW_DEADLINE)?, ON_ITS_WAY)?;
    within_terms(&calls, new.pid(), &new_link.terms(SCALED_RENEW_DEADLINE)?, ON_ITS_WAY)
}

#[tokio::test]
async fn e2_bursts_of_refusals_cost_neither_the_lease_nor_a_volume() -> Result<()> {
    let scene = Scene::start("e2-bursts", &[]).await?;
    let link = Proxy::start(&scene.account.kubeconfig).await?;
    let mut leader = leading(scene.replica_behind(&link)?.brief()).await?;
    for (n, code) in [429, 500, 503].into_iter().enumerate() {
        let refused = Fault::Answer { code, retry_after: Some(1) };
        let lease = link.fault_times(3, On::resource("leases"), refused);
        let volumes = link.fault_times(3, On::only("create", "persistentvolumes"), refused);
        let claim = format!("data-{n}");
        scene.claim(&claim, &json!({})).await?;
        scene.bound(&claim).await?;
        eventually("the bursts to be over", PATIENCE, async || {
            Ok((lease.hits() == 3 && volumes.hits() == 3).then_some(()))
        })
        .await?;
    }
    assert_eq!(scene.codes("CreateVolume")?, ["OK"; 3]);
    led_throughout(&mut leader)
}

#[tokio::test]
async fn e8_lease_renewals_do_not_wait_behind_throttled_requests() -> Result<()> {
    const CLAIMS: usize = 8;
    let scene = Scene::start("e8", &[]).await?;
    let link = Proxy::start(&scene.account.kubeconfig).await?;
    let throttled = scene.replica_behind(&link)?.brief().flag("--kube-api-qps=1").flag("--kube-api-burst=1");
    let mut leader = leading(throttled).await?;
    for n in 0..CLAIMS {
        scene.claim(&format!("data-{n}"), &json!({})).await?;
    }
    for n in 0..CLAIMS {
        scene.bound(&format!("data-{n}")).await?;
    }
    let exchanges = link.exchanges()?;
    let received = |verb: &str, resource: &str| {
        let mut matching = exchanges.clone();
        matching.retain(|it| it.request.verb == verb && it.request.resource == resource);
        matching.into_iter().map(|it| it.received).collect::<Vec<_>>()
    };
    let volumes = received("create", "persistentvolumes");
    let throttled = volumes[CLAIMS - 1].since(volumes[0]);
    assert!(throttled > Duration::from_secs(5), "the queue was busy for {throttled:?}");
    let renewals = received("update", "leases");
    let longest = renewals.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap_or_default();
    assert!(longest < RENEW_DEADLINE, "{longest:?} between renewals: {renewals:?}");
    led_throughout(&mut leader)
}

fn led_throughout(leader: &mut Sidecar) -> Result<()> {
    assert_eq!(leader.process().exit_code()?, None, "no restart");
    assert!(!leader.process().log().contains("stopped leading"), "{}", leader.process().tail());
    Ok(())
}
