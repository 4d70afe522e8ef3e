//! Decoding of `null`, and of fields that matter only by being there.

use serde::{Deserialize, Deserializer, de::IgnoredAny};

/// `null` as the default value, for fields that also have `#[serde(default)]`.
pub(super) fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Whether the field has a value, even an empty one.
pub(super) fn is_set<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<IgnoredAny>::deserialize(deserializer)?.is_some())
}
