//! Which volumes can be reached from this node: `spec.nodeAffinity` of a PersistentVolume against what the driver says of
//! the node. Pure.

use storage_kube::topology::Segment;
use storage_kube::wire::{NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm};

/// Whether a node of this segment reaches the volume. Without affinity every node does, and a driver without topology
/// reaches everything.
pub(crate) fn reaches(node: Option<&Segment>, affinity: Option<&NodeAffinity>) -> bool {
    let (Some(node), Some(required)) = (node, affinity.and_then(|affinity| affinity.required.as_ref())) else {
        return true;
    };
    required.node_selector_terms.iter().any(|term| selects(term, node))
}

/// All of a term's expressions hold; a term without any selects nothing (core/v1 `NodeSelectorTerm`). Fields are those
/// of the Node object, of which the driver says nothing.
fn selects(term: &NodeSelectorTerm, node: &Segment) -> bool {
    let expressions = &term.match_expressions;
    !expressions.is_empty() && !term.match_fields && expressions.iter().all(|expression| holds(expression, node))
}

/// core/v1 `NodeSelectorRequirement`.
fn holds(expression: &NodeSelectorRequirement, node: &Segment) -> bool {
    let value = node.get(&expression.key);
    let values = &expression.values;
    let listed = value.is_some_and(|value| values.iter().any(|one| one == value));
    match expression.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compared(value, values).is_some_and(|(value, bound)| value > bound),
        "Lt" => compared(value, values).is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

fn compared(value: Option<&str>, values: &[String]) -> Option<(i64, i64)> {
    let [bound] = values else { return None };
    Some((value?.parse().ok()?, bound.parse().ok()?))
}
