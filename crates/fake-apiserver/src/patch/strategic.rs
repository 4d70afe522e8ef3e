//! Strategic merge patch, as far as storage objects need it: lists that merge are known by field name.

use serde_json::{Map, Value};

use crate::status::Status;

/// Lists of strings that merge as sets.
const SETS: &[&str] = &["finalizers"];
/// Lists of objects that merge by a key.
const KEYED: &[(&str, &str)] = &[("ownerReferences", "uid"), ("conditions", "type")];

const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";
const DIRECTIVE: &str = "$patch";

pub(super) fn merge(target: &mut Value, patch: &Value) -> Result<(), Status> {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return Ok(());
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(target) = target.as_object_mut() else {
        return Ok(());
    };
    if patch.get(DIRECTIVE).and_then(Value::as_str) == Some("replace") {
        target.clear();
    }
    for (key, value) in patch {
        merge_field(target, key, value)?;
    }
    Ok(())
}

fn merge_field(target: &mut Map<String, Value>, key: &str, value: &Value) -> Result<(), Status> {
    if key == DIRECTIVE || key.starts_with(ORDER) {
        return Ok(());
    }
    if let Some(list) = key.strip_prefix(DELETE_FROM) {
        let unwanted = value.as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(Value::Array(list)) = target.get_mut(list) {
            list.retain(|element| !unwanted.contains(element));
        }
        return Ok(());
    }
    if key.starts_with('$') {
        return Err(Status::bad_request(format!("strategic merge patch directive {key} is not supported here")));
    }
    if value.is_null() {
        target.remove(key);
        return Ok(());
    }
    let current = target.entry(key).or_insert(Value::Null);
    match value {
        Value::Array(elements) if SETS.contains(&key) => {
            let list = as_list(current);
            for element in elements {
                if !list.contains(element) {
                    list.push(element.clone());
                }
            }
            Ok(())
        }
        Value::Array(elements) => {
            if let Some((_, by)) = KEYED.iter().find(|(list, _)| *list == key) {
                let list = as_list(current);
                elements.iter().try_for_each(|element| merge_element(list, by, element))
            } else {
                *current = value.clone();
                Ok(())
            }
        }
        _ => merge(current, value),
    }
}

fn merge_element(list: &mut Vec<Value>, by: &str, element: &Value) -> Result<(), Status> {
    let same = |other: &Value| other.get(by).is_some() && other.get(by) == element.get(by);
    if element.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
        list.retain(|other| !same(other));
        return Ok(());
    }
    if let Some(existing) = list.iter_mut().find(|other| same(other)) {
        merge(existing, element)
    } else {
        list.push(element.clone());
        Ok(())
    }
}

fn as_list(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    match value {
        Value::Array(list) => list,
        _ => unreachable!("made a list above"),
    }
}
