//! Prometheus' text format, as far as a family's shape goes.

use std::collections::{BTreeMap, BTreeSet};

/// What dashboards and alerts depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Family {
    pub(super) kind: String,
    /// Names of the labels of its samples, `le` left out.
    pub(super) labels: BTreeSet<String>,
    /// Bounds of its buckets, as written.
    pub(super) bounds: BTreeSet<String>,
}

/// Families by name.
pub(super) fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
            kind.clone_into(&mut families.entry(name.to_owned()).or_default().kind);
        } else if !line.starts_with('#') && !line.is_empty() {
            add_sample(&mut families, line);
        }
    }
    families
}

fn add_sample(families: &mut BTreeMap<String, Family>, line: &str) {
    let end = line.find(['{', ' ']).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let family = ["", "_bucket", "_sum", "_count"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix).filter(|name| families.contains_key(*name)));
    let Some(family) = family.and_then(|name| families.get_mut(name)) else { return };
    for (label, value) in labels(rest) {
        if label == "le" {
            family.bounds.insert(value);
        } else {
            family.labels.insert(label);
        }
    }
}

/// Pairs of `{name="value",...}`, if there are any.
fn labels(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.strip_prefix('{').unwrap_or_default();
    while let Some((name, after)) = rest.split_once("=\"") {
        let mut escaped = false;
        let end = after.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let Some(end) = end else { break };
        found.push((name.trim_start_matches(',').to_owned(), after[..end].to_owned()));
        rest = &after[end + 1..];
    }
    found
}

#[test]
fn families_have_a_shape() {
    let text = "# HELP a_seconds How long\n# TYPE a_seconds histogram\n\
        a_seconds_bucket{x=\"1,\\\"2\",le=\"0.5\"} 1\na_seconds_bucket{x=\"\",le=\"+Inf\"} 1\na_seconds_sum{x=\"\"} 2\n\
        # HELP b Some\n# TYPE b gauge\nb 1\n";
    let set = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<BTreeSet<_>>();
    let found = families(text);
    assert_eq!(found["a_seconds"].labels, set(&["x"]));
    assert_eq!(found["a_seconds"].bounds, set(&["0.5", "+Inf"]));
    assert_eq!(found["a_seconds"].kind, "histogram");
    assert_eq!(found["b"], Family { kind: "gauge".to_owned(), ..Family::default() });
}
