//! `allowedTopologies` of a class → the segments it allows.

use std::collections::BTreeSet;
use std::sync::Arc;

use storage_kube::topology::Segment;
use storage_kube::wire::AllowedTopology;

/// One segment for each combination of values in each term, ordered, each once. An expression without values, which the
/// API does not take, says nothing.
pub(super) fn segments(allowed: &[AllowedTopology]) -> Arc<[Segment]> {
    allowed.iter().flat_map(combinations).collect::<BTreeSet<_>>().into_iter().collect()
}

fn combinations(term: &AllowedTopology) -> Vec<Segment> {
    let expressions: Vec<_> = term.match_label_expressions.iter().filter(|label| !label.values.is_empty()).collect();
    if expressions.is_empty() {
        return Vec::new();
    }
    let mut all: Vec<Vec<(&str, &str)>> = vec![Vec::new()];
    for label in expressions {
        let mut longer = Vec::with_capacity(all.len() * label.values.len());
        for pairs in &all {
            longer
                .extend(label.values.iter().map(|value| [pairs, &[(label.key.as_str(), value.as_str())][..]].concat()));
        }
        all = longer;
    }
    all.into_iter().map(Segment::from_iter).collect()
}
