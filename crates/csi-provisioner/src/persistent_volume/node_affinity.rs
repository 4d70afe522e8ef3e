//! Where a volume is → the nodes that pods with it may run on.

use csi_proto::csi::v1::Topology;
use serde_json::{Value, json};
use storage_kube::topology::Segment;

/// `spec.nodeAffinity` (core/v1 `VolumeNodeAffinity`): a node in any of the places reaches the volume. `None` when the
/// driver names no place. A place without segments is left out; one beside others would not make the volume reachable
/// from everywhere.
pub(super) fn node_affinity(places: &[Topology]) -> Option<Value> {
    let segments = places.iter().map(Segment::from).filter(|segment| !segment.is_empty());
    let terms: Vec<_> = segments.map(|segment| json!({ "matchExpressions": expressions(&segment) })).collect();
    // The API server refuses an affinity without terms.
    (!terms.is_empty()).then(|| json!({ "required": { "nodeSelectorTerms": terms } }))
}

fn expressions(segment: &Segment) -> Vec<Value> {
    segment.iter().map(|(key, value)| json!({ "key": key, "operator": "In", "values": [value] })).collect()
}
