//! Updates of a PersistentVolumeClaim (`ValidatePersistentVolumeClaimUpdate`).

use serde_json::Value;

use super::changed;

const IMMUTABLE: &str = "Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

/// The field and the reason of a refusal.
pub(super) fn update(current: &Value, wanted: &Value) -> Result<(), (&'static str, &'static str)> {
    let once = |pointer: &str| current.pointer(pointer).is_some_and(|value| !value.is_null() && *value != "");
    let fixed = ["/spec/accessModes", "/spec/selector", "/spec/volumeMode", "/spec/dataSource", "/spec/dataSourceRef"];
    let set_once = ["/spec/volumeName", "/spec/storageClassName"].into_iter().filter(|pointer| once(pointer));
    if fixed.into_iter().chain(set_once).any(|pointer| changed(current, wanted, pointer)) {
        return Err(("spec", IMMUTABLE));
    }
    let size = "/spec/resources/requests/storage";
    if changed(current, wanted, size) {
        if wanted.pointer("/status/phase").is_none_or(|phase| phase != "Bound") {
            return Err(("spec", IMMUTABLE));
        }
        let (before, after) = (bytes(current, size), bytes(wanted, size));
        if after < before && after <= bytes(current, "/status/capacity/storage") {
            return Err(("spec.resources.requests.storage", "Forbidden: field can not be less than status.capacity"));
        }
    }
    if once("/spec/volumeAttributesClassName") && wanted.pointer("/spec/volumeAttributesClassName").is_none() {
        return Err(("spec.volumeAttributesClassName", "Forbidden: update from non-nil value to nil is forbidden"));
    }
    Ok(())
}

/// A quantity, as far as tests write them: an integer with a binary or decimal suffix.
fn bytes(object: &Value, pointer: &str) -> u128 {
    let text = object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let suffixes = ["", "K", "M", "G", "T"];
    let (suffix, base) = match text[digits.len()..].strip_suffix('i') {
        Some(suffix) => (suffix, 1024),
        None => (&text[digits.len()..], 1000),
    };
    let power = suffixes.iter().position(|known| known.eq_ignore_ascii_case(suffix)).unwrap_or_default();
    digits.parse::<u128>().unwrap_or_default() * u128::pow(base, u32::try_from(power).unwrap_or_default())
}
