//! Reading and writing the metadata of a JSON object.

use serde_json::{Map, Value, json};

use crate::status::Status;

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(crate) fn resource_version(object: &Value) -> &str {
    text(object, "/metadata/resourceVersion")
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|stamp| !stamp.is_null())
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    list.map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// Sets one field of the metadata; `null` takes it away.
pub(crate) fn set_metadata(object: &mut Value, field: &str, value: Value) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    if value.is_null() {
        metadata.remove(field);
    } else {
        metadata.insert(field.to_owned(), value);
    }
}

/// Copies a top-level field of `from` to `to`, also when it is absent.
pub(crate) fn copy_field(field: &str, from: &Value, to: &mut Value) {
    let Some(to) = to.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

/// # Errors
/// 400 when the body is not a JSON object.
pub(crate) fn parse(body: &[u8]) -> Result<Value, Status> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| Status::bad_request(format!("the request body is not JSON: {error}")))?;
    if value.is_object() { Ok(value) } else { Err(Status::bad_request("the request body is not a JSON object")) }
}

/// The present second, as the API writes times.
pub(crate) fn now() -> Value {
    json!(jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Drops what the real server never stores: explicit nulls, empty maps of the metadata, field ownership.
pub(crate) fn tidy(object: &mut Value) {
    fn drop_nulls(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|_, value| !value.is_null());
                map.values_mut().for_each(drop_nulls);
            }
            Value::Array(list) => list.iter_mut().for_each(drop_nulls),
            _ => {}
        }
    }
    drop_nulls(object);
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("selfLink");
        metadata.retain(|_, value| {
            !value.as_object().is_some_and(Map::is_empty) && !value.as_array().is_some_and(Vec::is_empty)
        });
    }
}
