//! The patches of the status, applied.

use fake_apiserver::FakeApiServer;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::objects::{CLAIM, NAMESPACE, claim};
use crate::expand::status::{self, legacy};
use crate::records::ClaimRecord;

/// The claim after a patch that was made for it.
async fn patched(before: Value, body: impl FnOnce(&ClaimRecord, Timestamp) -> Value) -> Value {
    let api = FakeApiServer::new();
    let stored = api.create_json::<PersistentVolumeClaim>(before);
    let record = ClaimRecord::of(serde_json::from_value(stored).unwrap()).unwrap();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(api.client(), NAMESPACE);
    let now: Timestamp = "2026-05-04T03:02:01.9Z".parse().unwrap();
    let body = Patch::<Value>::Strategic(body(&record, now));
    claims.patch_status(CLAIM, &PatchParams::default(), &body).await.unwrap();
    api.get_json::<PersistentVolumeClaim>(NAMESPACE, CLAIM).unwrap()
}

fn with_statuses(statuses: Value) -> Value {
    let mut claim = claim("2Gi", "1Gi");
    if !statuses.is_null() {
        claim["status"]["allocatedResourceStatuses"] = statuses;
    }
    claim
}

fn with_conditions(kinds: &[&str]) -> Value {
    let mut claim = claim("2Gi", "1Gi");
    let old = |kind: &&str| json!({ "type": kind, "status": "True", "reason": "Old", "lastTransitionTime": "2001-01-01T00:00:00Z" });
    claim["status"]["conditions"] = kinds.iter().map(old).collect();
    claim
}

