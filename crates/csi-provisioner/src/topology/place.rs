//! Where one node is, by the topology keys that the driver registered there and the node's labels.

use std::sync::Arc;

use storage_kube::names::NodeName;
use storage_kube::topology::Segment;

use super::cluster::NodeFacts;
use super::error::TopologyError;
use crate::records::{CsiNodeRecord, NodeRecord};

/// A node's segment, and the keys that make it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// As registered; at least one.
    pub(crate) keys: Box<[Arc<str>]>,
    /// Their values on this node.
    pub(crate) segment: Segment,
    /// All that is known of the node's labels.
    labels: Arc<NodeRecord>,
}

impl Place {
    /// Whether the node is within an allowed segment, by all its labels: the class may name labels that are no topology
    /// keys of the driver, and the scheduler has compared the same labels before it selected the node
    /// (`volumeBinder.checkVolumeProvisions`).
    pub(super) fn is_within(&self, allowed: &Segment) -> bool {
        allowed.iter().all(|(key, value)| self.labels.label(key) == Some(value))
    }

    /// Whether the driver knows all keys of a segment.
    pub(super) fn has_keys_of(&self, segment: &Segment) -> bool {
        segment.iter().all(|(key, _)| self.keys.iter().any(|known| **known == *key))
    }
}

/// Where the node is, or why that is not known.
pub(super) fn place(driver: &str, node: &NodeName, facts: &NodeFacts) -> Result<Place, TopologyError> {
    let keys = match facts.driver.as_deref() {
        None => return Err(TopologyError::NoCsiNode { node: node.clone() }),
        Some(CsiNodeRecord::WithoutDriver) => {
            return Err(TopologyError::NotRegistered { node: node.clone(), driver: driver.to_owned() });
        }
        Some(CsiNodeRecord::Registered(keys)) if keys.is_empty() => {
            return Err(TopologyError::NoKeys { node: node.clone(), driver: driver.to_owned() });
        }
        Some(CsiNodeRecord::Registered(keys)) => keys,
    };
    let Some(labels) = &facts.labels else {
        return Err(TopologyError::NoNode { node: node.clone() });
    };
    let segment =
        segment(keys, labels).map_err(|key| TopologyError::NoLabel { node: node.clone(), key: key.to_owned() })?;
    Ok(Place { keys: keys.clone(), segment, labels: Arc::clone(labels) })
}

/// The values of the keys on a node with these labels, or the first key it has no label for.
pub(super) fn segment<'k>(keys: &'k [Arc<str>], labels: &NodeRecord) -> Result<Segment, &'k str> {
    Segment::of_labels(keys.iter().map(AsRef::as_ref), |key| labels.label(key).map(str::to_owned))
}
