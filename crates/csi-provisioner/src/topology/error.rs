//! Why it is not known where a volume may be.

use storage_kube::names::NodeName;
use storage_kube::topology::Segment;
use thiserror::Error;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum TopologyError {
    #[error(
        "node \"{node}\" was selected for the claim and has no CSINode object, so it is gone or its kubelet has not started: \
         another node has to be selected"
    )]
    NoCsiNode { node: NodeName },
    #[error("node \"{node}\" was selected for the claim and does not exist: another node has to be selected")]
    NoNode { node: NodeName },
    #[error(
        "CSI driver {driver} is not registered on node \"{node}\", which was selected for the claim: another node has to be \
         selected, or the driver's node plugin must run there"
    )]
    NotRegistered { node: NodeName, driver: String },
    #[error(
        "no topology key found on CSINode \"{node}\": CSI driver {driver} is registered there without topology, so its \
         NodeGetInfo must answer accessible_topology"
    )]
    NoKeys { node: NodeName, driver: String },
    #[error(
        "node \"{node}\" has not all node labels that the topology keys on its CSINode name: label {key} is missing; kubelet \
         sets it when the driver registers"
    )]
    NoLabel { node: NodeName, key: String },
    #[error(
        "node \"{node}\" was selected for the claim, and its topology {segment} is not in the allowedTopologies of the \
         class{}", if *labels_known { ", and neither are its labels: another node has to be selected" } else { "" }
    )]
    NotAllowed {
        node: NodeName,
        segment: Segment,
        /// All labels of the node were compared, as the scheduler does, and not only its topology.
        labels_known: bool,
    },
    #[error(
        "no available topology found: CSI driver {driver} is registered on no node with topology keys; the claim waits for \
         its node plugin on every node, or for one whose NodeGetInfo answers accessible_topology"
    )]
    NoKeysAnywhere { driver: String },
    #[error(
        "no available topology found: no node has the labels that the topology keys of CSI driver {driver} name; the claim \
         waits for one"
    )]
    NoLabelsAnywhere { driver: String },
}

impl TopologyError {
    /// Whether the selected node cannot do, and another may.
    pub(crate) fn needs_another_node(&self) -> bool {
        match self {
            Self::NoCsiNode { .. } | Self::NoNode { .. } | Self::NotRegistered { .. } => true,
            // Where the scheduler may see labels that are not seen here, it would select the same node again and again.
            Self::NotAllowed { labels_known, .. } => *labels_known,
            // The node is there and so is the driver: labels follow, or somebody must repair it.
            Self::NoKeys { .. }
            | Self::NoLabel { .. }
            | Self::NoKeysAnywhere { .. }
            | Self::NoLabelsAnywhere { .. } => false,
        }
    }
}
