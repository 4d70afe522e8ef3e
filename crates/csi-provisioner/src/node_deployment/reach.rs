//! Which volumes can be reached from this node: `spec.nodeAffinity` of a PersistentVolume against what the driver says of
//! the node. Pure.

use csi_translation::topology::{DriverKey, driver_key};
use storage_kube::in_tree::InTreePlugin;
use storage_kube::topology::Segment;
use storage_kube::wire::{NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm};

/// Whether a node of this segment reaches a volume, of a plugin of Kubernetes or not. Without affinity every node does, and a
/// driver without topology reaches everything.
pub(crate) fn reaches(node: Option<&Segment>, plugin: Option<InTreePlugin>, affinity: Option<&NodeAffinity>) -> bool {
    let (Some(node), Some(required)) = (node, affinity.and_then(|affinity| affinity.required.as_ref())) else {
        return true;
    };
    required.node_selector_terms.iter().any(|term| selects(term, plugin, node))
}

/// All of a term's expressions hold; a term without any selects nothing (core/v1 `NodeSelectorTerm`). Fields are those
/// of the Node object, of which the driver says nothing. Of the region of a plugin's volume most drivers say nothing either: the
/// zone tells it.
fn selects(term: &NodeSelectorTerm, plugin: Option<InTreePlugin>, node: &Segment) -> bool {
    let expressions = &term.match_expressions;
    let holds = |expression: &NodeSelectorRequirement| match plugin.map(|plugin| driver_key(plugin, &expression.key)) {
        Some(DriverKey::Named(key)) => holds(expression, node.get(key)),
        Some(DriverKey::Unknown) => true,
        Some(DriverKey::Same) | None => holds(expression, node.get(&expression.key)),
    };
    !expressions.is_empty() && !term.match_fields && expressions.iter().all(holds)
}

/// core/v1 `NodeSelectorRequirement`; `value` is the node's.
fn holds(expression: &NodeSelectorRequirement, value: Option<&str>) -> bool {
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
