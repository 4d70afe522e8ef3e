//! `status.conditions` of a claim in strategic merge patches, which merge the list by `type`: an entry replaces the fields it
//! has, and all that is not mentioned stays.

use jiff::Timestamp;
use serde_json::{Value, json};
use storage_kube::wire::ClaimCondition;

/// The driver is asked to grow the volume.
pub(crate) const RESIZING: &str = "Resizing";
/// The node has to do its part.
pub(crate) const FILE_SYSTEM_RESIZE_PENDING: &str = "FileSystemResizePending";
/// Why the driver has not grown the volume.
pub(crate) const CONTROLLER_RESIZE_ERROR: &str = "ControllerResizeError";
/// Why the node has not done its part.
pub(crate) const NODE_RESIZE_ERROR: &str = "NodeResizeError";
/// The class of attributes is being changed.
pub(crate) const MODIFYING_VOLUME: &str = "ModifyingVolume";
/// Why it was not changed.
pub(crate) const MODIFY_VOLUME_ERROR: &str = "ModifyVolumeError";

/// Those about growing.
pub(crate) const OF_RESIZING: [&str; 4] =
    [RESIZING, FILE_SYSTEM_RESIZE_PENDING, CONTROLLER_RESIZE_ERROR, NODE_RESIZE_ERROR];

/// Whether the condition is there and `True`.
pub(crate) fn is_true(conditions: &[ClaimCondition], kind: &str) -> bool {
    conditions.iter().any(|condition| condition.kind == kind && condition.status == "True")
}

/// Takes those of `kinds` away that are there, except `kept`.
pub(crate) fn removed<'a>(
    conditions: &'a [ClaimCondition],
    kinds: &'a [&str],
    kept: Option<&'a str>,
) -> impl Iterator<Item = Value> + 'a {
    conditions
        .iter()
        .map(|condition| condition.kind.as_str())
        .filter(move |kind| kinds.contains(kind) && Some(*kind) != kept)
        .map(|kind| json!({ "$patch": "delete", "type": kind }))
}

/// A condition that is `True` since `now`, in full: what an older one of the type says besides goes.
pub(crate) fn set(kind: &str, reason: Option<&str>, message: Option<&str>, now: Timestamp) -> Value {
    json!({ "type": kind, "status": "True", "reason": reason, "message": message, "lastProbeTime": null,
        "lastTransitionTime": seconds(now) })
}

/// As the API has times of conditions.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
