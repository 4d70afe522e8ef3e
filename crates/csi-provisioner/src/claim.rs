//! One claim, from its key to a volume: load, decide, act, record.
//!
//! A claim whose `CreateVolume` has an unknown outcome is tried again with the request it was first sent with, whatever
//! happens to the claim or its class meanwhile, until the driver gives a final answer or a volume; only the content of its
//! Secret is read again. A volume for a claim that is gone is written all the same: the volume controller then releases it
//! and it is reclaimed.

pub(crate) mod awaiting_nodes;
pub(crate) mod eligibility;
pub(crate) mod in_progress;
pub(crate) mod infeasible;
pub(crate) mod lost_volume;
pub(crate) mod placement;
pub(crate) mod provisioned;
pub(crate) mod reschedule;
pub(crate) mod selected_node;

use std::sync::Arc;
use std::time::Duration;

use controller_runtime::{EventKind, Informer, Outcome};
use csi_client::CallError;
use csi_proto::csi::v1::VolumeContentSource;
use futures_util::future::join_all;
use k8s_openapi::api::core::v1::ObjectReference;
use storage_kube::credentials;
use storage_kube::names::{ClaimUid, VolumeName};
use storage_kube::volume_name::UuidLength;
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::attributes_class;
use crate::capacity::refresh;
use crate::content_source::{self, Wanted, reference_grant};
use crate::create_volume::{create_volume, request};
use crate::data_source::{self, Content, DataSourceError, SourceKey};
use crate::error::{Disposition, Memory, ProvisionError};
use crate::node_deployment::compete;
use crate::persistent_volume::NewVolume;
use crate::records::{ClaimRecord, ClassRecord};
use crate::save_volume::{self, UnsavedVolume};
use crate::source_protection::{self, holds::End};
use crate::still_wanted::{until_drained, while_claimed};
use crate::term_context::TermContext;
use eligibility::{ClaimDecision, ClaimView};
use placement::accessibility;
use request::Plan;
use reschedule::{can_reschedule, reschedule};

/// How long a term waits for its first list of ReferenceGrants, whose kind may not be installed.
const GRANTS_LIST: Duration = Duration::from_mins(1);

/// Brings one claim as far as it will go now.
pub(crate) async fn sync_claim(term: Arc<TermContext>, uid: ClaimUid) -> Outcome {
    let started = Instant::now();
    match decide(&term, &uid) {
        ClaimDecision::Nothing => Outcome::Done,
        ClaimDecision::Delay(delay) => Outcome::RetryAfter(delay),
        ClaimDecision::Ask(claim) => provisioned::ask(&term, &claim).await,
        ClaimDecision::Ignore => {
            if let Some(claim) = term.caches.claims.get(&uid) {
                term.metrics.provision_failed(&claim);
            }
            Outcome::Done
        }
        ClaimDecision::AwaitClass(claim) => {
            let error = ProvisionError::ClassMissing { class: claim.class.to_string() };
            failed(&term, &claim, &error).await
        }
        ClaimDecision::NameTaken(claim, volume) => name_taken(&term, &claim, &volume),
        ClaimDecision::LeaveToPopulator(claim) => {
            let text = "Assuming an external populator will provision the volume".to_owned();
            leave_alone(&term, &claim, EventKind::Normal, "Provisioning", text)
        }
        ClaimDecision::Compete(claim, class) => compete(&term, &claim, &class).await,
        ClaimDecision::Resume(plan) => {
            let plan = with_current_secret(&term, plan).await;
            provision(&term, plan, started).await
        }
        ClaimDecision::Provision(claim, class) => match prepare(&term, &claim, &class).await {
            Ok(plan) => provision(&term, Arc::new(plan), started).await,
            Err(error) => {
                let refused = error.disposition() == Disposition::BackOff(Memory::Forget);
                let end = if refused { End::Refused } else { End::Unsent };
                source_protection::try_ended(&term, &claim.uid, end);
                failed(&term, &claim, &error).await
            }
        },
    }
}

/// Reads the caches and the term's memory at one moment; nothing awaits in here.
fn decide(term: &TermContext, uid: &ClaimUid) -> ClaimDecision {
    let claim = term.caches.claims.get(uid);
    let class = claim.as_ref().and_then(|claim| term.caches.classes.get(&claim.class));
    let in_progress = term.in_progress.get(uid);
    let volume = term.existing_volume(uid);
    eligibility::decide(
        &term.settings,
        &ClaimView {
            claim: claim.as_ref(),
            class: class.as_ref(),
            in_progress: in_progress.as_ref(),
            volume: volume.as_deref(),
            provisioned: term.provisioned.get(uid),
            outdated: claim.as_ref().is_some_and(|claim| term.is_outdated(claim)),
            granted: claim.as_ref().is_some_and(|claim| is_granted(term, claim)),
            grants_awaited: grants_awaited(term),
            infeasible_for: term.infeasible.remaining(uid, class.as_ref().map(|class| &class.uid)),
        },
    )
}

