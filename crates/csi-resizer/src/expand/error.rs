//! Why a volume has not grown. Where the Go resizer has a text, it is kept.

use csi_client::CallError;
use storage_kube::names::VolumeName;
use thiserror::Error;

use super::request::RequestError;
use crate::error::{Conflict, Disposition};
use crate::write;

/// All of them are tried again, for ever.
#[derive(Debug, Error)]
pub(crate) enum ExpandError {
    #[error("capacity of volume \"{volume}\" is not known: {source}")]
    VolumeCapacity { volume: VolumeName, source: storage_kube::quantity::Error },
    #[error("marking pvc \"{claim}\" as resizing failed: {source}")]
    SaveBegun { claim: String, source: Box<kube::Error> },
    #[error(
        "Unable to expand {claim} because CSI driver {driver} only supports offline expansion and volume is currently in-use"
    )]
    InUse { claim: String, driver: String },
    #[error("resize volume \"{volume}\" by resizer \"{driver}\" failed: {source}")]
    Request { volume: VolumeName, driver: String, source: RequestError },
    #[error("resize volume \"{volume}\" by resizer \"{driver}\" failed: {source}")]
    Call { volume: VolumeName, driver: String, source: CallError, is_infeasible: bool },
    #[error("resizing failed in controller with {source} but failed to update PVC {claim} with: {why}")]
    SaveFailure { claim: String, source: CallError, why: Box<kube::Error> },
    #[error(
        "resize volume \"{volume}\" by resizer \"{driver}\" failed: the driver was asked for {wanted} and answered {bytes} bytes, \
         which does not grow a volume of {has}: the driver must be corrected"
    )]
    NotGrown { volume: VolumeName, driver: String, bytes: i64, wanted: String, has: String },
    #[error(
        "resize volume \"{volume}\" by resizer \"{driver}\" failed: the driver made it {size}, which is less than the {wanted} it \
         was asked for"
    )]
    TooSmall { volume: VolumeName, driver: String, size: String, wanted: String },
    #[error("error updating pv \"{volume}\" by resizer: {source}")]
    SaveVolume { volume: VolumeName, source: Box<kube::Error> },
    #[error("the volume has grown, but the status of pvc \"{claim}\" could not be saved: {source}")]
    SaveGrown { claim: String, source: Box<kube::Error> },
}

impl ExpandError {
    pub(crate) fn disposition(&self) -> Disposition {
        match self {
            Self::Call { is_infeasible: true, .. } => Disposition::Rarely,
            // What the call was for has changed, which is looked at next.
            Self::Call { source: CallError::Denied { .. }, .. } => Disposition::Done,
            Self::Call { .. }
            | Self::SaveFailure { .. }
            | Self::VolumeCapacity { .. }
            | Self::SaveBegun { .. }
            | Self::InUse { .. }
            | Self::Request { .. }
            | Self::NotGrown { .. }
            | Self::TooSmall { .. }
            | Self::SaveVolume { .. }
            | Self::SaveGrown { .. } => Disposition::BackOff,
        }
    }

    /// Nothing was tried: a condition of the call did not hold any more, or the term is ending.
    pub(crate) fn is_withdrawn(&self) -> bool {
        match self {
            Self::Call { source, .. } => matches!(source, CallError::Denied { .. }),
            Self::SaveBegun { source, .. } | Self::SaveVolume { source, .. } | Self::SaveGrown { source, .. } => {
                controller_runtime::gate_closed(source)
            }
            Self::VolumeCapacity { .. }
            | Self::InUse { .. }
            | Self::Request { .. }
            | Self::SaveFailure { .. }
            | Self::NotGrown { .. }
            | Self::TooSmall { .. } => false,
        }
    }

    /// Something was not written because it had changed.
    pub(crate) fn conflict(&self) -> Option<Conflict> {
        match self {
            Self::SaveBegun { source, .. } | Self::SaveGrown { source, .. } => {
                write::is_conflict(source).then_some(Conflict::Claim)
            }
            Self::SaveVolume { source, .. } => write::is_conflict(source).then_some(Conflict::Volume),
            _ => None,
        }
    }

    /// Whether people are told. A write that met a newer object has failed nobody: the next try starts from there.
    pub(crate) fn is_worth_an_event(&self) -> bool {
        self.conflict().is_none() && !self.is_withdrawn()
    }
}
