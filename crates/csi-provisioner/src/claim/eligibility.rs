//! Is this claim ours to provision, and may it be done now? A pure decision over what the caches and the term know.

use std::sync::Arc;
use std::time::Duration;

use storage_kube::names::VolumeName;
use storage_kube::wire::BindingMode;

use super::provisioned::Provisioned;
use crate::create_volume::request::Plan;
use crate::data_source::{Content, DataSourceError, content};
use crate::node_deployment::ownership::{Owner, owner};
use crate::records::class::ClassOwner;
use crate::records::{ClaimRecord, ClassRecord, VolumeRecord};
use crate::settings::Settings;

/// What is known about one claim at one moment.
pub(crate) struct ClaimView<'a> {
    /// The claim, unless it is gone, bound, or somebody else's.
    pub(crate) claim: Option<&'a Arc<ClaimRecord>>,
    /// Its class, as cached.
    pub(crate) class: Option<&'a Arc<ClassRecord>>,
    /// A `CreateVolume` of this claim whose outcome is not known.
    pub(crate) in_progress: Option<&'a Arc<Plan>>,
    /// A volume in the cache under the name that this claim's volume would have.
    pub(crate) volume: Option<&'a VolumeRecord>,
    /// Whether the claim has its volume, which the cache need not show yet.
    pub(crate) provisioned: Provisioned,
    /// This term has written to the claim, and the cache does not show it yet.
    pub(crate) outdated: bool,
    /// A grant lets the claim name its source, if that is in another namespace.
    pub(crate) granted: bool,
    /// The grants are not listed yet; how long that is waited for.
    pub(crate) grants_awaited: Option<Duration>,
    /// The driver called the request infeasible; time until it may be asked again.
    pub(crate) infeasible_for: Option<Duration>,
}

/// What to do with the claim.
#[derive(Debug)]
pub(crate) enum ClaimDecision {
    /// Nothing is left to do, or it waits for an event that brings it back.
    Nothing,
    /// Stop, and count it as a failed provisioning (as the metrics of the Go provisioner do).
    Ignore,
    /// Leave it alone for so long: the driver said that it cannot, or the cache may show what has become of its volume.
    Delay(Duration),
    /// Ask the API server whether the claim still waits and has no volume.
    Ask(Arc<ClaimRecord>),
    /// Another claim has the volume of this name.
    NameTaken(Arc<ClaimRecord>, VolumeName),
    /// The class is not there (yet).
    AwaitClass(Arc<ClaimRecord>),
    /// A volume populator does it.
    LeaveToPopulator(Arc<ClaimRecord>),
    /// Go on with a call whose outcome is unknown: the same request, whatever has become of claim, class and Secret.
    Resume(Arc<Plan>),
    /// No node has it, and each may: see [`crate::node_deployment`].
    Compete(Arc<ClaimRecord>, Arc<ClassRecord>),
    /// Provision it.
    Provision(Arc<ClaimRecord>, Arc<ClassRecord>),
}

/// Decides what to do with a claim.
///
/// An unknown outcome comes before every precondition: a precondition may keep the first call from being made, never
/// the calls that find out what became of it.
pub(crate) fn decide(settings: &Settings, view: &ClaimView<'_>) -> ClaimDecision {
    if let Some(delay) = view.infeasible_for {
        return ClaimDecision::Delay(delay);
    }
    if let Some(plan) = view.in_progress {
        return ClaimDecision::Resume(Arc::clone(plan));
    }
    let Some(claim) = view.claim else { return ClaimDecision::Nothing };
    if view.provisioned == Provisioned::Yes || view.outdated {
        return ClaimDecision::Nothing;
    }
    let owner = settings.node.as_ref().map_or(Owner::ThisNode, |node| owner(node, claim, view.class.map(Arc::as_ref)));
    if owner == Owner::NotUs {
        return ClaimDecision::Nothing;
    }
    let has_volume = view.volume.is_some_and(|volume| volume.is_for(&claim.uid));
    match view.provisioned {
        Provisioned::AskIn(_) | Provisioned::Ask if has_volume => return ClaimDecision::Nothing,
        Provisioned::AskIn(wait) => return ClaimDecision::Delay(wait),
        Provisioned::Ask => return ClaimDecision::Ask(Arc::clone(claim)),
        Provisioned::Yes | Provisioned::No => {}
    }
    let Some(class) = view.class else { return ClaimDecision::AwaitClass(Arc::clone(claim)) };
    if class.binding_mode == Some(BindingMode::WaitForFirstConsumer) && claim.selected_node.is_none() {
        return ClaimDecision::Nothing;
    }
    // What is wrong with a source is found out again, and told, when the claim is provisioned.
    let content = content(claim, settings.flags.cross_namespace_gate, |_| view.granted);
    if let (Err(DataSourceError::NotGranted { .. }), Some(wait)) = (&content, view.grants_awaited) {
        return ClaimDecision::Delay(wait);
    }
    let populated = matches!(content, Ok(Content::Populator));
    if owner == Owner::Nobody {
        // What is wrong with the claim is told by the one node that gets it.
        let served = view.volume.is_some() || class.owner == ClassOwner::Other || populated;
        let compete = || ClaimDecision::Compete(Arc::clone(claim), Arc::clone(class));
        return if served { ClaimDecision::Nothing } else { compete() };
    }
    if let Some(volume) = view.volume
        && !volume.is_for(&claim.uid)
    {
        return ClaimDecision::NameTaken(Arc::clone(claim), volume.name.clone());
    }
    if view.volume.is_some() || class.owner == ClassOwner::Other {
        return ClaimDecision::Ignore;
    }
    if populated {
        return ClaimDecision::LeaveToPopulator(Arc::clone(claim));
    }
    ClaimDecision::Provision(Arc::clone(claim), Arc::clone(class))
}
