//! What the status of a claim says while the class of its volume changes: bodies of strategic merge patches. Pure.

use jiff::Timestamp;
use serde_json::{Value, json};
use storage_kube::wire::ClaimCondition;

use crate::conditions::{self, MODIFY_VOLUME_ERROR, MODIFYING_VOLUME};
use crate::records::ClaimRecord;

/// How a call has failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure<'a> {
    /// Name of the gRPC code.
    pub(crate) code: &'a str,
    pub(crate) message: &'a str,
    /// The driver may be working on it.
    pub(crate) is_uncertain: bool,
    /// The driver will never do it.
    pub(crate) is_infeasible: bool,
}

/// The class is not there.
pub(crate) fn pending() -> Value {
    json!({ "status": { "modifyVolumeStatus": { "status": "Pending" } } })
}

/// The driver is about to be asked.
pub(crate) fn in_progress(claim: &ClaimRecord, target: &str, now: Timestamp) -> Value {
    let message = format!("Modifying volume to \"{target}\" is in progress.");
    json!({ "status": {
        "modifyVolumeStatus": { "status": "InProgress", "targetVolumeAttributesClassName": target },
        "conditions": [condition(&claim.conditions, MODIFYING_VOLUME, None, &message, now)],
    } })
}

/// The driver was asked, and has not done it.
pub(crate) fn failed(claim: &ClaimRecord, target: &str, failure: Failure<'_>, now: Timestamp) -> Value {
    let status = if failure.is_infeasible { "Infeasible" } else { "InProgress" };
    let message = if failure.is_uncertain {
        format!("Modifying volume to \"{target}\" is still in progress.")
    } else {
        format!("Modifying volume to \"{target}\" failed. Waiting for retry.")
    };
    json!({ "status": {
        "modifyVolumeStatus": { "status": status },
        "conditions": [
            condition(&claim.conditions, MODIFYING_VOLUME, None, &message, now),
            condition(&claim.conditions, MODIFY_VOLUME_ERROR, Some(failure.code), failure.message, now),
        ],
    } })
}

/// The volume has the class.
pub(crate) fn completed(claim: &ClaimRecord, class: &str) -> Value {
    let about = [MODIFYING_VOLUME, MODIFY_VOLUME_ERROR];
    let conditions: Vec<Value> = conditions::removed(&claim.conditions, &about, None).collect();
    json!({ "status": {
        "modifyVolumeStatus": null,
        "currentVolumeAttributesClassName": class,
        "conditions": conditions,
    } })
}

/// No class is wanted any more; `None` when the claim does not say otherwise.
pub(crate) fn rolled_back(claim: &ClaimRecord) -> Option<Value> {
    let conditions: Vec<Value> = conditions::removed(&claim.conditions, &[MODIFYING_VOLUME], None).collect();
    (!conditions.is_empty()).then(|| json!({ "status": { "conditions": conditions } }))
}

/// A condition that is `True`, looked at `now`. Since when stays unless it is new or has another reason.
fn condition(before: &[ClaimCondition], kind: &str, reason: Option<&str>, message: &str, now: Timestamp) -> Value {
    let mut condition = conditions::set(kind, reason, Some(message), now);
    condition["lastProbeTime"] = json!(conditions::seconds(now));
    let same = |old: &ClaimCondition| {
        old.kind == kind && old.status == "True" && old.reason.as_deref().unwrap_or("") == reason.unwrap_or("")
    };
    if before.iter().any(same)
        && let Some(fields) = condition.as_object_mut()
    {
        fields.remove("lastTransitionTime");
    }
    condition
}
