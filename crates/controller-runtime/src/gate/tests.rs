#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use fake_apiserver::{FakeApiServer, Matcher, Reaction};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};

use tokio::time::Instant;

use super::*;
use crate::clock::TestClock;

const TEN: Duration = Duration::from_secs(10);

/// A gate whose lease was renewed just now, with a limit of ten seconds.
fn renewed_gate() -> (Gate, TestClock) {
    let clock = TestClock::new();
    (Gate::open_for(TEN, clock.now(), Arc::new(clock.clone())), clock)
}

fn secret() -> Secret {
    serde_json::from_value(serde_json::json!({"metadata": {"name": "s", "namespace": "default"}})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_gate_closes_by_the_clock_and_never_opens_again() {
    let (gate, clock) = renewed_gate();
    tokio::time::advance(Duration::from_millis(9_999)).await;
    assert_eq!(gate.check(), Ok(()));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(gate.check(), Err(GateClosed));
    assert!(!gate.extend(clock.now()), "too late");
    assert_eq!(gate.check(), Err(GateClosed));
    gate.expired().await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_moves_the_deadline_forward_only() {
    let (gate, clock) = renewed_gate();
    let (start, older) = (Instant::now(), clock.now());
    tokio::time::advance(Duration::from_secs(5)).await;
    assert!(gate.extend(clock.now()));
    assert!(gate.extend(older), "an older renewal that was answered later");
    tokio::time::advance(Duration::from_millis(9_999)).await;
    assert_eq!(gate.check(), Ok(()));
    gate.expired().await;
    assert_eq!(start.elapsed(), Duration::from_secs(15));
}

#[tokio::test(start_paused = true)]
async fn k10_a_gate_counts_the_time_of_the_clock_on_which_most_has_passed() {
    type Jump = fn(&TestClock, Duration);
    let (almost_ten, moment) = (Duration::from_millis(9_999), Duration::from_millis(1));
    let minute = Duration::from_mins(1);
    let closes: [(&str, Jump); 2] = [
        ("a machine that was suspended", TestClock::set_boot_time_forward),
        ("a wall clock set forward", TestClock::set_wall_clock_forward),
    ];
    for (name, jump) in closes {
        let (gate, clock) = renewed_gate();
        jump(&clock, almost_ten);
        assert_eq!(gate.check(), Ok(()), "{name}");
        assert!(gate.extend(clock.now()), "{name}: counted from the readings at the send");
        jump(&clock, almost_ten);
        assert_eq!(gate.check(), Ok(()), "{name}");
        let sent_before = clock.now();
        jump(&clock, moment);
        assert!(!gate.extend(sent_before), "{name}: a renewal that is answered too late");
        assert_eq!(gate.check(), Err(GateClosed), "{name}");
        clock.set_wall_clock_back(minute);
        assert_eq!(gate.check(), Err(GateClosed), "{name}: for good");
    }

    let (gate, clock) = renewed_gate();
    let start = Instant::now();
    clock.set_wall_clock_back(minute);
    assert_eq!(gate.check(), Ok(()), "a wall clock set back");
    gate.expired().await;
    assert_eq!(start.elapsed(), TEN, "neither sooner nor later");
}

#[tokio::test(start_paused = true)]
async fn a_gate_without_deadline_is_open_until_it_is_closed() {
    let gate = Gate::always_open();
    tokio::time::advance(1000 * TEN).await;
    assert_eq!(gate.check(), Ok(()));
    gate.clone().close();
    assert_eq!(gate.check(), Err(GateClosed));
    gate.expired().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_jump_of_the_clock_writes_are_refused_unsent_and_reads_pass() {
    let server = FakeApiServer::new();
    let (gate, _) = renewed_gate();
    let secrets = Api::<Secret>::namespaced(gate.client(&ApiServer::from(&server.client())), "default");
    secrets.create(&PostParams::default(), &secret()).await.unwrap();
    tokio::time::advance(TEN).await;
    server.clear_requests();

    let refused = [
        secrets.create(&PostParams::default(), &secret()).await.map(drop),
        secrets.replace("s", &PostParams::default(), &secret()).await.map(drop),
        secrets.patch("s", &PatchParams::default(), &Patch::Merge(serde_json::json!({}))).await.map(drop),
        secrets.delete("s", &DeleteParams::default()).await.map(drop),
    ];
    for result in refused {
        let error = result.unwrap_err();
        assert!(gate_closed(&error), "{error}");
        assert!(error.to_string().contains("leader lease"), "{error}");
    }
    assert!(server.requests().is_empty());
    secrets.get("s").await.unwrap();
    assert_eq!(secrets.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_when_the_gate_closes_is_given_up() {
    let server = FakeApiServer::new();
    server.react(Matcher::any(), Reaction::DelayAnswer(2 * TEN));
    let (gate, _) = renewed_gate();
    let secrets = Api::<Secret>::namespaced(gate.client(&ApiServer::from(&server.client())), "default");
    let error = secrets.create(&PostParams::default(), &secret()).await.unwrap_err();
    assert!(gate_closed(&error), "{error}");
}

#[tokio::test(start_paused = true)]
async fn other_errors_pass_through_as_they_are() {
    let server = FakeApiServer::new();
    let secrets = Api::<Secret>::namespaced(Gate::always_open().client(&ApiServer::from(&server.client())), "default");
    let error = secrets.delete("none", &DeleteParams::default()).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 404), "{error}");
    assert!(!gate_closed(&error));
    server.set_reachable(false);
    let error = secrets.create(&PostParams::default(), &secret()).await.unwrap_err();
    assert!(matches!(error, kube::Error::Service(_)) && !gate_closed(&error), "{error}");
}
