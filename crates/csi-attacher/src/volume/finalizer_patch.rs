//! Patches of the finalizers of a PersistentVolume. Pure.
//!
//! JSON Patches (RFC 6902) in the four shapes of the Go attacher. Each but the one that appends tests what it was made for.

use serde_json::{Value, json};

/// Puts `finalizer` on a volume with this list.
pub(crate) fn add(list: Option<&Vec<String>>, finalizer: &str) -> Value {
    match list {
        None => json!([
            { "op": "test", "path": "/metadata/finalizers", "value": null },
            { "op": "add", "path": "/metadata/finalizers", "value": [finalizer] },
        ]),
        Some(list) if list.is_empty() => json!([
            { "op": "test", "path": "/metadata/finalizers", "value": [] },
            { "op": "replace", "path": "/metadata/finalizers", "value": [finalizer] },
        ]),
        Some(_) => json!([{ "op": "add", "path": "/metadata/finalizers/-", "value": finalizer }]),
    }
}

/// Takes `finalizer` off, which is at `index`.
pub(crate) fn remove(index: usize, finalizer: &str) -> Value {
    let path = format!("/metadata/finalizers/{index}");
    json!([
        { "op": "test", "path": path, "value": finalizer },
        { "op": "remove", "path": path },
    ])
}
