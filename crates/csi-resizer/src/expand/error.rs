//! Why a volume has not grown. Where the Go resizer has a text, it is kept.

use csi_client::{CallError, Meaning, Rpc, meaning};
use storage_kube::names::VolumeName;
use thiserror::Error;

use super::request::RequestError;
use crate::error::Disposition;
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
    Call { volume: VolumeName, driver: String, source: CallError },
    #[error("resizing failed in controller with {source} but failed to update PVC {claim} with: {why}")]
    SaveFailure { claim: String, source: CallError, why: Box<kube::Error> },
    #[error(
        "resize volume \"{volume}\" by resizer \"{driver}\" failed: the driver answered that the volume has {bytes} bytes, but it \
         has {has} already: the driver must be corrected"
    )]
    Nonsense { volume: VolumeName, driver: String, bytes: i64, has: String },
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
            Self::Call { source, .. } | Self::SaveFailure { source, .. } => {
                match meaning(Rpc::ControllerExpandVolume, source) {
                    Meaning::Infeasible => Disposition::Rarely,
                    Meaning::Final | Meaning::Uncertain | Meaning::Reschedule => Disposition::BackOff,
                }
            }
            Self::VolumeCapacity { .. }
            | Self::SaveBegun { .. }
            | Self::InUse { .. }
            | Self::Request { .. }
            | Self::Nonsense { .. }
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
            | Self::Nonsense { .. }
            | Self::TooSmall { .. } => false,
        }
    }

    /// Whether people are told. A write that met a newer claim has failed nobody: the next try starts from there.
    pub(crate) fn is_worth_an_event(&self) -> bool {
        let conflict = match self {
            Self::SaveBegun { source, .. } | Self::SaveGrown { source, .. } => write::is_conflict(source),
            _ => false,
        };
        !conflict && !self.is_withdrawn()
    }
}
