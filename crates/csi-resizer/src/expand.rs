//! Growing the volume of a claim (KEP-1790): how big ([`decision`]), the status says so ([`status`]), the call
//! ([`request`]), then volume and status are written in this order, as the Go resizer does.

mod answer;
pub(crate) mod decision;
pub(crate) mod error;
pub(crate) mod in_use;
pub(crate) mod pre_resize;
pub(crate) mod request;
pub(crate) mod status;

use std::sync::Arc;

use controller_runtime::EventKind;
use csi_client::{CallError, Code, Meaning, Rpc, meaning};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use storage_kube::quantity::Quantity;
use storage_kube::wire::{PersistentVolume, ResizeStatus};
use tracing::info;

use crate::claim::Step;
use crate::claim::still_wanted::still_wanted;
use crate::claim::writes::Writes;
use crate::conditions::{self, RESIZING};
use crate::records::ClaimRecord;
use crate::settings::Expansion;
use crate::term_context::TermContext;
use crate::volume::Volume;
use crate::write;
use answer::{is_equal, is_less};
use decision::{SizeDecision, SizeView, decide};
pub(crate) use error::ExpandError;

/// What the driver has made of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grown {
    /// What it was asked for.
    wanted: String,
    /// What the volume has.
    size: String,
    /// The node has to do its part.
    node_required: bool,
}

/// Grows the volume, or does what is left of it.
pub(crate) async fn expand(term: &TermContext, claim: &ClaimRecord, writes: &Writes) -> Result<(), ExpandError> {
    let result = grow(term, claim, writes).await;
    if let Err(error) = &result
        && error.is_worth_an_event()
    {
        term.tell(claim, EventKind::Warning, "VolumeResizeFailed", error.to_string());
    }
    result
}

async fn grow(term: &TermContext, claim: &ClaimRecord, writes: &Writes) -> Result<(), ExpandError> {
    let settings = &term.settings;
    if settings.annotates {
        pre_resize::tidy(term, writes, claim)
            .await
            .map_err(|source| ExpandError::SaveVolume { volume: claim.volume.clone(), source: Box::new(source) })?;
    }
    let volume = writes.volume().await;
    let memory = term.memories.get(&claim.uid);
    let decision = decide(SizeView {
        size: &claim.size,
        volume: Quantity::parse(&capacity_of(&volume))
            .map_err(|source| ExpandError::VolumeCapacity { volume: claim.volume.clone(), source })?,
        expansion: settings.facts.expansion,
        recovers: settings.recovers,
        failed_finally: memory.expand_failed_finally,
        waits_for_node: conditions::is_true(&claim.conditions, conditions::FILE_SYSTEM_RESIZE_PENDING),
    });
    let wanted = match decision {
        SizeDecision::Grow(wanted) => wanted,
        SizeDecision::AwaitNode { begun } => {
            tell_of_node(term, claim, &begun);
            return Ok(());
        }
        SizeDecision::Nothing => return Ok(()),
    };
    // The driver has done it before; what is left is to say so.
    if let Some(grown) = memory.grown.filter(|grown| is_equal(&grown.wanted, &wanted)) {
        return record(term, writes, claim, grown).await;
    }
    let Some(claim) = begin(term, writes, claim, &wanted).await? else { return Ok(()) };
    if in_use::is_held_up(term, &claim).await {
        return Err(ExpandError::InUse { claim: claim.full_name(), driver: settings.driver.clone() });
    }
    let text = format!("External resizer is resizing volume {}", claim.volume);
    term.tell(&claim, EventKind::Normal, "Resizing", text);
    let grown = match settings.facts.expansion {
        Expansion::Controller => call(term, writes, &claim, &volume, &wanted).await?,
        Expansion::NodeOnly | Expansion::Unsupported => {
            Grown { size: wanted.clone(), wanted: wanted.clone(), node_required: true }
        }
    };
    term.memories.change(&claim.uid, |memory| memory.grown = Some(grown.clone()));
    record(term, writes, &claim, grown).await
}

