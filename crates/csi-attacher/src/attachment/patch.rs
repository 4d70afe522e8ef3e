//! Bodies of the patches of a VolumeAttachment. Pure.
//!
//! All are JSON merge patches (RFC 7386), as the Go attacher sends them, and carry the UID: one made anew under the name is
//! not touched. Those that replace the list of finalizers also carry the resourceVersion the list was read at, so that
//! another's finalizer is not undone.

use std::collections::BTreeMap;

use csi_client::Code;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use storage_kube::annotations::PUBLISHED_NODE_ID;
use storage_kube::finalizers::{self, Edit};
use storage_kube::names::NodeId;

use super::decision::PublishContext;
use crate::records::AttachmentRecord;

/// The longest message the API server takes (validation of `VolumeError`), in bytes.
const LONGEST_MESSAGE: usize = 1024;

/// Puts our finalizer on and notes the node id; none when both are there.
pub(crate) fn hold(attachment: &AttachmentRecord, finalizer: &str, node: &NodeId) -> Option<Value> {
    let mut metadata = Map::new();
    if attachment.published_node() != Some(node) {
        metadata.insert("annotations".into(), json!({ PUBLISHED_NODE_ID: node.as_str() }));
    }
    if let Edit::Changed(list) = finalizers::add(attachment.finalizers(), finalizer) {
        metadata.insert("finalizers".into(), json!(list));
        precondition(&mut metadata, attachment);
    }
    if metadata.is_empty() {
        return None;
    }
    metadata.insert("uid".into(), json!(attachment.uid.to_string()));
    Some(json!({ "metadata": metadata }))
}

/// Takes our finalizer off; none when it is not there.
pub(crate) fn release(attachment: &AttachmentRecord, finalizer: &str) -> Option<Value> {
    match finalizers::remove(attachment.finalizers(), finalizer) {
        Edit::Unchanged => None,
        Edit::Changed(list) => {
            let mut metadata = Map::new();
            metadata.insert("finalizers".into(), json!(list));
            metadata.insert("uid".into(), json!(attachment.uid.to_string()));
            precondition(&mut metadata, attachment);
            Some(json!({ "metadata": metadata }))
        }
    }
}

fn precondition(metadata: &mut Map<String, Value>, attachment: &AttachmentRecord) {
    if attachment.resource_version != 0 {
        metadata.insert("resourceVersion".into(), json!(attachment.resource_version.to_string()));
    }
}

/// The volume is attached. `error_to_clear`: the status has, or may have, an attach error.
pub(crate) fn attached(attachment: &AttachmentRecord, context: &PublishContext, error_to_clear: bool) -> Value {
    let mut status = Map::new();
    status.insert("attached".into(), json!(true));
    if !context.is_empty() {
        status.insert("attachmentMetadata".into(), json!(context));
    }
    if error_to_clear {
        status.insert("attachError".into(), Value::Null);
    }
    with_status(attachment, &Value::Object(status))
}

/// The publish context is another than the status has; none when it is not.
pub(crate) fn changed_metadata(
    attachment: &AttachmentRecord,
    before: &BTreeMap<String, String>,
    context: &PublishContext,
) -> Option<Value> {
    let gone = before.keys().filter(|key| !context.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = context.iter().filter(|(key, value)| before.get(*key) != Some(value));
    let changed = changed.map(|(key, value)| (key.clone(), json!(value)));
    let edits: Map<String, Value> = gone.chain(changed).collect();
    (!edits.is_empty()).then(|| with_status(attachment, &json!({ "attachmentMetadata": edits })))
}

/// The volume is detached.
pub(crate) fn detached(attachment: &AttachmentRecord) -> Value {
    with_status(attachment, &json!({ "attached": false, "attachmentMetadata": null, "detachError": null }))
}

/// The last try to attach failed; the code is that of gRPC, when there is one (KEP-4876).
pub(crate) fn attach_error(attachment: &AttachmentRecord, text: &str, code: Option<Code>, now: Timestamp) -> Value {
    let mut error = volume_error(text, now);
    if let Some(code) = code {
        error["errorCode"] = json!(i32::from(code));
    }
    with_status(attachment, &json!({ "attachError": error }))
}

/// The last try to detach failed.
pub(crate) fn detach_error(attachment: &AttachmentRecord, text: &str, now: Timestamp) -> Value {
    with_status(attachment, &json!({ "detachError": volume_error(text, now) }))
}

fn volume_error(text: &str, now: Timestamp) -> Value {
    let message = &text[..text.floor_char_boundary(LONGEST_MESSAGE)];
    json!({ "message": message, "time": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string() })
}

fn with_status(attachment: &AttachmentRecord, status: &Value) -> Value {
    json!({ "metadata": { "uid": attachment.uid.to_string() }, "status": status })
}
