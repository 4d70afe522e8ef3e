//! Answers to requests that ask for `PartialObjectMetadata` (meta.k8s.io/v1).

use serde_json::{Value, json};

/// The object, or each item of the list, without anything but its metadata.
pub(crate) fn alone(answer: &Value) -> Value {
    let Some(items) = answer.get("items").and_then(Value::as_array) else {
        return of_kind("PartialObjectMetadata", answer);
    };
    let mut list = of_kind("PartialObjectMetadataList", answer);
    list["items"] = items.iter().map(|item| of_kind("PartialObjectMetadata", item)).collect();
    list
}

fn of_kind(kind: &str, object: &Value) -> Value {
    json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"] })
}
