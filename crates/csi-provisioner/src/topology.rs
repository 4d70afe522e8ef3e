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

use csi_proto::csi::v1::{Topology, TopologyRequirement};
use storage_kube::names::{ClaimName, NodeName};
use storage_kube::topology::Segment;
use storage_kube::wire::AllowedTopology;

use crate::settings::ProvisioningFlags;
use cluster::ClusterView;
use error::TopologyError;

/// What is asked of the driver for a claim of this name, with this node selected, of a class that allows these places.
/// `None`: nothing is asked, the driver decides alone.
pub(crate) fn requirement(
    flags: &ProvisioningFlags,
    claim: &ClaimName,
    node: Option<&NodeName>,
    allowed: &[AllowedTopology],
    cluster: &ClusterView,
) -> Result<Option<TopologyRequirement>, TopologyError> {
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
) -> Result<Option<TopologyRequirement>, TopologyError> {
    let place = cluster.place(node)?;
    let requisite = if allowed.is_empty() { None } else { Some(allowed::segments(allowed)) };
    let forbidden = || TopologyError::NotAllowed { node: node.clone(), segment: place.segment.clone() };
    if flags.strict_topology {
        if requisite.is_some_and(|allowed| !allowed.iter().any(|segment| segment.is_subset_of(&place.segment))) {
            return Err(forbidden());
        }
        return Ok(in_order(std::slice::from_ref(&place.segment), 0));
    }
    let requisite = requisite.unwrap_or_else(|| cluster.with_keys(&place.keys));
    if requisite.is_empty() {
        return Ok(None);
    }
    let first = requisite.iter().position(|segment| segment.is_subset_of(&place.segment)).ok_or_else(forbidden)?;
    Ok(in_order(&requisite, first))
}

fn for_any_node(
    flags: &ProvisioningFlags,
    claim: &ClaimName,
    allowed: &[AllowedTopology],
    cluster: &ClusterView,
) -> Result<Option<TopologyRequirement>, TopologyError> {
    let requisite: Arc<[Segment]> = if !allowed.is_empty() {
        allowed::segments(allowed)
    } else if flags.immediate_topology {
        cluster.everywhere()?
    } else {
        return Ok(None);
    };
    Ok(in_order(&requisite, spread::first(claim.as_str(), requisite.len())))
}

/// All of them, and preferred from `first` on around.
fn in_order(requisite: &[Segment], first: usize) -> Option<TopologyRequirement> {
    if requisite.is_empty() {
        return None;
    }
    let (later, sooner) = requisite.split_at(first.min(requisite.len()));
    let preferred = sooner.iter().chain(later).map(Topology::from).collect();
    Some(TopologyRequirement { requisite: requisite.iter().map(Topology::from).collect(), preferred })
}
