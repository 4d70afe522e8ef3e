//! Where a new volume may be: `accessibility_requirements` of `CreateVolume` (CSI spec "TopologyRequirement").
//!
//! | claim | class | requisite | preferred |
//! |---|---|---|---|
//! | node selected, `--strict-topology` | any | the node's segment, which some allowed one must contain | the same |
//! | node selected | no `allowedTopologies` | the segments of all nodes, over the keys of the selected one | the same, that of the node first |
//! | node selected | `allowedTopologies` | the allowed ones | the same, the first that contains the node first |
//! | no node | `allowedTopologies` | the allowed ones | the same, from a place that the claim's name decides |
//! | no node | no `allowedTopologies` | the segments of all nodes, over the keys of each; none with `--immediate-topology=false` | as above |
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

/// Where the volume may be and where it is wanted first. Shared with all claims that may go to the same places, since
/// there are drivers for which each node is a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Requirement {
    /// Ordered, each once, at least one.
    requisite: Arc<[Segment]>,
    /// Index of the most preferred; the others follow around.
    first: usize,
}

impl Requirement {
    /// Preferred from `first` on; `None` without any place.
    fn new(requisite: Arc<[Segment]>, first: usize) -> Option<Self> {
        (first < requisite.len()).then_some(Self { requisite, first })
    }

    /// The volume must be in one of these.
    pub(crate) fn requisite(&self) -> &[Segment] {
        &self.requisite
    }

    /// The same, the most preferred first.
    pub(crate) fn preferred(&self) -> impl Iterator<Item = &Segment> {
        let (later, sooner) = self.requisite.split_at(self.first);
        sooner.iter().chain(later)
    }
}

impl From<&Requirement> for TopologyRequirement {
    fn from(requirement: &Requirement) -> Self {
        Self {
            requisite: requirement.requisite().iter().map(Into::into).collect(),
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
    let place = cluster.place(node)?;
    let allowed = (!allowed.is_empty()).then(|| allowed::segments(allowed));
    let alone = || Arc::new([place.segment.clone()]);
    let first_around = |segments: &[Segment]| segments.iter().position(|segment| segment.is_subset_of(&place.segment));
    let (requisite, first): (Arc<[Segment]>, _) = match (allowed, flags.strict_topology) {
        (None, true) => (alone(), Some(0)),
        (Some(allowed), true) => (alone(), first_around(&allowed).map(|_| 0)),
        (None, false) => {
            let all = cluster.with_keys(&place.keys);
            // They have the same keys, so none is around the node but its own.
            let first = all.binary_search(&place.segment).ok();
            (all, first)
        }
        (Some(allowed), false) if allowed.is_empty() => return Ok(None),
        (Some(allowed), false) => {
            let first = first_around(&allowed);
            (allowed, first)
        }
    };
    match first {
        Some(first) => Ok(Requirement::new(requisite, first)),
        None => Err(TopologyError::NotAllowed { node: node.clone(), segment: place.segment }),
    }
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
