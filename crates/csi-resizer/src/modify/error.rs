//! Why a volume has not the class it should have. Where the Go resizer has a text, it is kept.

use csi_client::{CallError, Meaning, Rpc, meaning};
use storage_kube::credentials;
use storage_kube::names::{ClassName, VolumeName};
use thiserror::Error;

use crate::error::{Conflict, Disposition};
use crate::write;

/// All of them are tried again, for ever.
#[derive(Debug, Error)]
pub(crate) enum ModifyError {
    #[error("VAC \"{class}\" does not exist.")]
    ClassMissing { class: ClassName },
    #[error("VAC \"{class}\" is of CSI driver {driver}, and the volume of {own}: name a class of the same driver")]
    OtherDriver { class: ClassName, driver: String, own: String },
    #[error(
        "VAC \"{class}\" may not be read: allow get, list and watch on volumeattributesclasses in the RBAC rules of csi-resizer \
         ({reason})"
    )]
    ClassForbidden { class: ClassName, reason: String },
    #[error("VAC \"{class}\" could not be read: {source}")]
    ClassUnreadable { class: ClassName, source: Box<kube::Error> },
    #[error("cannot modify volume \"{volume}\": empty volume handle")]
    NoHandle { volume: VolumeName },
    #[error("cannot modify volume \"{volume}\": failed to get secret: {source}")]
    Secret { volume: VolumeName, source: Box<credentials::Error> },
    #[error("{source}{}", still_modifying(source, class))]
    Call { class: ClassName, source: CallError, disposition: Disposition },
    #[error("the status of pvc \"{claim}\" could not be saved: {source}")]
    SaveStatus { claim: String, source: Box<kube::Error> },
    #[error("the volume is modified, but pv \"{volume}\" could not be updated: {source}")]
    SaveVolume { volume: VolumeName, source: Box<kube::Error> },
}

/// The driver may be working on it.
fn still_modifying(error: &CallError, class: &ClassName) -> String {
    match meaning(Rpc::ControllerModifyVolume, error) {
        Meaning::Uncertain => format!(". Still modifying to VAC {class}"),
        Meaning::Final | Meaning::Infeasible | Meaning::Reschedule => String::new(),
    }
}

impl ModifyError {
    pub(crate) fn disposition(&self) -> Disposition {
        match self {
            // What ends the wait is an event: the class appears, or the claim names another.
            Self::ClassMissing { .. } | Self::OtherDriver { .. } => Disposition::Rarely,
            Self::Call { disposition, .. } => *disposition,
            Self::ClassForbidden { .. }
            | Self::ClassUnreadable { .. }
            | Self::NoHandle { .. }
            | Self::Secret { .. }
            | Self::SaveStatus { .. }
            | Self::SaveVolume { .. } => Disposition::BackOff,
        }
    }

    /// Nothing was tried: a condition of the call did not hold any more, or the term is ending.
    pub(crate) fn is_withdrawn(&self) -> bool {
        match self {
            Self::Call { source, .. } => matches!(source, CallError::Denied { .. }),
            Self::ClassUnreadable { source, .. }
            | Self::SaveStatus { source, .. }
            | Self::SaveVolume { source, .. } => controller_runtime::gate_closed(source),
            Self::ClassMissing { .. }
            | Self::OtherDriver { .. }
            | Self::ClassForbidden { .. }
            | Self::NoHandle { .. }
            | Self::Secret { .. } => false,
        }
    }

    /// Something was not written because it had changed.
    pub(crate) fn conflict(&self) -> Option<Conflict> {
        match self {
            Self::SaveStatus { source, .. } => write::is_conflict(source).then_some(Conflict::Claim),
            Self::SaveVolume { source, .. } => write::is_conflict(source).then_some(Conflict::Volume),
            _ => None,
        }
    }

    /// Whether people are told. A write that met a newer object has failed nobody: the next try starts from there.
    pub(crate) fn is_worth_an_event(&self) -> bool {
        self.conflict().is_none() && !self.is_withdrawn()
    }
}
