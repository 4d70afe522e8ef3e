//! Changing the class of attributes of a claim's volume (KEP-3751): which class ([`decision`]), the status says so
//! ([`status`]), the call, then volume and status are written.

pub(crate) mod decision;
pub(crate) mod error;
mod request;
pub(crate) mod status;

use std::sync::Arc;

use controller_runtime::EventKind;
use controller_runtime::discovery::ServedKind;
use csi_client::{CallError, Meaning, Rpc, code_name, meaning};
use jiff::Timestamp;
use kube::Api;
use serde_json::{Value, json};
use storage_kube::names::ClassName;
use storage_kube::wire::{ModifyStatus, VolumeAttributesClass};
use tracing::info;

use crate::claim::Step;
use crate::claim::still_wanted::still_wanted;
use crate::claim::writes::Writes;
use crate::error::Disposition;
use crate::records::{AttributesClassRecord, ClaimRecord};
use crate::term_context::TermContext;
use crate::write;
use decision::{ModifyDecision, decide};
pub(crate) use error::ModifyError;

/// Whether the API server has the kind. `asked`: the command line leaves the gate alone.
pub(crate) fn kind(asked: bool) -> ServedKind {
    ServedKind::new("storage.k8s.io/v1", "VolumeAttributesClass", asked)
}

/// Gives the volume the class, or does what is left of it. Volumes of the plugin that the driver replaces have no class.
pub(crate) async fn modify(term: &TermContext, claim: &ClaimRecord, writes: &Writes) -> Result<(), ModifyError> {
    if writes.volume().await.is_migrated {
        return Ok(());
    }
    let result = change(term, claim, writes).await;
    if let Err(error) = &result
        && error.is_worth_an_event()
    {
        term.tell(claim, EventKind::Warning, "VolumeModifyFailed", error.to_string());
    }
    result
}

async fn change(term: &TermContext, claim: &ClaimRecord, writes: &Writes) -> Result<(), ModifyError> {
    let memory = term.memories.get(&claim.uid);
    match decide(&claim.class, memory.modify_failed_finally) {
        ModifyDecision::Nothing => Ok(()),
        ModifyDecision::RollBack => roll_back(term, writes, claim).await,
        // The driver has done it before; what is left is to say so.
        ModifyDecision::GoOn(class) | ModifyDecision::Work(class) if memory.modified.as_ref() == Some(&class) => {
            record(term, writes, claim, &class).await
        }
        ModifyDecision::GoOn(name) => {
            let class = class(term, &name).await?;
            call(term, writes, claim, &name, &class).await
        }
        ModifyDecision::Work(name) => {
            let class = match class(term, &name).await {
                Ok(class) => class,
                Err(error) => return Err(without_class(term, writes, claim, error).await),
            };
            let now = Timestamp::now();
            let body = |claim: &ClaimRecord| status::in_progress(claim, name.as_str(), now);
            let Some(claim) = save(term, writes, claim, body).await? else { return Ok(()) };
            let text = format!("external resizer is modifying volume {} with vac {name}", claim.name);
            term.tell(&claim, EventKind::Normal, "VolumeModify", text);
            call(term, writes, &claim, &name, &class).await
        }
    }
}

/// The class by its name. A class of another driver is none: its parameters mean something else. What the cache does not
/// know may only be late, or classes cannot be listed: the API server is asked for this one.
async fn class(term: &TermContext, name: &ClassName) -> Result<Arc<AttributesClassRecord>, ModifyError> {
    let cached = term.caches.attributes_classes.as_ref().and_then(|classes| classes.get(name));
    let class = match cached {
        Some(class) => Some(class),
        None => live(term, name).await?,
    };
    let class = class.ok_or_else(|| ModifyError::ClassMissing { class: name.clone() })?;
    let own = &term.settings.driver;
    if class.driver != *own {
        let driver = class.driver.clone();
        return Err(ModifyError::OtherDriver { class: name.clone(), driver, own: own.clone() });
    }
    Ok(class)
}

async fn live(term: &TermContext, name: &ClassName) -> Result<Option<Arc<AttributesClassRecord>>, ModifyError> {
    let api: Api<VolumeAttributesClass> = Api::all(term.api.clone());
    match api.get_opt(name.as_str()).await {
        Ok(found) => Ok(found.map(|class| Arc::new(AttributesClassRecord::of(class)))),
        Err(kube::Error::Api(status)) if status.code == 403 => {
            Err(ModifyError::ClassForbidden { class: name.clone(), reason: status.message.clone() })
        }
        Err(source) => Err(ModifyError::ClassUnreadable { class: name.clone(), source: Box::new(source) }),
    }
}

/// The status says that the claim waits for its class.
async fn without_class(term: &TermContext, writes: &Writes, claim: &ClaimRecord, error: ModifyError) -> ModifyError {
    let waits = matches!(error, ModifyError::ClassMissing { .. } | ModifyError::OtherDriver { .. });
    let says_so = claim.class.status.as_ref().is_some_and(|status| status.status == Some(ModifyStatus::Pending));
    if waits && !says_so {
        let saved = save(term, writes, claim, |_| status::pending()).await;
        return saved.err().unwrap_or(error);
    }
    error
}

