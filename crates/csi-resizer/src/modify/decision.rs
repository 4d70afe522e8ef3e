//! Which class is to be worked on. Pure (KEP-3751).

use storage_kube::names::ClassName;

use crate::records::claim::ClaimClass;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ModifyDecision {
    /// The volume has the class that is wanted.
    Nothing,
    /// No class is wanted any more, and none is being worked on: the claim does not say otherwise.
    RollBack,
    /// The driver may be working on this class: nothing else can be asked of it before it has said how that ended.
    GoOn(ClassName),
    /// Give the volume the class that is wanted.
    Work(ClassName),
}

/// `failed_finally`: the last call of this term has left nothing behind. After a start everything that is in progress may
/// be going on.
pub(crate) fn decide(class: &ClaimClass, failed_finally: bool) -> ModifyDecision {
    match (&class.wanted, class.in_progress()) {
        (wanted, _) if class.status.is_none() && *wanted == class.current => ModifyDecision::Nothing,
        (None, Some(target)) => ModifyDecision::GoOn(target),
        (None, None) => ModifyDecision::RollBack,
        (Some(_), Some(target)) if !failed_finally => ModifyDecision::GoOn(target),
        (Some(wanted), _) => ModifyDecision::Work(wanted.clone()),
    }
}
