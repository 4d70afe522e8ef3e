#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use fake_apiserver::{FakeApiServer, Matcher, Reaction, Status};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};

use super::*;
use crate::Gate;
use crate::clock::{Clock as _, TestClock};
use crate::gate::gate_closed;

fn overloaded(seconds: u32) -> Reaction {
    Reaction::Refuse(Status::too_many_requests(seconds))
}

fn volumes(server: &FakeApiServer, gate: &Gate) -> Api<PersistentVolume> {
    Api::all(gate.client(&ApiServer::from(&server.client())))
}

fn volume() -> PersistentVolume {
    serde_json::from_value(serde_json::json!({"metadata": {"name": "pv-1"}, "spec": {}})).unwrap()
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other:?}"),
    }
}

/// Whether `elapsed` is what was asked for and at most a quarter more.
fn assert_waited(elapsed: Duration, asked: u64) {
    let asked = Duration::from_secs(asked);
    assert!(elapsed >= asked && elapsed <= asked.mul_f64(1.26), "{elapsed:?} for {asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_meets_overload_is_sent_again_as_often_as_the_server_asks() {
    let server = FakeApiServer::new();
    server.react(Matcher::of("create", "persistentvolumes").times(2), overloaded(4));
    let start = Instant::now();
    volumes(&server, &Gate::always_open()).create(&PostParams::default(), &volume()).await.unwrap();
    assert_waited(start.elapsed(), 8);
    assert_eq!(server.list::<PersistentVolume>().len(), 1);
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| request.body == requests[0].body && !request.body.is_null()));
    assert!(requests.iter().all(|request| request.content_type == requests[0].content_type));
}

#[tokio::test(start_paused = true)]
async fn which_refusals_are_waited_out() {
    let status = |code| Status::new(code, "", "no");
    let table = [
        ("429 with Retry-After", Status::too_many_requests(2), true),
        ("429 with the header alone", status(429).with_retry_after(2), true),
        ("503 with Retry-After", Status::service_unavailable().with_retry_after(2), true),
        ("429 without", status(429), false),
        ("503 without", Status::service_unavailable(), false),
        ("500 with Retry-After: it may have been carried out", status(500).with_retry_after(2), false),
        ("504 with Retry-After: it may have been carried out", status(504).with_retry_after(2), false),
        ("403", Status::forbidden("no"), false),
        ("409", status(409), false),
    ];
    assert_eq!(table.len(), 9);
    for (name, refusal, waited_out) in table {
        let server = FakeApiServer::new();
        server.create(&volume());
        let volumes = volumes(&server, &Gate::always_open());
        for verb in ["get", "patch", "delete"] {
            server.clear_requests();
            server.react(Matcher::any().once(), Reaction::Refuse(refusal.clone()));
            let start = Instant::now();
            let result = match verb {
                "get" => volumes.get("pv-1").await.map(drop),
                "patch" => {
                    let change = Patch::Merge(serde_json::json!({"metadata": {"labels": {"a": "b"}}}));
                    volumes.patch("pv-1", &PatchParams::default(), &change).await.map(drop)
                }
                _ => volumes.delete("pv-1", &DeleteParams::default()).await.map(drop),
            };
            assert_eq!(result.is_ok(), waited_out, "{name}, {verb}: {result:?}");
            assert_eq!(server.requests().len(), if waited_out { 2 } else { 1 }, "{name}, {verb}");
            assert_waited(start.elapsed(), if waited_out { 2 } else { 0 });
        }
    }
}

#[tokio::test(start_paused = true)]
async fn patience_has_an_end_and_the_refusal_is_the_callers() {
    // Asked seconds, requests sent.
    for (asked, sent) in [(0, 25..=31), (9, 3..=4), (20, 2..=2), (31, 1..=1), (u32::MAX, 1..=1)] {
        let server = FakeApiServer::new();
        server.react(Matcher::any(), overloaded(asked));
        let start = Instant::now();
        let error = volumes(&server, &Gate::always_open()).get("pv-1").await.unwrap_err();
        assert_eq!(code(&error), 429, "{asked}");
        assert!(start.elapsed() <= PATIENCE, "{asked}: {:?}", start.elapsed());
        assert!(sent.contains(&server.requests().len()), "{asked}: {}", server.requests().len());
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_again_once_the_gate_has_closed() {
    type Close = fn(&Gate);
    let closes: [(&str, Close); 2] = [("by its deadline", |_| ()), ("by the end of the term", Gate::close)];
    for (name, close) in closes {
        let server = FakeApiServer::new();
        server.react(Matcher::any(), overloaded(5));
        let clock = TestClock::new();
        let gate = Gate::open_for(Duration::from_secs(4), clock.now(), Arc::new(clock));
        let volumes = volumes(&server, &gate);
        let (parameters, volume) = (PostParams::default(), volume());
        let meanwhile = async {
            server.until("the first try", PATIENCE, |server| (server.requests().len() == 1).then_some(())).await;
            server.clear_reactions();
            close(&gate);
        };
        let (result, ()) = tokio::join!(volumes.create(&parameters, &volume), meanwhile);
        let error = result.unwrap_err();
        assert!(gate_closed(&error), "{name}: {error}");
        assert_eq!(server.requests().len(), 1, "{name}");
        assert!(server.list::<PersistentVolume>().is_empty(), "{name}");
    }
}

#[test]
fn retry_after_is_whole_seconds() {
    let table = [("0", Some(0)), ("1", Some(1)), (" 120 ", Some(120)), ("-1", None), ("1.5", None), ("", None)];
    for (text, seconds) in table {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
        assert_eq!(retry_after(&headers), seconds.map(Duration::from_secs), "{text:?}");
    }
    let date = HeaderMap::from_iter([(RETRY_AFTER, "Wed, 21 Oct 2015 07:28:00 GMT".parse().unwrap())]);
    assert_eq!(retry_after(&date), None);
    assert_eq!(retry_after(&HeaderMap::new()), None);
}