async fn roll_back(term: &TermContext, writes: &Writes, claim: &ClaimRecord) -> Result<(), ModifyError> {
    let Some(body) = status::rolled_back(claim) else { return Ok(()) };
    if save(term, writes, claim, |_| body.clone()).await?.is_some() {
        term.tell(claim, EventKind::Normal, "VolumeModifyCanceled", "Cancelled modify.".to_owned());
    }
    Ok(())
}

/// Asks the driver; the status says how that ended.
async fn call(
    term: &TermContext,
    writes: &Writes,
    claim: &ClaimRecord,
    name: &ClassName,
    class: &AttributesClassRecord,
) -> Result<(), ModifyError> {
    let request = request::with_secret(term, claim, &writes.volume().await, class).await?;
    // Whatever class the driver has given the volume before, it may have another one from here on.
    term.memories.change(&claim.uid, |memory| memory.modified = None);
    let driver = term.driver.provided(still_wanted(term, claim, Step::Modify)).for_migrated(false);
    if let Err(source) = driver.controller_modify_volume(request).await {
        let disposition = refused(term, writes, claim, name, &source).await;
        return Err(ModifyError::Call { class: name.clone(), source, disposition });
    }
    term.memories.change(&claim.uid, |memory| {
        memory.modify_failed_finally = false;
        memory.modified = Some(name.clone());
    });
    record(term, writes, claim, name).await
}

/// What follows from the driver's refusal, before it is told.
async fn refused(
    term: &TermContext,
    writes: &Writes,
    claim: &ClaimRecord,
    name: &ClassName,
    source: &CallError,
) -> Disposition {
    if !source.was_sent() {
        return Disposition::BackOff;
    }
    let meaning = meaning(Rpc::ControllerModifyVolume, source);
    let is_uncertain = meaning == Meaning::Uncertain;
    term.memories.change(&claim.uid, |memory| memory.modify_failed_finally = !is_uncertain);
    let message = match source {
        CallError::Status { message, .. } | CallError::Unanswered { message, .. } => message.clone(),
        other => other.to_string(),
    };
    let failure = status::Failure {
        code: code_name(source.code()),
        message: &message,
        is_uncertain,
        is_infeasible: meaning == Meaning::Infeasible,
    };
    let is_saved = save_failure(term, writes, claim, name, failure).await;
    let wanted = term.claim(&claim.uid).map_or_else(|| claim.class.wanted.clone(), |after| after.class.wanted.clone());
    match (meaning, wanted) {
        // The class is out of the way of the one that is wanted.
        (Meaning::Final | Meaning::Infeasible, Some(wanted)) if wanted != *name => Disposition::Anew,
        // Without the status the next try would take it for one that is going on.
        (Meaning::Infeasible, _) if !is_saved => Disposition::BackOff,
        (Meaning::Infeasible, None) => Disposition::Anew,
        (Meaning::Infeasible, Some(_)) => Disposition::Rarely,
        (Meaning::Final | Meaning::Uncertain | Meaning::Reschedule, _) => Disposition::BackOff,
    }
}

/// Says in the status how a call has failed; says whether that is saved.
async fn save_failure(
    term: &TermContext,
    writes: &Writes,
    claim: &ClaimRecord,
    name: &ClassName,
    failure: status::Failure<'_>,
) -> bool {
    let body = |claim: &ClaimRecord| status::failed(claim, name.as_str(), failure, Timestamp::now());
    let saved = write::failure(term, writes, Step::Modify, claim, body).await;
    if let Err(why) = &saved {
        info!(claim = %claim.full_name(), err = %why, "the error could not be saved in the status");
    }
    saved.is_ok()
}

/// Writes down what the driver has done: the volume, then the claim. Only then it is told.
async fn record(term: &TermContext, writes: &Writes, claim: &ClaimRecord, name: &ClassName) -> Result<(), ModifyError> {
    let class = || json!({ "spec": { "volumeAttributesClassName": name.as_str() } });
    write::volume(term, writes, |_| Some(class()))
        .await
        .map_err(|source| ModifyError::SaveVolume { volume: claim.volume.clone(), source: Box::new(source) })?;
    let saved = save(term, writes, claim, |claim| status::completed(claim, name.as_str())).await?;
    term.memories.change(&claim.uid, |memory| memory.modified = None);
    if saved.is_some() {
        info!(claim = %claim.full_name(), volume = %claim.volume, class = %name, "volume has another class of attributes");
        let text = format!("external resizer modified volume {} with vac {name} successfully", claim.name);
        term.tell(claim, EventKind::Normal, "VolumeModifySuccessful", text);
    }
    Ok(())
}

async fn save(
    term: &TermContext,
    writes: &Writes,
    claim: &ClaimRecord,
    body: impl Fn(&ClaimRecord) -> Value,
) -> Result<Option<Arc<ClaimRecord>>, ModifyError> {
    write::status(term, writes, Step::Modify, claim, body)
        .await
        .map_err(|source| ModifyError::SaveStatus { claim: claim.full_name(), source: Box::new(source) })
}
