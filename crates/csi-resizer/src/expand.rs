//! Growing the volume of a claim (KEP-1790).

use thiserror::Error;

use crate::error::Disposition;
use crate::records::ClaimRecord;
use crate::term_context::TermContext;
use crate::volume::Volume;

/// Why a volume has not grown.
#[derive(Debug, Error)]
pub(crate) enum ExpandError {}

impl ExpandError {
    pub(crate) fn disposition(&self) -> Disposition {
        match *self {}
    }

    /// Nothing was tried.
    pub(crate) fn is_withdrawn(&self) -> bool {
        match *self {}
    }
}

/// Grows the volume, or does what is left of it.
pub(crate) async fn expand(_: &TermContext, _: &ClaimRecord, _: &Volume) -> Result<(), ExpandError> {
    Ok(())
}
