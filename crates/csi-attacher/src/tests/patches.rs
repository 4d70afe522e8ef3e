//! The bodies of patches of attachments.

use std::collections::BTreeMap;

use csi_client::Code;
use jiff::Timestamp;
use serde_json::{Value, json};
use storage_kube::names::NodeId;

use super::objects::{FINALIZER, attached, attachment, with};
use super::predicates::record;
use crate::attachment::patch;

const UID: &str = "6f6d0e1c-3a65-4ff0-9d0c-0d6c1b0e7a11";

fn stored(attachment: Value) -> Value {
    with(attachment, json!({ "metadata": { "uid": UID, "resourceVersion": "7" } }))
}

#[test]
fn finalizer_and_node_id_go_on_in_one_patch_and_only_what_is_missing() {
    let node = NodeId::from("n1");
    let hold = |attachment: Value| patch::hold(&record(stored(attachment)), FINALIZER, &node).map(|patch| json!(patch));
    let annotation = json!({ "csi.alpha.kubernetes.io/node-id": "n1" });
    assert_eq!(
        hold(with(attachment(), json!({ "metadata": { "finalizers": ["a"] } }))),
        Some(json!({ "metadata": {
            "annotations": annotation, "finalizers": ["a", FINALIZER], "uid": UID, "resourceVersion": "7",
        } }))
    );
    assert_eq!(
        hold(attached(attachment(), "old")),
        Some(json!({ "metadata": { "annotations": annotation, "uid": UID } })),
        "nothing is said about a list that stays"
    );
    assert_eq!(hold(attached(attachment(), "n1")), None);
}

#[test]
fn only_our_finalizer_comes_off_and_the_order_stays() {
    let release = |list: Value| {
        let attachment = with(attachment(), json!({ "metadata": { "finalizers": list } }));
        patch::release(&record(stored(attachment)), FINALIZER).map(|patch| json!(patch))
    };
    let body = |list: Value| Some(json!({ "metadata": { "finalizers": list, "uid": UID, "resourceVersion": "7" } }));
    assert_eq!(release(json!(["a", FINALIZER, "b"])), body(json!(["a", "b"])));
    assert_eq!(release(json!([FINALIZER])), body(Value::Null));
    assert_eq!(release(json!(["a"])), None);
}

#[test]
fn the_status_says_what_has_changed() {
    let record = record(stored(attachment()));
    let context = BTreeMap::from([("dev".to_owned(), "sda".to_owned())]);
    let none = BTreeMap::new();
    let status = |status: Value| json!({ "metadata": { "uid": UID }, "status": status });
    assert_eq!(json!(patch::attached(&record, &none, &none, false)), status(json!({ "attached": true })));
    assert_eq!(
        json!(patch::attached(&record, &none, &context, true)),
        status(json!({ "attached": true, "attachmentMetadata": { "dev": "sda" }, "attachError": null }))
    );
    assert_eq!(
        json!(patch::detached(&record)),
        status(json!({ "attached": false, "attachmentMetadata": null, "detachError": null }))
    );
    let before = BTreeMap::from([("dev".to_owned(), "sdb".to_owned()), ("old".to_owned(), "x".to_owned())]);
    assert_eq!(
        patch::changed_metadata(&record, &before, &context).map(|patch| json!(patch)),
        Some(status(json!({ "attachmentMetadata": { "dev": "sda", "old": null } })))
    );
    assert!(patch::changed_metadata(&record, &context, &context).is_none());
}

#[test]
fn errors_have_the_time_in_seconds_and_fit_into_the_field() {
    let record = record(stored(attachment()));
    let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
    let body = json!(patch::attach_error(&record, "no", Some(Code::ResourceExhausted), now));
    let error = json!({ "message": "no", "time": "2026-01-02T03:04:05Z", "errorCode": 8 });
    assert_eq!(body["status"], json!({ "attachError": error }));
    let body = json!(patch::detach_error(&record, "no", now));
    assert_eq!(body["status"], json!({ "detachError": { "message": "no", "time": "2026-01-02T03:04:05Z" } }));
    let long = "ä".repeat(1000);
    let body = json!(patch::attach_error(&record, &long, None, now));
    assert_eq!(body["status"]["attachError"].get("errorCode"), Some(&Value::Null), "that of an earlier error goes");
    assert_eq!(body["status"]["attachError"]["message"].as_str().unwrap().len(), 1024);
}
