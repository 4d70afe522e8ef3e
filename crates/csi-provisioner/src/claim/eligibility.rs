//! Is this claim ours to provision, and may it be done now? A pure decision over what the caches and the term know.

use std::sync::Arc;
use std::time::Duration;

use storage_kube::names::VolumeName;
use storage_kube::wire::BindingMode;

use super::missing_feature::{MissingFeature, missing_feature};
use crate::create_volume::request::Plan;
use crate::data_source::{Content, content};
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
    /// This term has written the volume of this claim, whether or not the cache shows it yet.
    pub(crate) provisioned: bool,
    /// This term has written to the claim, and the cache does not show it yet.
    pub(crate) outdated: bool,
    /// A grant lets the claim name its source, if that is in another namespace.
    pub(crate) granted: bool,
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
    /// The driver said that it cannot; leave it alone for so long.
    Delay(Duration),
    /// Another claim has the volume of this name.
    NameTaken(Arc<ClaimRecord>, VolumeName),
    /// The class is not there (yet).
    AwaitClass(Arc<ClaimRecord>),
    /// A volume populator does it.
    LeaveToPopulator(Arc<ClaimRecord>),
    /// It asks for something that is not built.
    Refuse(Arc<ClaimRecord>, MissingFeature),
    /// Go on with a call whose outcome is unknown: the same request, whatever has become of claim, class and Secret.
    Resume(Arc<Plan>),
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
    if view.provisioned || view.outdated {
        return ClaimDecision::Nothing;
    }
    let Some(class) = view.class else { return ClaimDecision::AwaitClass(Arc::clone(claim)) };
    if class.binding_mode == Some(BindingMode::WaitForFirstConsumer) && claim.selected_node.is_none() {
        return ClaimDecision::Nothing;
    }
    if let Some(volume) = view.volume
        && !volume.is_for(&claim.uid)
    {
        return ClaimDecision::NameTaken(Arc::clone(claim), volume.name.clone());
    }
    if view.volume.is_some() || class.owner == ClassOwner::Other {
        return ClaimDecision::Ignore;
    }
    // What is wrong with a source is found out again, and told, when the claim is provisioned.
    if matches!(content(claim, settings.flags.cross_namespace_gate, |_| view.granted), Ok(Content::Populator)) {
        return ClaimDecision::LeaveToPopulator(Arc::clone(claim));
    }
    match missing_feature(settings, claim, class) {
        Some(missing) => ClaimDecision::Refuse(Arc::clone(claim), missing),
        None => ClaimDecision::Provision(Arc::clone(claim), Arc::clone(class)),
    }
}
