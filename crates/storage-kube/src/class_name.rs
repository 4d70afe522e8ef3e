//! Which storage class a claim or volume names.

use std::collections::BTreeMap;

use crate::annotations::BETA_STORAGE_CLASS;

/// The class of a claim or a volume: the beta annotation if the key is there at all, even empty, else
/// `spec.storageClassName`; `""` means no class.
pub fn class_name<'a>(annotations: Option<&'a BTreeMap<String, String>>, spec: Option<&'a str>) -> &'a str {
    annotations
        .and_then(|annotations| annotations.get(BETA_STORAGE_CLASS))
        .map(String::as_str)
        .or(spec)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beta_annotation_wins_over_the_spec() {
        let beta = |value: &str| BTreeMap::from([(BETA_STORAGE_CLASS.to_owned(), value.to_owned())]);
        let (gold, empty, none) = (beta("gold"), beta(""), BTreeMap::new());
        let rows = [
            (None, None, ""),
            (None, Some("fast"), "fast"),
            (Some(&none), Some("fast"), "fast"),
            (Some(&gold), None, "gold"),
            (Some(&gold), Some("fast"), "gold"),
            (Some(&empty), Some("fast"), ""),
        ];
        assert_eq!(rows.len(), 6);
        for (annotations, spec, expected) in rows {
            assert_eq!(class_name(annotations, spec), expected, "{annotations:?} {spec:?}");
        }
    }
}
