//! Prometheus' text format, as far as a family's shape goes.

use std::collections::{BTreeMap, BTreeSet};

/// What dashboards and alerts depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Family {
    pub(crate) kind: String,
    /// Names of the labels of its samples, `le` left out.
    pub(crate) labels: BTreeSet<String>,
    /// Bounds of its buckets, as written.
    pub(crate) bounds: BTreeSet<String>,
}

/// How the families of ours may differ from those of a Go sidecar; a last `*` stands for any rest. Each with its reason.
pub(crate) struct Expected {
    pub(crate) absent: &'static [(&'static str, &'static str)],
    pub(crate) extra: &'static [(&'static str, &'static str)],
}

impl Expected {
    /// All others are there on both sides, of the same shape; and no line is for nothing.
    pub(crate) fn check(&self, go: &BTreeMap<String, Family>, ours: &BTreeMap<String, Family>) {
        let mut found = Vec::new();
        for (name, go) in go {
            match ours.get(name) {
                Some(ours) if ours == go => {}
                None if listed(self.absent, name) => {}
                ours => found.push(format!("{name}\n    go:   {go:?}\n    ours: {ours:?}")),
            }
        }
        let extra = ours.keys().filter(|name| !go.contains_key(*name) && !listed(self.extra, name));
        found.extend(extra.map(|name| format!("{name} is ours alone")));
        assert!(found.is_empty(), "{} families that differ:\n{}", found.len(), found.join("\n"));
        for (list, names) in [(self.absent, go), (self.extra, ours)] {
            let idle = list.iter().find(|line| !names.keys().any(|name| matches(line.0, name)));
            assert_eq!(idle, None, "listed, and there is no such family");
        }
        let common = self.absent.iter().find(|line| ours.keys().any(|name| matches(line.0, name)));
        assert_eq!(common, None, "listed as absent, and ours has it");
    }
}

fn listed(list: &[(&str, &str)], name: &str) -> bool {
    list.iter().any(|(pattern, _)| matches(pattern, name))
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

/// Families by name.
pub(crate) fn families(text: &str) -> BTreeMap<String, Family> {
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