fn name_taken(term: &TermContext, claim: &ClaimRecord, volume: &VolumeName) -> Outcome {
    let text = if term.settings.flags.uuid_length == UuidLength::Full {
        format!(
            "the name {volume} is taken by a PersistentVolume that is not this claim's: create the claim anew, or remove that \
             PersistentVolume if nobody needs it"
        )
    } else {
        format!("the name {volume} is taken by another claim's PersistentVolume: create the claim anew")
    };
    leave_alone(term, claim, EventKind::Warning, "ProvisioningFailed", text)
}

/// Says why nothing is done, until an event of another object brings the claim back.
fn leave_alone(term: &TermContext, claim: &ClaimRecord, kind: EventKind, reason: &str, text: String) -> Outcome {
    term.metrics.provision_failed(claim);
    if term.is_to_be_told(&claim.uid, &text) {
        info!(claim = claim.full_name(), "claim is left alone: {text}");
        term.events.record(&claim_reference(claim), kind, reason, text);
    }
    Outcome::Done
}

/// The plan with its place and its credentials: the last things that may fail before the first call.
async fn prepare(
    term: &TermContext,
    claim: &Arc<ClaimRecord>,
    class: &Arc<ClassRecord>,
) -> Result<Plan, ProvisionError> {
    let settings = &term.settings;
    let content = data_source::content(claim, settings.flags.cross_namespace_gate, |_| is_granted(term, claim));
    let content = content.map_err(|error| match error {
        DataSourceError::NotGranted { namespace, .. } if !are_grants_listed(term) => {
            ProvisionError::GrantsNotListed { namespace }
        }
        error => error.into(),
    })?;
    request::check_capabilities(settings, claim, &content)?;
    let mut plan = request::plan(settings, claim, class)?;
    if let Content::Driver(key) = &content {
        let wanted = Wanted::new(settings, claim, settings.names.driver_of_source(class), plan.requested_bytes);
        plan.request.volume_content_source = Some(take_source(term, key, wanted).await?);
    }
    plan.accessibility = accessibility(term, claim, &plan.class)?;
    if let Some(secret) = &plan.secrets.provisioner {
        plan.request.secrets = credentials::fetch(&term.api, secret).await?.expose();
    }
    if let Some(class) = claim.volume_attributes_class.as_deref().filter(|_| settings.flags.attributes_class_gate) {
        plan.request.mutable_parameters = attributes_class::fetch(&term.api, class, &settings.names.driver).await?;
    }
    Ok(plan)
}

/// The plan with what its Secret contains now: who corrects a password must not have to restart this process. While the
/// Secret cannot be read, the content that was read last is sent.
async fn with_current_secret(term: &TermContext, mut plan: Arc<Plan>) -> Arc<Plan> {
    let Some(secret) = &plan.secrets.provisioner else { return plan };
    match credentials::fetch(&term.api, secret).await {
        Ok(credentials) => Arc::make_mut(&mut plan).request.secrets = credentials.expose(),
        Err(error) => {
            warn!(claim = plan.claim.full_name(), err = %error, "CreateVolume is repeated with the content that its Secret had before");
        }
    }
    plan
}

/// The source of a claim, protected and held until the end of the try.
async fn take_source(
    term: &TermContext,
    key: &SourceKey,
    wanted: Wanted<'_>,
) -> Result<VolumeContentSource, ProvisionError> {
    term.holds.begin(&wanted.claim.uid, key);
    let found = content_source::lookup(&term.api, key, wanted).await?;
    source_protection::is_seen(term, key, found.deleting);
    source_protection::protect(term, key, &found).await?;
    Ok(found.content)
}

/// Whether the claim may name its source, if that is in another namespace.
fn is_granted(term: &TermContext, claim: &ClaimRecord) -> bool {
    let gate = term.settings.flags.cross_namespace_gate;
    let (Ok(Some(named)), Some(grants)) = (data_source::named_source(claim, gate), &term.caches.grants) else {
        return false;
    };
    grants
        .in_group(&named.namespace)
        .iter()
        .filter_map(|grant| grants.get(grant))
        .any(|grant| reference_grant::allows(&grant.1, &claim.namespace, &named))
}

fn are_grants_listed(term: &TermContext) -> bool {
    term.caches.grants.as_ref().is_none_or(Informer::is_synced)
}

/// How long the first list of grants is waited for before a claim without one is told of that; none after the list. A grant
/// that appears brings the claim back sooner.
fn grants_awaited(term: &TermContext) -> Option<Duration> {
    let wait = GRANTS_LIST.saturating_sub(term.begun.elapsed());
    (!are_grants_listed(term) && !wait.is_zero()).then_some(wait)
}

