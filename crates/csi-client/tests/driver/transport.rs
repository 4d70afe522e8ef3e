//! Answers that a driver's code did not mean to give.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use csi_client::{Admission, CallError, Code, Denied, Handshake, Meaning, Rpc as ControllerRpc, meaning};

use csi_proto::csi::v1::CreateVolumeRequest;
use fake_driver::{Rpc, Step};

use crate::client::{Client, Door, TIMEOUT, connected, until, volume};
use crate::raw_server::{RawServer, answer, message};

async fn failure(server: &RawServer) -> CallError {
    let client = Client::with(&server.socket_path(), Handshake::Name);
    client.ready_within(Duration::from_secs(1)).await;
    client.controller().create_volume(volume("pvc-1")).await.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_status_of_the_driver_is_uncertain() {
    type Case = (&'static str, Code, &'static str, fn() -> Option<http::Response<http_body_util::Full<bytes::Bytes>>>);
    let table: [Case; 5] = [
        ("reset", Code::Internal, "stream terminated by RST_STREAM with error code: INTERNAL_ERROR", || None),
        ("too large", Code::ResourceExhausted, "grpc: received message larger than max (4194305 vs. 4194304)", || {
            Some(answer(&[], &message(&vec![0; 4 * 1024 * 1024 + 1])))
        }),
        ("garbage", Code::Internal, "grpc: failed to unmarshal the received message: ", || {
            Some(answer(&[], &message(b"\xff\xff\xff")))
        }),
        ("no message", Code::Internal, "Missing response message.", || Some(answer(&[], b""))),
        ("no status", Code::Unknown, "", || Some(answer(&[("no-status", "")], b""))),
    ];
    for (what, code, text, respond) in table {
        let server = RawServer::start(100, move || async move { respond() });
        let error = failure(&server).await;
        assert!(matches!(error, CallError::Unanswered { .. }), "{what}: {error:?}");
        assert!(error.to_string().contains(text), "{what}: {error}");
        if what != "no status" {
            assert_eq!(error.code(), code, "{what}: {error}");
        }
        assert_eq!(meaning(ControllerRpc::CreateVolume, &error), Meaning::Uncertain, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_spoilt_message_or_detail_does_not_cost_the_code() {
    let server = RawServer::start(100, || async {
        let headers =
            [("grpc-status", "10"), ("grpc-message", "busy %FF"), ("grpc-status-details-bin", "*not base64*")];
        Some(answer(&headers, b""))
    });
    let error = failure(&server).await;
    assert_eq!(error.to_string(), "rpc error: code = Aborted desc = busy \u{fffd}");
    assert!(matches!(error, CallError::Status { code: Code::Aborted, .. }));
}

/// Admits everything and counts.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Admission for Counting {
    fn admit(&self) -> Result<(), Denied> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_beyond_the_drivers_limit_of_streams_is_admitted_only_when_it_can_be_sent() {
    let server = RawServer::start(1, pending);
    let client = Client::with(&server.socket_path(), Handshake::Name);
    client.ready_within(Duration::from_secs(1)).await;
    let admission = Arc::new(Counting::default());
    let controller = client.controller().provided(admission.clone());
    let calling = controller.clone();
    let first = tokio::spawn(async move { calling.create_volume(volume("pvc-1")).await });
    until("first call", || server.controller_calls() == 1).await;
    let second = tokio::spawn(async move { controller.create_volume(volume("pvc-2")).await });
    tokio::time::sleep(TIMEOUT / 2).await;
    assert_eq!(admission.0.load(Ordering::Relaxed), 1, "the second waits before its admission");
    first.abort();
    until("second call", || server.controller_calls() == 2).await;
    assert_eq!(admission.0.load(Ordering::Relaxed), 2);
    let error = second.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded);
}

/// Admits so many times.
struct Lapsing(AtomicUsize);

impl Admission for Lapsing {
    fn admit(&self) -> Result<(), Denied> {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| Denied("the lease is over".to_owned()))
    }
}

/// As if the process had been stopped between the admission of a call and its write.
#[tokio::test(start_paused = true)]
async fn a_call_whose_admission_lapses_before_it_is_written_is_not_sent() {
    let (driver, client) = connected().await;
    let error = client.driver.controller(Arc::new(Lapsing(1.into()))).create_volume(volume("pvc-1")).await.unwrap_err();
    assert!(matches!(error, CallError::Unanswered { .. }), "{error:?}");
    client.controller().create_volume(volume("pvc-2")).await.unwrap();
    let created: Vec<CreateVolumeRequest> = driver.requests();
    assert_eq!(created.iter().map(|request| &*request.name).collect::<Vec<_>>(), ["pvc-2"]);
}

/// What was written is nobody's business any more: other writes on the connection must not fail for it.
#[tokio::test(start_paused = true)]
async fn an_admission_that_lapses_after_the_call_was_written_does_not_break_the_connection() {
    // HTTP/2 copies short bodies, and hands long ones over apart.
    for length in [5, 5000] {
        let (driver, client) = connected().await;
        driver.script(Rpc::CreateVolume, Step::answer().answered_after(TIMEOUT / 2));
        let door = Arc::new(Door::open());
        let controller = client.driver.controller(door.clone());
        let parameters = [("key".to_owned(), "v".repeat(length))].into();
        let request = CreateVolumeRequest { parameters, ..volume("pvc-1") };
        let slow = tokio::spawn(async move { controller.create_volume(request).await });
        until("the call", || driver.calls_of(Rpc::CreateVolume).len() == 1).await;
        door.close();
        client.controller().create_volume(volume("pvc-2")).await.unwrap();
        slow.await.unwrap().unwrap();
    }
}
