//! Patches of the finalizers of a PersistentVolume. Pure.
//!
//! JSON Patches (RFC 6902) in the four shapes of the Go attacher. Each but the one that appends tests what it was made for.

use std::borrow::Cow;

use serde::Serialize;

const FINALIZERS: Cow<'static, str> = Cow::Borrowed("/metadata/finalizers");

/// One operation of a JSON Patch.
#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub(crate) enum Operation<'a> {
    Test { path: Cow<'static, str>, value: Value<'a> },
    Add { path: Cow<'static, str>, value: Value<'a> },
    Replace { path: Cow<'static, str>, value: Value<'a> },
    Remove { path: Cow<'static, str> },
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Value<'a> {
    /// Null: there is no list.
    None,
    Empty([(); 0]),
    Only([&'a str; 1]),
    Entry(&'a str),
}

/// Puts `finalizer` on a volume with this list.
pub(crate) fn add<'a>(list: Option<&Vec<String>>, finalizer: &'a str) -> Vec<Operation<'a>> {
    let only = Value::Only([finalizer]);
    match list {
        None => vec![
            Operation::Test { path: FINALIZERS, value: Value::None },
            Operation::Add { path: FINALIZERS, value: only },
        ],
        Some(list) if list.is_empty() => vec![
            Operation::Test { path: FINALIZERS, value: Value::Empty([]) },
            Operation::Replace { path: FINALIZERS, value: only },
        ],
        Some(_) => vec![Operation::Add { path: "/metadata/finalizers/-".into(), value: Value::Entry(finalizer) }],
    }
}

/// Takes `finalizer` off, which is at `index`.
pub(crate) fn remove(index: usize, finalizer: &str) -> Vec<Operation<'_>> {
    let path: Cow<'static, str> = Cow::Owned(format!("{FINALIZERS}/{index}"));
    vec![Operation::Test { path: path.clone(), value: Value::Entry(finalizer) }, Operation::Remove { path }]
}
