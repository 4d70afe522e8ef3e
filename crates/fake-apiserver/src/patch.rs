//! The three patch forms clients of storage objects send.

use serde_json::Value;

use crate::status::Status;

mod json_patch;
mod strategic;

/// `original` with `patch` applied, by the content type of the request.
///
/// # Errors
/// 415 for other content types (server-side apply among them), 400 for a body of the wrong form, 422 for a JSON
/// patch that does not fit the object, a failed `test` operation included.
pub(crate) fn apply(content_type: &str, original: &Value, body: &[u8]) -> Result<Value, Status> {
    let patch: Value =
        serde_json::from_slice(body).map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
    let mut patched = original.clone();
    match content_type.split(';').next().unwrap_or_default().trim() {
        "application/merge-patch+json" => merge(&mut patched, &patch),
        "application/strategic-merge-patch+json" => strategic::merge(&mut patched, &patch)?,
        "application/json-patch+json" => json_patch::apply(&mut patched, &patch)?,
        other => {
            return Err(Status::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json; not {other}"
            )));
        }
    }
    if !patched.is_object() {
        return Err(Status::bad_request("the patched value is not an object"));
    }
    Ok(patched)
}

/// RFC 7386.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Some(target) = target.as_object_mut() else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.as_str()).or_insert(Value::Null), value);
        }
    }
}
