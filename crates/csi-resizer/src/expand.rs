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
use serde_json::json;
use storage_kube::quantity::Quantity;
use storage_kube::wire::ResizeStatus;
use tracing::info;

use crate::claim::Step;
use crate::claim::still_wanted::still_wanted;
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
pub(crate) async fn expand(term: &TermContext, claim: &ClaimRecord, volume: &mut Volume) -> Result<(), ExpandError> {
    let result = grow(term, claim, volume).await;
    if let Err(error) = &result
        && error.is_worth_an_event()
    {
        term.tell(claim, EventKind::Warning, "VolumeResizeFailed", error.to_string());
    }
    result
}

async fn grow(term: &TermContext, claim: &ClaimRecord, volume: &mut Volume) -> Result<(), ExpandError> {
    let settings = &term.settings;
    if settings.annotates {
        volume.object = pre_resize::tidy(term, claim, volume.object.clone())
            .await
            .map_err(|source| ExpandError::SaveVolume { volume: claim.volume.clone(), source: Box::new(source) })?;
    }
    let memory = term.memories.get(&claim.uid);
    let has = volume.object.spec.capacity.storage.clone().unwrap_or_else(|| "0".to_owned());
    let decision = decide(SizeView {
        size: &claim.size,
        volume: Quantity::parse(&has)
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
        return record(term, claim, volume, grown).await;
    }
    let Some(claim) = begin(term, claim, &wanted).await? else { return Ok(()) };
    if in_use::is_held_up(term, &claim).await {
        return Err(ExpandError::InUse { claim: claim.full_name(), driver: settings.driver.clone() });
    }
    let text = format!("External resizer is resizing volume {}", claim.volume);
    term.tell(&claim, EventKind::Normal, "Resizing", text);
    let grown = match settings.facts.expansion {
        Expansion::Controller => call(term, &claim, volume, &wanted, &has).await?,
        Expansion::NodeOnly | Expansion::Unsupported => {
            Grown { size: wanted.clone(), wanted: wanted.clone(), node_required: true }
        }
    };
    term.memories.change(&claim.uid, |memory| memory.grown = Some(grown.clone()));
    record(term, &claim, volume, grown).await
}

/// Once in a term: the claim asks for more than a node has still to do.
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
async fn begin(term: &TermContext, claim: &ClaimRecord, wanted: &str) -> Result<Option<Arc<ClaimRecord>>, ExpandError> {
    let now = Timestamp::now();
    let body = if term.settings.recovers {
        let allocated = claim.size.allocated.as_deref().is_some_and(|begun| is_equal(begun, wanted));
        // The kubelet must not take a volume that grows for one that waits for it.
        let same = allocated && !concerns_node(claim.size.status);
        if same && conditions::is_true(&claim.conditions, RESIZING) && !claim.size.node_not_required {
            // It says so already, and since when.
            return Ok(Some(Arc::new(claim.clone())));
        }
        status::in_progress(claim, wanted, !same, now)
    } else {
        status::legacy::in_progress(claim, now)
    };
    write::status(term, claim, body)
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
    claim: &ClaimRecord,
    volume: &Volume,
    wanted: &str,
    has: &str,
) -> Result<Grown, ExpandError> {
    let names = || (claim.volume.clone(), term.settings.driver.clone());
    let request = request::with_secret(term, volume, wanted).await.map_err(|source| {
        let (volume, driver) = names();
        ExpandError::Request { volume, driver, source }
    })?;
    let driver = term.driver.provided(still_wanted(term, claim, Step::Expand)).for_migrated(volume.is_migrated);
    term.memories.change(&claim.uid, |memory| memory.was_in_use = false);
    let answer = match driver.controller_expand_volume(request).await {
        Ok(answer) => answer,
        Err(source) => return Err(refused(term, claim, source).await),
    };
    term.in_use.unmark(&claim.uid);
    term.memories.change(&claim.uid, |memory| {
        memory.expand_failed_finally = false;
        memory.told_of_node = false;
    });
    let bytes = answer.capacity_bytes;
    let size = answer::size(bytes, wanted, has).ok_or_else(|| {
        let (volume, driver) = names();
        ExpandError::NotGrown { volume, driver, bytes, wanted: wanted.to_owned(), has: has.to_owned() }
    })?;
    Ok(Grown { wanted: wanted.to_owned(), size, node_required: answer.node_expansion_required })
}

/// What follows from the driver's refusal, before it is told.
async fn refused(term: &TermContext, claim: &ClaimRecord, source: CallError) -> ExpandError {
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
        if let Err(why) = write::failure(term, Step::Expand, claim, |_| body.clone()).await {
            return ExpandError::SaveFailure { claim: claim.full_name(), source, why: Box::new(why) };
        }
    }
    // Without KEP-1790 a claim cannot ask for less, so nothing but time makes a size feasible.
    let is_infeasible = meaning == Meaning::Infeasible && term.settings.recovers;
    ExpandError::Call { volume: claim.volume.clone(), driver: term.settings.driver.clone(), source, is_infeasible }
}

/// Writes down what the driver has done: the volume, then the claim. Only then it is told.
async fn record(term: &TermContext, claim: &ClaimRecord, volume: &mut Volume, grown: Grown) -> Result<(), ExpandError> {
    record_on_volume(term, claim, volume, &grown).await?;
    let claim = &*write::newest(term, Step::Expand, claim);
    let now = Timestamp::now();
    let body = match (grown.node_required, term.settings.recovers) {
        (true, true) => status::node_pending(claim, now),
        (true, false) => status::legacy::node_pending(claim, now),
        (false, true) => status::finished(claim, &grown.size),
        (false, false) => status::legacy::finished(claim, &grown.size),
    };
    let saved = write::status(term, claim, body)
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
async fn record_on_volume(
    term: &TermContext,
    claim: &ClaimRecord,
    volume: &mut Volume,
    grown: &Grown,
) -> Result<(), ExpandError> {
    let mut body = json!({});
    if volume.object.spec.capacity.storage.as_deref().is_none_or(|has| !is_equal(has, &grown.size)) {
        body["spec"] = json!({ "capacity": { "storage": grown.size } });
    }
    if grown.node_required
        && term.settings.annotates
        && let Some(note) = pre_resize::note(claim, &volume.object)
    {
        body["metadata"] = json!({ "annotations": note });
    }
    if body.as_object().is_none_or(serde_json::Map::is_empty) {
        return Ok(());
    }
    volume.object = write::volume(term, &volume.object, body)
        .await
        .map_err(|source| ExpandError::SaveVolume { volume: claim.volume.clone(), source: Box::new(source) })?;
    Ok(())
}
