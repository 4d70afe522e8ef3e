//! What one CSIStorageCapacity object is about, and what it says.

use std::fmt;
use std::sync::Arc;

use csi_proto::csi::v1::GetCapacityResponse;
use storage_kube::names::ClassName;
use storage_kube::topology::Segment;

/// A class in a segment. By value: whoever adds it to the queue twice has added it once.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Item {
    pub(crate) class: ClassName,
    /// `None` for objects whose `nodeTopology` is none that a provisioner writes: such an item is never wanted.
    pub(crate) segment: Option<Arc<Segment>>,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in", self.class)?;
        match &self.segment {
            None => f.write_str(" nodes selected by somebody else"),
            Some(segment) if segment.is_empty() => f.write_str(" the whole cluster"),
            Some(segment) => segment.iter().try_for_each(|(key, value)| write!(f, " {key}={value}")),
        }
    }
}

/// What the driver has said, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Amounts {
    /// `available_capacity`.
    pub(crate) capacity: i64,
    /// `maximum_volume_size`, if it is reported.
    pub(crate) maximum: Option<i64>,
}

impl From<GetCapacityResponse> for Amounts {
    fn from(answer: GetCapacityResponse) -> Self {
        Self { capacity: answer.available_capacity, maximum: answer.maximum_volume_size }
    }
}
