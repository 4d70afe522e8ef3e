#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use fake_apiserver::{FakeApiServer, Matcher, Reaction};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};

use super::*;

const TEN: Duration = Duration::from_secs(10);

fn secret() -> Secret {
    serde_json::from_value(serde_json::json!({"metadata": {"name": "s", "namespace": "default"}})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_gate_closes_by_the_clock_and_never_opens_again() {
    let start = Instant::now();
    let gate = Gate::open_until(start + TEN);
    tokio::time::advance(Duration::from_millis(9_999)).await;
    assert_eq!(gate.check(), Ok(()));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(gate.check(), Err(GateClosed));
    assert!(!gate.extend(Instant::now() + TEN), "too late");
    assert_eq!(gate.check(), Err(GateClosed));
    gate.expired().await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_moves_the_deadline_forward_only() {
    let start = Instant::now();
    let gate = Gate::open_until(start + TEN);
    assert!(gate.extend(start + 2 * TEN));
    assert!(gate.extend(start + TEN), "an older renewal that was answered later");
    tokio::time::advance(Duration::from_secs(19)).await;
    assert_eq!(gate.check(), Ok(()));
    gate.expired().await;
    assert_eq!(start.elapsed(), 2 * TEN);
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
    let gate = Gate::open_until(Instant::now() + TEN);
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
    let gate = Gate::open_until(Instant::now() + TEN);
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
