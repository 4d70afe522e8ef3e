//! Could the claim's volume be on this node? Tested before the claim is taken: a node that takes what it has no place for
//! keeps it from all others.

use std::sync::Arc;

use csi_proto::csi::v1::{GetCapacityRequest, GetCapacityResponse, Topology};
use tracing::info;

use crate::create_volume::request::{self, Plan};
use crate::migration::csi_class;
use crate::records::{ClaimRecord, ClassRecord};
use crate::settings::NodeFlags;
use crate::still_wanted::until_drained;
use crate::term_context::TermContext;
use crate::topology::error::TopologyError;
use crate::topology::{Requirement, requirement};

/// Whether the volume could be here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fit {
    /// As far as is known.
    Yes,
    /// The driver announces topology and does not say where the node is.
    Unknown,
    /// No, and why.
    No(String),
}

/// By topology.
pub(super) fn place(term: &TermContext, node: &NodeFlags, claim: &ClaimRecord, class: &Arc<ClassRecord>) -> Fit {
    let class = match csi_class(&term.settings.names, class) {
        Ok(class) => class,
        Err(why) => return proceed(claim, &why.to_string()),
    };
    match asked_places(term, node, claim, &class) {
        Ok(_) => Fit::Yes,
        Err(TopologyError::NoKeys { .. }) => Fit::Unknown,
        Err(why) => Fit::No(why.to_string()),
    }
}

/// By what the driver says is free. What cannot be asked is no reason against it: the claim is taken, and the
/// provisioning then tells what is wrong, in one place instead of in none.
pub(super) async fn capacity(
    term: &TermContext,
    node: &NodeFlags,
    claim: &Arc<ClaimRecord>,
    class: &Arc<ClassRecord>,
) -> Fit {
    let plan = match request::plan(&term.settings, claim, class) {
        Ok(plan) if plan.requested_bytes == 0 => return Fit::Yes,
        Ok(plan) => plan,
        Err(why) => return proceed(claim, &why.to_string()),
    };
    let places = match asked_places(term, node, claim, &plan.class) {
        Ok(places) if places.is_empty() => vec![None],
        Err(TopologyError::NoKeys { .. }) => vec![None],
        Ok(places) => places.into_iter().map(Some).collect(),
        Err(why) => return Fit::No(why.to_string()),
    };
    let driver = term.driver.provided(until_drained(term));
    for place in places {
        match driver.get_capacity(question(&plan, place)).await {
            Ok(answer) if is_enough(plan.requested_bytes, &answer) => return Fit::Yes,
            Ok(_) => {}
            Err(why) => return proceed(claim, &why.to_string()),
        }
    }
    Fit::No(format!("the driver has less than {} bytes free here", plan.requested_bytes))
}

fn proceed(claim: &ClaimRecord, why: &str) -> Fit {
    info!(claim = claim.full_name(), "claim is taken although it is not known whether it fits: {why}");
    Fit::Yes
}

/// Where the volume would be asked for if this node were selected.
fn asked_places(
    term: &TermContext,
    node: &NodeFlags,
    claim: &ClaimRecord,
    class: &ClassRecord,
) -> Result<Vec<Topology>, TopologyError> {
    let Some(cluster) = &term.cluster else { return Ok(Vec::new()) };
    requirement(&term.settings.flags, &claim.name, Some(&node.name), &class.allowed_topologies, cluster)
        .map(|asked| asked.iter().flat_map(Requirement::requisite).map(Topology::from).collect())
}

/// CSI `GetCapacityRequest`, with what `CreateVolume` would be asked.
fn question(plan: &Plan, place: Option<Topology>) -> GetCapacityRequest {
    GetCapacityRequest {
        volume_capabilities: plan.request.volume_capabilities.clone(),
        parameters: plan.request.parameters.clone(),
        accessible_topology: place,
    }
}

/// Whether a volume of so many bytes fits. A driver that gives its largest size means each volume alone (CSI
/// `GetCapacityResponse.maximum_volume_size`).
fn is_enough(bytes: i64, answer: &GetCapacityResponse) -> bool {
    answer.available_capacity >= bytes && answer.maximum_volume_size.is_none_or(|largest| largest >= bytes)
}
