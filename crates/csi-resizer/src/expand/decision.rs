//! How big the volume is to be made. Pure (KEP-1790; contract of the Go resizer for what the KEP leaves open).

use storage_kube::quantity::Quantity;
use storage_kube::wire::ResizeStatus;

use super::answer::is_less;
use crate::records::claim::ClaimSize;
use crate::settings::Expansion;

/// All that is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizeView<'a> {
    pub(crate) size: &'a ClaimSize,
    /// `spec.capacity.storage` of the volume.
    pub(crate) volume: Quantity,
    pub(crate) expansion: Expansion,
    /// Gate `RecoverVolumeExpansionFailure`.
    pub(crate) recovers: bool,
    /// The last call of this term has left nothing behind: a size that was begun need not be finished.
    pub(crate) failed_finally: bool,
    /// Condition `FileSystemResizePending` is true.
    pub(crate) waits_for_node: bool,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SizeDecision {
    /// Nothing here: the node has to do its part.
    Nothing,
    /// Nothing before the node has done its part of a smaller size.
    AwaitNode {
        /// That size.
        begun: String,
    },
    /// Grow the volume to this quantity.
    Grow(String),
}

/// Decides for a claim that asks for more than it has.
pub(crate) fn decide(view: SizeView<'_>) -> SizeDecision {
    let wanted = &view.size.requested;
    if !view.recovers {
        let is_big_enough = Quantity::parse(wanted).is_ok_and(|wanted| view.volume >= wanted);
        let waits = is_big_enough && view.waits_for_node;
        return if waits { SizeDecision::Nothing } else { SizeDecision::Grow(wanted.clone()) };
    }
    // What was begun may have been done: less than that must never be asked for before the driver has said that it was not.
    let begun = view.size.allocated.as_ref().unwrap_or(wanted);
    if is_left_over(view.size) {
        return SizeDecision::Grow(wanted.clone());
    }
    let reached = |size: &str| Quantity::parse(size).is_ok_and(|size| view.volume >= size);
    let size = if reached(wanted) { of_big_enough(view, begun) } else { of_too_small(view, begun, reached(begun)) };
    match size {
        Some(size) => SizeDecision::Grow(size.clone()),
        None if is_less(begun, wanted) => SizeDecision::AwaitNode { begun: begun.clone() },
        None => SizeDecision::Nothing,
    }
}

/// Whether the status still waits for a node that has done its part: a claim says what it has in `status.capacity`, which
/// kubelet sets when the file system has grown (`volume/util.MarkFSResizeFinished`).
fn is_left_over(size: &ClaimSize) -> bool {
    let waits = matches!(size.status, Some(ResizeStatus::NodeResizePending | ResizeStatus::NodeResizeInProgress));
    let parsed = |text: &Option<String>| text.as_deref().and_then(|text| Quantity::parse(text).ok());
    waits && parsed(&size.allocated).is_some_and(|begun| parsed(&size.capacity).is_some_and(|has| has >= begun))
}

/// Of a volume that has less than is asked for.
fn of_too_small<'a>(view: SizeView<'a>, begun: &'a String, begun_is_reached: bool) -> Option<&'a String> {
    match view.size.status {
        Some(ResizeStatus::NodeResizePending | ResizeStatus::NodeResizeInProgress) => {
            (!begun_is_reached).then_some(begun)
        }
        Some(ResizeStatus::NodeResizeInfeasible) => Some(begun),
        Some(ResizeStatus::ControllerResizeInProgress) if !view.failed_finally => Some(begun),
        Some(
            ResizeStatus::ControllerResizeInProgress | ResizeStatus::ControllerResizeInfeasible | ResizeStatus::Other,
        )
        | None => Some(&view.size.requested),
    }
}

/// Of a volume that has as much as is asked for: what is left is to have the claim say so.
fn of_big_enough<'a>(view: SizeView<'a>, begun: &'a String) -> Option<&'a String> {
    let wanted = &view.size.requested;
    match view.size.status {
        Some(ResizeStatus::NodeResizePending | ResizeStatus::NodeResizeInProgress) => None,
        Some(ResizeStatus::NodeResizeInfeasible) => {
            Some(if view.expansion == Expansion::Controller { begun } else { wanted })
        }
        Some(ResizeStatus::ControllerResizeInProgress | ResizeStatus::ControllerResizeInfeasible) => Some(begun),
        None if view.size.allocated.is_some() => Some(begun),
        // An API server without the statuses, or one that has lost them: the condition says whether the node is waited for.
        None | Some(ResizeStatus::Other) => (!view.waits_for_node).then_some(wanted),
    }
}
