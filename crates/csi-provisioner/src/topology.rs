//! Where a new volume may be: `accessibility_requirements` of `CreateVolume` (CSI spec "TopologyRequirement").
//!
//! | claim | class | requisite | preferred |
//! |---|---|---|---|
//! | node selected, `--strict-topology` | any | the node's segment, which must be within some allowed one | the same |
//! | node selected | no `allowedTopologies` | the segments of all nodes, over the keys of the selected one | the same, that of the node first |
//! | node selected | `allowedTopologies` | the node's segment and the allowed ones, as far as the driver knows their keys | the node's segment, then the allowed ones, the first that contains the node first |
//! | no node | `allowedTopologies` | the allowed ones | the same, from a place that the claim's name decides |
//! | no node | no `allowedTopologies` | the segments of all nodes, over the keys of each; none with `--immediate-topology=false` | as above |
//!
//! A driver that is registered on every node, and for a while nowhere with topology keys, has no topology: nothing is asked of
//! it, but for the allowed segments of a claim without a selected node.
//!
//! Everything here is computed from what the caches show at one moment, without I/O, and the same nodes give the same
//! result in every process. That a request is repeated as it was first sent, whatever becomes of the nodes, is the work
//! of [`crate::claim::in_progress`].

mod aggregate;
mod allowed;
pub(crate) mod cluster;
pub(crate) mod error;
mod place;
pub(crate) mod spread;

use std::sync::Arc;

use csi_proto::csi::v1::TopologyRequirement;
use storage_kube::names::{ClaimName, NodeName};
use storage_kube::topology::Segment;
use storage_kube::wire::AllowedTopology;

use crate::settings::ProvisioningFlags;
use cluster::ClusterView;
use error::TopologyError;
use place::Place;

/// Where the volume may be and where it is wanted first. Shared with all claims that may go to the same places, since
/// there are drivers for which each node is a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requirement {
    /// The whole segment of the selected node, where it is not one of the others.
    node: Option<Segment>,
    /// Ordered, each once. With `node` at least one.
    segments: Arc<[Segment]>,
    /// Index of the most preferred of them; the others follow around.
    first: usize,
}

impl Requirement {
    /// Preferred from `first` on; `None` without any place.
    fn new(segments: Arc<[Segment]>, first: usize) -> Option<Self> {
        (first < segments.len()).then_some(Self { node: None, segments, first })
    }

    /// The node's segment, then others that it is not one of, from `first` on.
    fn node_first(node: Segment, segments: Arc<[Segment]>, first: usize) -> Self {
        Self { node: Some(node), segments, first }
    }

    /// The volume must be in one of these. All that is preferred is among them (CSI spec "TopologyRequirement").
    pub(crate) fn requisite(&self) -> impl Iterator<Item = &Segment> {
        self.node.iter().chain(self.segments.iter())
    }

    /// The same, the most preferred first.
    pub(crate) fn preferred(&self) -> impl Iterator<Item = &Segment> {
        let (later, sooner) = self.segments.split_at(self.first);
        self.node.iter().chain(sooner).chain(later)
    }
}

impl From<&Requirement> for TopologyRequirement {
    fn from(requirement: &Requirement) -> Self {
        Self {
            requisite: requirement.requisite().map(Into::into).collect(),
            preferred: requirement.preferred().map(Into::into).collect(),
        }
    }
}

/// What is asked of the driver for a claim of this name, with this node selected, of a class that allows these places.
/// `None`: nothing is asked, the driver decides alone.
pub(crate) fn requirement(
    flags: &ProvisioningFlags,
    claim: &ClaimName,
    node: Option<&NodeName>,
    allowed: &[AllowedTopology],
    cluster: &ClusterView,
) -> Result<Option<Requirement>, TopologyError> {
    match node {
        Some(node) => for_node(flags, node, allowed, cluster),
        None => for_any_node(flags, claim, allowed, cluster),
    }
}

fn for_node(
    flags: &ProvisioningFlags,
    node: &NodeName,
    allowed: &[AllowedTopology],
    cluster: &ClusterView,
) -> Result<Option<Requirement>, TopologyError> {
    let place = match cluster.place(node) {
        Err(TopologyError::NoKeys { .. }) if cluster.has_no_topology() => return Ok(None),
        place => place?,
    };
    let not_allowed = || TopologyError::NotAllowed {
        node: node.clone(),
        segment: place.segment.clone(),
        labels_known: cluster.knows_labels(),
    };
    if allowed.is_empty() && !flags.strict_topology {
        let all = cluster.with_keys(&place.keys);
        // They have the same keys, so none is around the node but its own.
        return Ok(match all.binary_search(&place.segment) {
            Ok(first) => Requirement::new(all, first),
            // A label of the node has changed since.
            Err(_) => Some(Requirement::node_first(place.segment, all, 0)),
        });
    }
    let segments = allowed::segments(allowed);
    if !allowed.is_empty() && !segments.iter().any(|segment| place.is_within(segment)) {
        // What says nothing allows nothing, and asks for nothing.
        return if segments.is_empty() && !flags.strict_topology { Ok(None) } else { Err(not_allowed()) };
    }
    if flags.strict_topology {
        return Ok(Requirement::new(Arc::new([place.segment]), 0));
    }
    Ok(Some(among_the_allowed(place, segments)))
}

/// The node's own segment first: one with fewer keys is around other places too, which the node need not reach. Then the
/// allowed segments, without those of which the driver does not know all keys.
fn among_the_allowed(place: Place, allowed: Arc<[Segment]>) -> Requirement {
    let known = if allowed.iter().all(|segment| place.has_keys_of(segment)) {
        allowed
    } else {
        allowed.iter().filter(|segment| place.has_keys_of(segment)).cloned().collect()
    };
    if let Some(node) = known.iter().position(|segment| *segment == place.segment) {
        return Requirement { node: None, segments: known, first: node };
    }
    let around = known.iter().position(|segment| place.is_within(segment)).unwrap_or(0);
    Requirement::node_first(place.segment, known, around)
}

fn for_any_node(
    flags: &ProvisioningFlags,
    claim: &ClaimName,
    allowed: &[AllowedTopology],
    cluster: &ClusterView,
) -> Result<Option<Requirement>, TopologyError> {
    let requisite = if !allowed.is_empty() {
        allowed::segments(allowed)
    } else if flags.immediate_topology {
        cluster.everywhere()?
    } else {
        return Ok(None);
    };
    let first = spread::first(claim.as_str(), requisite.len());
    Ok(Requirement::new(requisite, first))
}
