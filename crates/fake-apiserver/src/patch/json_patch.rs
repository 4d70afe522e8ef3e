//! RFC 6902.

use serde_json::{Map, Value};

use crate::status::Status;

pub(super) fn apply(target: &mut Value, patch: &Value) -> Result<(), Status> {
    let operations = patch.as_array().ok_or_else(|| Status::bad_request("a JSON patch is a list of operations"))?;
    operations.iter().try_for_each(|operation| step(target, operation))
}

fn step(target: &mut Value, operation: &Value) -> Result<(), Status> {
    let field = |name: &str| operation.get(name).and_then(Value::as_str);
    let path = field("path").ok_or_else(|| refused("an operation has no path"))?;
    let value = || operation.get("value").cloned().ok_or_else(|| refused(&format!("{path}: no value")));
    match field("op").unwrap_or_default() {
        "add" => add(target, path, value()?),
        "remove" => remove(target, path).map(drop),
        "replace" => {
            *target.pointer_mut(path).ok_or_else(|| missing(path))? = value()?;
            Ok(())
        }
        "test" => {
            // A missing value equals null, as in the library the real server uses.
            let found = target.pointer(path).cloned().unwrap_or(Value::Null);
            if found == value()? { Ok(()) } else { Err(refused(&format!("testing value {path} failed: test failed"))) }
        }
        "copy" | "move" => {
            let from = field("from").ok_or_else(|| refused("an operation has no from"))?;
            let moved = target.pointer(from).cloned().ok_or_else(|| missing(from))?;
            if field("op") == Some("move") {
                remove(target, from)?;
            }
            add(target, path, moved)
        }
        other => Err(refused(&format!("unknown operation {other:?}"))),
    }
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), Status> {
    if path.is_empty() {
        *target = value;
        return Ok(());
    }
    let (parent, key) = split(path)?;
    match target.pointer_mut(parent).ok_or_else(|| missing(path))? {
        Value::Object(map) => {
            map.insert(key, value);
            Ok(())
        }
        Value::Array(list) if key == "-" => {
            list.push(value);
            Ok(())
        }
        Value::Array(list) => {
            let at = key.parse::<usize>().ok().filter(|at| *at <= list.len()).ok_or_else(|| missing(path))?;
            list.insert(at, value);
            Ok(())
        }
        _ => Err(missing(path)),
    }
}

fn remove(target: &mut Value, path: &str) -> Result<Value, Status> {
    let (parent, key) = split(path)?;
    let removed = match target.pointer_mut(parent) {
        Some(Value::Object(map)) => map.remove(&key),
        Some(Value::Array(list)) => key.parse::<usize>().ok().filter(|at| *at < list.len()).map(|at| list.remove(at)),
        _ => None,
    };
    removed.ok_or_else(|| missing(path))
}

/// The pointer of the parent and the unescaped last key.
fn split(path: &str) -> Result<(&str, String), Status> {
    let (parent, key) = path.rsplit_once('/').ok_or_else(|| missing(path))?;
    Ok((parent, key.replace("~1", "/").replace("~0", "~")))
}

fn missing(path: &str) -> Status {
    refused(&format!("doc is missing path: {path}"))
}

fn refused(why: &str) -> Status {
    let mut status =
        Status::new(422, "Invalid", format!("the server rejected our request due to an error in our request: {why}"));
    status.details = Value::Object(Map::new());
    status
}