fn kinds(claim: &Value) -> Vec<&str> {
    let all = claim["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().map(|condition| condition["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_step_writes_its_status_and_leaves_those_of_other_resources() {
    type Body = fn(&ClaimRecord, Timestamp) -> Value;
    let cpu = json!({ "cpu": "ControllerResizeInfeasible" });
    let node_pending: Body = status::node_pending;
    let in_progress: Body = |claim, now| status::in_progress(claim, "2Gi", true, now);
    let infeasible: Body = |_, now| status::infeasible("no", now);
    let finished: Body = |claim, _| status::finished(claim, "2Gi");
    let cases = [
        (node_pending, Value::Null, json!({ "storage": "NodeResizePending" })),
        (node_pending, cpu.clone(), json!({ "cpu": "ControllerResizeInfeasible", "storage": "NodeResizePending" })),
        (in_progress, Value::Null, json!({ "storage": "ControllerResizeInProgress" })),
        (infeasible, Value::Null, json!({ "storage": "ControllerResizeInfeasible" })),
        (finished, json!({ "cpu": "ControllerResizeInfeasible", "storage": "NodeResizePending" }), cpu),
    ];
    assert_eq!(cases.len(), 5);
    for (body, before, after) in cases {
        let claim = patched(with_statuses(before.clone()), body).await;
        assert_eq!(claim["status"]["allocatedResourceStatuses"], after, "from {before}");
    }
}

#[tokio::test]
async fn each_step_keeps_or_drops_conditions() {
    type Body = fn(&ClaimRecord, Timestamp) -> Value;
    let begun: Body = |claim, now| status::in_progress(claim, "2Gi", true, now);
    let again: Body = |claim, now| status::in_progress(claim, "2Gi", false, now);
    let pending: Body = status::node_pending;
    let failed: Body = |_, now| status::failed("no", now);
    let finished: Body = |claim, _| status::finished(claim, "2Gi");
    let (modifying, waits, error) = ("ModifyingVolume", "FileSystemResizePending", "ControllerResizeError");
    let cases: [(Body, &[&str], &[&str]); 12] = [
        (begun, &[modifying], &[modifying, "Resizing"]),
        (begun, &[error, modifying, waits, "NodeResizeError"], &[modifying, "Resizing"]),
        (begun, &["Resizing", error], &["Resizing"]),
        (again, &[error, modifying], &[error, modifying, "Resizing"]),
        (pending, &["Resizing", modifying], &["Resizing", modifying, waits]),
        (pending, &[waits], &[waits]),
        (failed, &[modifying], &[modifying, error]),
        (failed, &["Resizing", error], &["Resizing", error]),
        (finished, &["Resizing", modifying, error], &[modifying]),
        (|claim, now| legacy::in_progress(claim, now), &[modifying, waits], &[modifying, "Resizing"]),
        (|claim, now| legacy::node_pending(claim, now), &[modifying, "Resizing"], &[modifying, waits]),
        (|claim, _| legacy::finished(claim, "2Gi"), &["Resizing", modifying], &[modifying]),
    ];
    for (body, before, after) in cases {
        let claim = patched(with_conditions(before), body).await;
        assert_eq!(kinds(&claim), after, "from {before:?}");
    }
}

#[tokio::test]
async fn a_condition_that_is_written_is_written_in_full_and_others_are_left() {
    let claim = patched(with_conditions(&["ControllerResizeError", "ModifyingVolume"]), |_, now| {
        status::failed("rpc error: code = Internal desc = no", now)
    })
    .await;
    let [error, other] = claim["status"]["conditions"].as_array().unwrap().as_slice() else { panic!("two") };
    assert_eq!(error["message"], "failed to expand pvc with rpc error: code = Internal desc = no");
    assert_eq!(error["lastTransitionTime"], "2026-05-04T03:02:01Z");
    assert_eq!((&error["status"], error.get("reason")), (&json!("True"), None));
    assert_eq!((&other["reason"], &other["lastTransitionTime"]), (&json!("Old"), &json!("2001-01-01T00:00:00Z")));
    let pending = patched(with_conditions(&[]), status::node_pending).await;
    assert_eq!(
        pending["status"]["conditions"][0]["message"],
        "Waiting for user to (re-)start a pod to finish file system resize of volume on node."
    );
}

#[tokio::test]
async fn each_step_writes_what_it_knows_of_sizes_and_of_the_node() {
    let annotation = "volume.kubernetes.io/node-expansion-not-required";
    let mut told = claim("2Gi", "1Gi");
    told["metadata"]["annotations"] = json!({ annotation: "yes", "other": "stays" });
    told["status"]["allocatedResources"] = json!({ "storage": "3Gi" });

    for is_new in [true, false] {
        let begun = patched(told.clone(), |claim, now| status::in_progress(claim, "2Gi", is_new, now)).await;
        assert_eq!(begun["status"]["allocatedResources"], json!({ "storage": "2Gi" }));
        assert_eq!(begun["status"].get("allocatedResourceStatuses").is_some(), is_new);
        assert_eq!(begun["metadata"]["annotations"], json!({ "other": "stays" }));
    }
    let pending = patched(told.clone(), status::node_pending).await;
    assert_eq!(pending["status"]["allocatedResources"], json!({ "storage": "3Gi" }));
    assert_eq!(pending["metadata"]["annotations"], json!({ "other": "stays" }));
    assert_eq!(pending["status"]["capacity"], json!({ "storage": "1Gi" }));

    let finished = patched(told.clone(), |claim, _| status::finished(claim, "2Gi")).await;
    assert_eq!(finished["status"]["capacity"], json!({ "storage": "2Gi" }));
    assert_eq!(finished["status"]["allocatedResources"], json!({ "storage": "3Gi" }), "kept as it is");
    assert_eq!(finished["metadata"]["annotations"][annotation], "yes", "what is there is enough");
    let finished = patched(claim("2Gi", "1Gi"), |claim, _| status::finished(claim, "2Gi")).await;
    assert_eq!(finished["metadata"]["annotations"][annotation], "true");

    let legacy = patched(claim("2Gi", "1Gi"), |claim, _| legacy::finished(claim, "2Gi")).await;
    assert!(legacy["metadata"].get("annotations").is_none());
    assert_eq!(legacy["status"]["capacity"], json!({ "storage": "2Gi" }));
}
