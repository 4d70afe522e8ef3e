//! Objects that cannot concern the projection: not decoded in a first list, and never in the way of one that does.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http_body::Frame;
use http_body_util::StreamBody;
use kube::client::Body;
use tower::service_fn;

use super::super::cache::Cache;
use super::super::intake::Intake;
use super::*;

/// An intake and what a subscriber heard of it.
fn intake() -> (Intake<Volumes>, Arc<Mutex<Vec<String>>>) {
    let cache = Arc::new(Cache::new(Volumes));
    let heard = Arc::new(Mutex::new(Vec::new()));
    cache.subscribe(Arc::new(listener(&heard)));
    (Intake::new(cache), heard)
}

fn raw(driver: &str) -> Vec<u8> {
    volume("pv-1", driver, "1Gi").to_string().into_bytes()
}

fn take(heard: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut *heard.lock())
}

#[test]
fn what_does_not_mention_us_is_not_even_decoded_in_a_first_list() {
    let (mut intake, heard) = intake();
    intake.begin_list();
    intake.list(b"{ not json, and of theirs }").unwrap();
    intake.list(&raw("ours")).unwrap();
    assert!(intake.list(b"{ not json, but of ours }").is_err());
    assert_eq!(take(&heard), ["added pv-1 1Gi"]);
}

#[test]
fn a_name_written_with_escapes_is_found() {
    for driver in [r"\u006furs", r"o\u0075rs", r"\u006F\u0075\u0072\u0073"] {
        let (mut intake, heard) = intake();
        let json = String::from_utf8(raw("theirs")).unwrap().replace("theirs", driver);
        intake.begin_list();
        intake.list(json.as_bytes()).unwrap();
        assert_eq!(take(&heard), ["added pv-1 1Gi"], "{driver}");
    }
}

/// A watch-list may go on with changes before it says that the list is complete.
#[tokio::test(start_paused = true)]
async fn a_change_while_the_first_list_goes_on_takes_an_object_away() {
    let event = |kind: &str, driver: &str| json!({ "type": kind, "object": volume("pv-1", driver, "1Gi") }).to_string();
    let end = json!({ "resourceVersion": "5", "annotations": { "k8s.io/initial-events-end": "true" } });
    let end = json!({ "type": "BOOKMARK", "object": { "metadata": end } }).to_string();
    let lines = Bytes::from([event("ADDED", "ours"), event("MODIFIED", "theirs"), end, String::new()].join("\n"));
    let service = service_fn(move |_: http::Request<Body>| {
        let first = Ok::<_, Infallible>(Frame::data(lines.clone()));
        let frames = futures_util::stream::iter([first]).chain(futures_util::stream::pending());
        async move { Ok::<_, Infallible>(http::Response::new(StreamBody::new(frames))) }
    });
    let (informer, task) = Informer::new(Api::all(kube::Client::new(service, "default")), Volumes, None);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let _subscription = informer.subscribe(listener(&heard));
    let _task = JoinSet::from_iter([task.run()]);
    tokio::time::timeout(BOUND, informer.synced()).await.unwrap();
    assert_eq!(take(&heard), ["added pv-1 1Gi", "deleted pv-1 1Gi"]);
}

#[test]
fn a_later_list_takes_away_what_stopped_mentioning_us_even_beside_an_object_without_identity() {
    let (mut intake, heard) = intake();
    intake.begin_list();
    intake.list(&raw("ours")).unwrap();
    intake.end_list();
    take(&heard);
    intake.begin_list();
    intake.list(br#"{"metadata":"ours"}"#).unwrap();
    intake.list(&raw("theirs")).unwrap();
    assert_eq!(take(&heard), ["deleted pv-1 1Gi"]);
    intake.end_list();
    assert_eq!(take(&heard), [""; 0]);
}

#[test]
fn a_deletion_is_delivered_whatever_the_last_state_mentions() {
    let (mut intake, heard) = intake();
    intake.begin_list();
    intake.list(&raw("ours")).unwrap();
    intake.delete(&raw("theirs")).unwrap();
    intake.end_list();
    assert_eq!(take(&heard), ["added pv-1 1Gi", "deleted pv-1 1Gi"]);
}
