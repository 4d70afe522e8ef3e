//! What can go wrong with one item. All of it is tried again, with growing delay and at every poll.

use controller_runtime::gate_closed;
use csi_client::CallError;
use storage_kube::names::CapacityName;
use thiserror::Error;
use tracing::{debug, error};

use super::item::Item;

/// See the module.
#[derive(Debug, Error)]
pub(crate) enum CapacityError {
    #[error(transparent)]
    GetCapacity(#[from] CallError),
    #[error("creating a CSIStorageCapacity: {0}")]
    Create(Box<kube::Error>),
    #[error("changing CSIStorageCapacity {name}: {source}")]
    Update { name: CapacityName, source: Box<kube::Error> },
    #[error("deleting CSIStorageCapacity {name}: {source}")]
    Delete { name: CapacityName, source: Box<kube::Error> },
    #[error("reading CSIStorageCapacity {name}: {source}")]
    Read { name: CapacityName, source: Box<kube::Error> },
}

impl CapacityError {
    pub(crate) fn report(&self, item: &Item) {
        if self.is_ordinary() {
            debug!(%item, err = %self, "storage capacity is looked at again");
        } else {
            error!(%item, err = %self, "storage capacity is not published");
        }
    }

    /// Leadership ends, or somebody else was faster.
    fn is_ordinary(&self) -> bool {
        match self {
            Self::GetCapacity(error) => matches!(error, CallError::Denied { .. }),
            Self::Update { source, .. } => gate_closed(source) || self.is_gone() || is_conflict(source),
            Self::Create(source) | Self::Delete { source, .. } | Self::Read { source, .. } => gate_closed(source),
        }
    }

    /// Whether the object to be changed is not there any more. Names are generated, so no other object takes its name.
    pub(crate) fn is_gone(&self) -> bool {
        let Self::Update { source, .. } = self else { return false };
        matches!(&**source, kube::Error::Api(status) if status.code == 404)
    }
}

/// Somebody else has written the object between our reading and writing it.
fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}
