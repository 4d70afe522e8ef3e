//! What is remembered of calls with an unknown outcome: the rows of the store in which the Go provisioner keeps the topology
//! of a first call. Here it is the whole request.

use std::sync::Arc;

use serde_json::{Value, json};
use storage_kube::names::ClaimUid;
use storage_kube::uid::Uid;

use super::eligibility::{class_record, settings};
use super::objects::{CLAIM_UID, DRIVER, claim, class, with};
use crate::claim::in_progress::InProgress;
use crate::create_volume::request::{Plan, plan};

fn planned(change: &Value) -> Arc<Plan> {
    let claim = Arc::new(super::claims::record(DRIVER, with(claim("data", "fast"), change)).unwrap());
    Arc::new(plan(&settings(), &claim, &class_record(class("fast", json!({})))).unwrap())
}

fn bytes(calls: &InProgress, claim: &ClaimUid) -> Option<i64> {
    calls.get(claim).map(|plan| plan.requested_bytes)
}

#[test]
fn a_call_is_remembered_by_claim_until_its_outcome_is_known() {
    let calls = InProgress::default();
    let (ours, other) = (ClaimUid(Uid::from(CLAIM_UID)), ClaimUid(Uid::from("other")));
    calls.end(&ours);
    assert_eq!(bytes(&calls, &ours), None, "what was never remembered can be forgotten");
    let first = planned(&json!({}));
    assert!(!calls.begin(&first), "the first call");
    assert_eq!(bytes(&calls, &ours), Some(1 << 30));
    assert_eq!(bytes(&calls, &other), None, "of other claims nothing is known");
    assert!(calls.begin(&first), "a call that is repeated");
    assert_eq!(calls.all().len(), 1);
    let larger = planned(&json!({ "spec": { "resources": { "requests": { "storage": "2Gi" } } } }));
    calls.begin(&larger);
    assert_eq!(bytes(&calls, &ours), Some(2 << 30), "the last plan counts");
    calls.end(&ours);
    assert_eq!(bytes(&calls, &ours), None);
    assert!(!calls.begin(&first), "and the next call is a first one");
}
