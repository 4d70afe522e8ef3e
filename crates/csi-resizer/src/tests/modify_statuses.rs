//! Contract §7.7 and §7.8: what the status says of a modification.

use jiff::Timestamp;
use serde_json::{Value, json};
use storage_kube::wire::ClaimProgress;

use super::objects::claim;
use crate::modify::status::{self as modify_status, Failure};
use crate::records::ClaimRecord;

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

fn record(conditions: &Value) -> ClaimRecord {
    let mut claim = claim("2Gi", "1Gi");
    claim["status"]["conditions"] = conditions.clone();
    ClaimRecord::of(serde_json::from_value::<ClaimProgress>(claim).unwrap()).unwrap()
}

fn condition(kind: &str) -> Value {
    json!({ "type": kind, "status": "True" })
}

/// Types of conditions as patched, with `-` for those that go.
fn kinds(body: &Value) -> Vec<String> {
    let conditions = body["status"]["conditions"].as_array().unwrap();
    conditions
        .iter()
        .map(|condition| {
            let removed = if condition["$patch"] == "delete" { "-" } else { "" };
            format!("{removed}{}", condition["type"].as_str().unwrap())
        })
        .collect()
}

const FAILURE: Failure<'static> =
    Failure { code: "Internal", message: "no", is_uncertain: false, is_infeasible: false };

/// Contract §7.7, the condition tables.
#[test]
fn the_conditions_of_a_modification_say_how_it_goes() {
    let claim = record(&json!([]));
    let progress = modify_status::in_progress(&claim, "target-vac", now());
    assert_eq!(progress["status"]["modifyVolumeStatus"]["status"], "InProgress");
    assert_eq!(progress["status"]["conditions"][0]["message"], r#"Modifying volume to "target-vac" is in progress."#);
    let rows = [
        (FAILURE, "InProgress", r#"Modifying volume to "target-vac" failed. Waiting for retry."#),
        (
            Failure { code: "Aborted", is_uncertain: true, ..FAILURE },
            "InProgress",
            r#"Modifying volume to "target-vac" is still in progress."#,
        ),
        (
            Failure { code: "InvalidArgument", is_infeasible: true, ..FAILURE },
            "Infeasible",
            r#"Modifying volume to "target-vac" failed. Waiting for retry."#,
        ),
    ];
    assert_eq!(rows.len(), 3);
    for (failure, status, message) in rows {
        let body = modify_status::failed(&claim, "target-vac", failure, now());
        assert_eq!(body["status"]["modifyVolumeStatus"], json!({ "status": status }), "the target stays");
        assert_eq!(kinds(&body), ["ModifyingVolume", "ModifyVolumeError"]);
        assert_eq!(body["status"]["conditions"][0]["message"], message);
        assert_eq!(body["status"]["conditions"][1]["reason"], failure.code);
        assert_eq!(body["status"]["conditions"][1]["message"], failure.message);
    }
    assert_eq!(modify_status::pending()["status"].get("conditions"), None);
}

/// Contract §7.8, merging of conditions: since when one holds changes with its status and its reason only.
#[test]
fn since_when_a_condition_holds_is_kept_while_it_says_the_same() {
    let since = |before: Value, failure: Failure<'_>| {
        let body = modify_status::failed(&record(&before), "x", failure, now());
        body["status"]["conditions"][1].get("lastTransitionTime").cloned()
    };
    let new = Some(json!("2026-01-02T03:04:05Z"));
    assert_eq!(since(json!([]), FAILURE), new);
    let same = json!([{ "type": "ModifyVolumeError", "status": "True", "reason": "Internal" }]);
    assert_eq!(since(same.clone(), FAILURE), None, "left out of the patch, it stays");
    assert_eq!(since(same, Failure { code: "Aborted", ..FAILURE }), new);
    let other = json!([{ "type": "ModifyVolumeError", "status": "False", "reason": "Internal" }]);
    assert_eq!(since(other, FAILURE), new);
}

#[test]
fn a_modification_that_is_done_or_given_up_leaves_the_conditions_about_growing() {
    let all =
        json!([condition("FileSystemResizePending"), condition("ModifyingVolume"), condition("ModifyVolumeError")]);
    let claim = record(&all);
    let body = modify_status::completed(&claim, "gold");
    assert_eq!(kinds(&body), ["-ModifyingVolume", "-ModifyVolumeError"]);
    assert_eq!(body["status"]["modifyVolumeStatus"], Value::Null);
    assert_eq!(kinds(&modify_status::rolled_back(&claim).unwrap()), ["-ModifyingVolume"]);
    assert_eq!(modify_status::rolled_back(&record(&json!([]))), None);
}