/// One call, and what its outcome means for the memory, the metrics and the queue.
async fn provision(term: &Arc<TermContext>, plan: Arc<Plan>, started: Instant) -> Outcome {
    let claim = &plan.claim;
    // Nothing awaits from here to the note that the call is in progress.
    if is_name_in_use(term, &plan) {
        source_protection::try_ended(term, &claim.uid, End::Unsent);
        return name_taken(term, claim, &plan.volume_name);
    }
    let remembered = term.in_progress.begin(&plan);
    let wanted = if remembered { until_drained(term) } else { while_claimed(term, &plan) };
    let error = match create_volume(term, &term.driver.provided(wanted), &plan).await {
        Ok(volume) => {
            save(term, &plan, volume).await;
            term.metrics.provisioned(claim, started.elapsed());
            return Outcome::Done;
        }
        Err(error) => error,
    };
    if error.disposition() != Disposition::BackOff(Memory::Unchanged) {
        refresh::provisioning_failed(term, &plan.class.name);
    }
    let end = match error.disposition() {
        Disposition::BackOff(Memory::Unchanged) if !remembered => {
            term.in_progress.end(&claim.uid);
            End::Unsent
        }
        Disposition::BackOff(Memory::Unchanged | Memory::Remember) => End::Uncertain,
        Disposition::BackOff(Memory::Forget) | Disposition::Reschedule => {
            term.in_progress.end(&claim.uid);
            End::Answered
        }
        Disposition::SlowRetry => {
            term.in_progress.end(&claim.uid);
            term.note_infeasible(claim, &plan.class);
            End::Answered
        }
    };
    source_protection::try_ended(term, &claim.uid, end);
    failed(term, claim, &error).await
}

/// Whether another claim is about to have a volume of this name: with a short `--volume-name-uuid-length` the driver would give
/// both claims the same one.
fn is_name_in_use(term: &TermContext, plan: &Plan) -> bool {
    if term.settings.flags.uuid_length == UuidLength::Full {
        return false;
    }
    let unsaved = term.unsaved.lock().get(&plan.volume_name).cloned();
    unsaved.is_some_and(|volume| volume.plan.claim.uid != plan.claim.uid) || term.in_progress.is_name_in_use(plan)
}

/// The volume exists: writes its object, or puts it aside, and only then forgets the call. Until the object is written the claim
/// holds its source: without the object the next leader has to ask for the volume again.
async fn save(term: &Arc<TermContext>, plan: &Arc<Plan>, volume: NewVolume) {
    let NewVolume { object, handle } = volume;
    let claim_waits = term.note_provisioned(&plan.claim.uid);
    let unsaved = UnsavedVolume { plan: Arc::clone(plan), handle, object, claim_waits };
    save_volume::save(term, unsaved).await;
    term.in_progress.end(&plan.claim.uid);
}

/// One more try, when the term drains, to find out what became of calls whose claims are gone: nobody else will ask for
/// their volumes. Those whose claims are still there are asked for again by the next leader, under the same names.
pub(crate) async fn last_try(term: &Arc<TermContext>) {
    let tries = term.in_progress.all().into_iter().filter(|plan| term.caches.claims.get(&plan.claim.uid).is_none());
    let tries = tries.map(|plan| async move {
        let plan = with_current_secret(term, plan).await;
        match create_volume(term, &term.driver, &plan).await {
            Ok(volume) => save(term, &plan, volume).await,
            Err(error) => {
                error!(
                    claim = plan.claim.full_name(), volume = %plan.volume_name, err = %error,
                    "the claim is deleted, and the CSI driver may have a volume of this name that no PersistentVolume stands for"
                );
                let text = format!(
                    "the CSI driver may have volume {}, for which there is no PersistentVolume, and this claim is deleted: delete the volume there ({error})",
                    plan.volume_name
                );
                term.events.record(&claim_reference(&plan.claim), EventKind::Warning, "ProvisioningFailed", text);
            }
        }
    });
    join_all(tries).await;
}

/// Says why in an event, a metric and a log line; the queue decides when to try again, or the scheduler where.
async fn failed(term: &TermContext, claim: &ClaimRecord, error: &ProvisionError) -> Outcome {
    term.metrics.provision_failed(claim);
    if let ProvisionError::CreateVolume(call) = error
        && matches!(call, CallError::Denied { .. })
    {
        warn!(claim = claim.full_name(), err = %error, "claim is not provisioned yet");
        return Outcome::Retry;
    }
    // Texts of the Go provisioner where the driver's answer is what is told: tools look for them.
    let (text, outcome) = match error.disposition() {
        Disposition::BackOff(_) | Disposition::Reschedule => (error.to_string(), Outcome::Retry),
        Disposition::SlowRetry => (
            format!("Volume provisioning failed with infeasible error. Retries will be delayed. {error}"),
            Outcome::RetryAfter(term.infeasible.wait()),
        ),
    };
    error!(claim = claim.full_name(), err = %error, "claim is not provisioned");
    term.events.record(&claim_reference(claim), EventKind::Warning, "ProvisioningFailed", text);
    if error.disposition() == Disposition::Reschedule && can_reschedule(&term.settings, claim) {
        return reschedule(term, claim).await;
    }
    outcome
}

/// The claim as events refer to it.
pub(crate) fn claim_reference(claim: &ClaimRecord) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("PersistentVolumeClaim".into()),
        namespace: Some(claim.namespace.to_string()),
        name: Some(claim.name.to_string()),
        uid: Some(claim.uid.to_string()),
        resource_version: Some(claim.resource_version.clone()),
        ..ObjectReference::default()
    }
}