/// `spec.capacity.storage`
fn capacity_of(volume: &Volume) -> String {
    volume.object.spec.capacity.storage.clone().unwrap_or_else(|| "0".to_owned())
}

/// Once for each wait: the claim asks for more than a node has still to do.
fn tell_of_node(term: &TermContext, claim: &ClaimRecord, begun: &str) {
    if term.memories.get(&claim.uid).told_of_node {
        return;
    }
    term.memories.change(&claim.uid, |memory| memory.told_of_node = true);
    let text = format!(
        "Require file system resize of volume on node to {begun} first, which a pod that uses the claim brings about; then the \
         volume is grown to {}",
        claim.size.requested
    );
    term.tell(claim, EventKind::Normal, "FileSystemResizeRequired", text);
}

/// Notes in the status what is about to be asked for. `None` when the claim is gone.
async fn begin(
    term: &TermContext,
    writes: &Writes,
    claim: &ClaimRecord,
    wanted: &str,
) -> Result<Option<Arc<ClaimRecord>>, ExpandError> {
    let now = Timestamp::now();
    let mut is_new = true;
    if term.settings.recovers {
        let allocated = claim.size.allocated.as_deref().is_some_and(|begun| is_equal(begun, wanted));
        // The kubelet must not take a volume that grows for one that waits for it.
        let same = allocated && !concerns_node(claim.size.status);
        if same && conditions::is_true(&claim.conditions, RESIZING) && !claim.size.node_not_required {
            // It says so already, and since when.
            return Ok(Some(Arc::new(claim.clone())));
        }
        is_new = !same;
    }
    let body = |claim: &ClaimRecord| {
        if term.settings.recovers {
            status::in_progress(claim, wanted, is_new, now)
        } else {
            status::legacy::in_progress(claim, now)
        }
    };
    write::status(term, writes, Step::Expand, claim, body)
        .await
        .map_err(|source| ExpandError::SaveBegun { claim: claim.full_name(), source: Box::new(source) })
}

/// Whether the kubelet grows the file system of such a claim as soon as the volume has more than the claim.
fn concerns_node(status: Option<ResizeStatus>) -> bool {
    matches!(status, None | Some(ResizeStatus::NodeResizePending | ResizeStatus::NodeResizeInProgress))
}

/// Asks the driver, and says in the status if that failed for good.
async fn call(
    term: &TermContext,
    writes: &Writes,
    claim: &ClaimRecord,
    volume: &Volume,
    wanted: &str,
) -> Result<Grown, ExpandError> {
    let has = capacity_of(volume);
    let names = || (claim.volume.clone(), term.settings.driver.clone());
    let request = request::with_secret(term, volume, wanted).await.map_err(|source| {
        let (volume, driver) = names();
        ExpandError::Request { volume, driver, source }
    })?;
    let driver = term.driver.provided(still_wanted(term, claim, Step::Expand)).for_migrated(volume.is_migrated);
    term.memories.change(&claim.uid, |memory| memory.was_in_use = false);
    let answer = match driver.controller_expand_volume(request).await {
        Ok(answer) => answer,
        Err(source) => return Err(refused(term, writes, claim, source).await),
    };
    term.in_use.unmark(&claim.uid);
    term.memories.change(&claim.uid, |memory| {
        memory.expand_failed_finally = false;
        memory.told_of_node = false;
    });
    let bytes = answer.capacity_bytes;
    let size = answer::size(bytes, wanted, &has).ok_or_else(|| {
        let (volume, driver) = names();
        ExpandError::NotGrown { volume, driver, bytes, wanted: wanted.to_owned(), has: has.clone() }
    })?;
    Ok(Grown { wanted: wanted.to_owned(), size, node_required: answer.node_expansion_required })
}

