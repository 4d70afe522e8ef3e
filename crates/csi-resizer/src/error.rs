//! What can go wrong with a claim, and what is done about it.

use thiserror::Error;

use crate::expand::ExpandError;
use crate::modify::ModifyError;
use crate::volume::VolumeError;

/// What follows from how a step has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// Nothing is left to do until something changes.
    Done,
    /// This try is over, and something else is asked for by now, so the next try begins at once.
    Anew,
    /// It is tried again, with growing delay, for ever.
    BackOff,
    /// It is tried again with the longest delay: the driver has said that it cannot do it.
    Rarely,
}

/// Which object had changed since it was read, so that the API server refused a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conflict {
    /// The claim, which is known as it is by now.
    Claim,
    Volume,
}

/// Why a step of a claim has not come to its end.
#[derive(Debug, Error)]
pub(crate) enum StepError {
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error(transparent)]
    Expand(#[from] ExpandError),
    #[error(transparent)]
    Modify(#[from] ModifyError),
}

impl StepError {
    pub(crate) fn disposition(&self) -> Disposition {
        match self {
            Self::Volume(VolumeError::Missing { .. } | VolumeError::Unreadable { .. }) => Disposition::BackOff,
            Self::Expand(error) => error.disposition(),
            Self::Modify(error) => error.disposition(),
        }
    }

    /// Others have written meanwhile: the step is to begin anew from what is there.
    pub(crate) fn conflict(&self) -> Option<Conflict> {
        match self {
            Self::Volume(_) => None,
            Self::Expand(error) => error.conflict(),
            Self::Modify(error) => error.conflict(),
        }
    }

    /// Nothing was tried: a condition of the call did not hold any more, or the term is ending.
    pub(crate) fn is_withdrawn(&self) -> bool {
        match self {
            Self::Volume(_) => false,
            Self::Expand(error) => error.is_withdrawn(),
            Self::Modify(error) => error.is_withdrawn(),
        }
    }
}
