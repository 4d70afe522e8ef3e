//! What the status of a claim says while its volume grows: bodies of strategic merge patches. Pure.

use jiff::Timestamp;
use serde_json::{Value, json};
use storage_kube::annotations::NODE_EXPANSION_NOT_REQUIRED;

use crate::conditions::{self, CONTROLLER_RESIZE_ERROR, FILE_SYSTEM_RESIZE_PENDING, OF_RESIZING, RESIZING};
use crate::records::ClaimRecord;

/// For people who look at the claim.
const PENDING_MESSAGE: &str = "Waiting for user to (re-)start a pod to finish file system resize of volume on node.";

/// The driver is about to be asked for `size`. `is_new`: it was not asked for that size before.
pub(crate) fn in_progress(claim: &ClaimRecord, size: &str, is_new: bool, now: Timestamp) -> Value {
    let mut conditions = vec![conditions::set(RESIZING, None, None, now)];
    let mut status = json!({ "allocatedResources": { "storage": size } });
    if is_new {
        conditions.extend(conditions::removed(&claim.conditions, &OF_RESIZING, Some(RESIZING)));
        status["allocatedResourceStatuses"] = json!({ "storage": "ControllerResizeInProgress" });
    }
    status["conditions"] = json!(conditions);
    without_node_annotation(claim, &status)
}

/// The driver has grown the volume, and the node has to do its part.
pub(crate) fn node_pending(claim: &ClaimRecord, now: Timestamp) -> Value {
    let status = json!({
        "conditions": [conditions::set(FILE_SYSTEM_RESIZE_PENDING, None, Some(PENDING_MESSAGE), now)],
        "allocatedResourceStatuses": { "storage": "NodeResizePending" },
    });
    without_node_annotation(claim, &status)
}

/// The driver will never do it.
pub(crate) fn infeasible(error: &str, now: Timestamp) -> Value {
    let mut body = failed(error, now);
    body["status"]["allocatedResourceStatuses"] = json!({ "storage": "ControllerResizeInfeasible" });
    body
}

/// The driver has not done it, and left nothing behind.
pub(crate) fn failed(error: &str, now: Timestamp) -> Value {
    let message = format!("failed to expand pvc with {error}");
    json!({ "status": { "conditions": [conditions::set(CONTROLLER_RESIZE_ERROR, None, Some(&message), now)] } })
}

/// The volume has `size`, and the node has nothing to do.
pub(crate) fn finished(claim: &ClaimRecord, size: &str) -> Value {
    let conditions: Vec<Value> = conditions::removed(&claim.conditions, &OF_RESIZING, None).collect();
    let mut body = json!({ "status": {
        "conditions": conditions,
        "capacity": { "storage": size },
        "allocatedResourceStatuses": { "storage": null },
    } });
    if !claim.size.node_not_required {
        body["metadata"] = json!({ "annotations": { NODE_EXPANSION_NOT_REQUIRED: "true" } });
    }
    body
}

/// The same steps without KEP-1790 (gate `RecoverVolumeExpansionFailure` off).
pub(crate) mod legacy {
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::PENDING_MESSAGE;
    use crate::conditions::{self, FILE_SYSTEM_RESIZE_PENDING, OF_RESIZING, RESIZING};
    use crate::records::ClaimRecord;

    /// The driver is about to be asked.
    pub(crate) fn in_progress(claim: &ClaimRecord, now: Timestamp) -> Value {
        only(claim, RESIZING, None, now)
    }

    /// The driver has grown the volume, and the node has to do its part.
    pub(crate) fn node_pending(claim: &ClaimRecord, now: Timestamp) -> Value {
        only(claim, FILE_SYSTEM_RESIZE_PENDING, Some(PENDING_MESSAGE), now)
    }

    /// The volume has `size`, and the node has nothing to do.
    pub(crate) fn finished(claim: &ClaimRecord, size: &str) -> Value {
        let conditions: Vec<Value> = conditions::removed(&claim.conditions, &OF_RESIZING, None).collect();
        json!({ "status": { "conditions": conditions, "capacity": { "storage": size } } })
    }

    /// One condition about growing, and no other.
    fn only(claim: &ClaimRecord, kind: &str, message: Option<&str>, now: Timestamp) -> Value {
        let mut conditions = vec![conditions::set(kind, None, message, now)];
        conditions.extend(conditions::removed(&claim.conditions, &OF_RESIZING, Some(kind)));
        json!({ "status": { "conditions": conditions } })
    }
}

/// The node may have to do its part: what the claim says about an earlier growth does not hold.
fn without_node_annotation(claim: &ClaimRecord, status: &Value) -> Value {
    let mut body = json!({ "status": status });
    if claim.size.node_not_required {
        body["metadata"] = json!({ "annotations": { NODE_EXPANSION_NOT_REQUIRED: null } });
    }
    body
}