/// What follows from the driver's refusal, before it is told.
async fn refused(term: &TermContext, writes: &Writes, claim: &ClaimRecord, source: CallError) -> ExpandError {
    let meaning = meaning(Rpc::ControllerExpandVolume, &source);
    let is_final = meaning != Meaning::Uncertain;
    if source.was_sent() {
        term.memories.change(&claim.uid, |memory| memory.expand_failed_finally = is_final);
    }
    if is_final && source.code() == Code::FailedPrecondition {
        in_use::mark(term, claim).await;
    } else if source.was_sent() {
        term.in_use.unmark(&claim.uid);
    }
    if is_final && term.settings.recovers {
        let now = Timestamp::now();
        let body = if meaning == Meaning::Infeasible {
            status::infeasible(&source.to_string(), now)
        } else {
            status::failed(&source.to_string(), now)
        };
        if let Err(why) = write::failure(term, writes, Step::Expand, claim, |_| body.clone()).await {
            return ExpandError::SaveFailure { claim: claim.full_name(), source, why: Box::new(why) };
        }
    }
    // Without KEP-1790 a claim cannot ask for less, so nothing but time makes a size feasible.
    let is_infeasible = meaning == Meaning::Infeasible && term.settings.recovers;
    ExpandError::Call { volume: claim.volume.clone(), driver: term.settings.driver.clone(), source, is_infeasible }
}

/// Writes down what the driver has done: the volume, then the claim. Only then it is told.
async fn record(term: &TermContext, writes: &Writes, claim: &ClaimRecord, grown: Grown) -> Result<(), ExpandError> {
    write::volume(term, writes, |volume| changes_of_volume(term, claim, volume, &grown))
        .await
        .map_err(|source| ExpandError::SaveVolume { volume: claim.volume.clone(), source: Box::new(source) })?;
    let now = Timestamp::now();
    let body = |claim: &ClaimRecord| match (grown.node_required, term.settings.recovers) {
        (true, true) => status::node_pending(claim, now),
        (true, false) => status::legacy::node_pending(claim, now),
        (false, true) => status::finished(claim, &grown.size),
        (false, false) => status::legacy::finished(claim, &grown.size),
    };
    let saved = write::status(term, writes, Step::Expand, claim, body)
        .await
        .map_err(|source| ExpandError::SaveGrown { claim: claim.full_name(), source: Box::new(source) })?;
    term.memories.change(&claim.uid, |memory| memory.grown = None);
    if saved.is_none() {
        return Ok(());
    }
    info!(claim = %claim.full_name(), volume = %claim.volume, size = %grown.size, node = grown.node_required, "volume has grown");
    let is_too_small = is_less(&grown.size, &grown.wanted);
    if grown.node_required {
        let text = "Require file system resize of volume on node";
        term.tell(claim, EventKind::Normal, "FileSystemResizeRequired", text.to_owned());
    } else if !is_too_small {
        term.tell(claim, EventKind::Normal, "VolumeResizeSuccessful", "Resize volume succeeded".to_owned());
    }
    if is_too_small {
        let (volume, driver) = (claim.volume.clone(), term.settings.driver.clone());
        return Err(ExpandError::TooSmall { volume, driver, size: grown.size, wanted: grown.wanted });
    }
    Ok(())
}

/// What the volume says already is not written again: a claim that could not be written keeps to writing the claim.
fn changes_of_volume(
    term: &TermContext,
    claim: &ClaimRecord,
    volume: &PersistentVolume,
    grown: &Grown,
) -> Option<Value> {
    let mut body = Map::new();
    if volume.spec.capacity.storage.as_deref().is_none_or(|has| !is_equal(has, &grown.size)) {
        body.insert("spec".to_owned(), json!({ "capacity": { "storage": grown.size } }));
    }
    if grown.node_required
        && term.settings.annotates
        && let Some(note) = pre_resize::note(claim, volume)
    {
        body.insert("metadata".to_owned(), json!({ "annotations": note }));
    }
    (!body.is_empty()).then_some(Value::Object(body))
}
