//! Why an operation on a volume or a snapshot did not succeed, and the code CSI gives for it.

use std::io;

use tonic::Status;

use crate::error::Error;
use crate::state::{Access, NodeId, VolumeId};

#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    #[error("an operation on {kind} {name} is under way: try again when it has ended")]
    Pending { kind: &'static str, name: String },
    #[error("{kind} {name} exists and {conflict}: ask for what it is, or use another name")]
    Exists { kind: &'static str, name: String, conflict: String },
    #[error("{0}: ask for another capacity_range")]
    Size(String),
    #[error("{wanted} bytes are wanted, {free} are free: delete volumes or snapshots, or raise --capacity")]
    Full { wanted: i64, free: i64 },
    #[error("{kind} {id} does not exist")]
    NotFound { kind: &'static str, id: String },
    #[error("the content source is of a {is} volume: ask for a {is} volume, not for a {wanted} one")]
    SourceAccess { is: Access, wanted: Access },
    #[error("volume {id} is published to node {node_id} as {existing}, not as {wanted}: unpublish it there first")]
    PublishedOtherwise { id: VolumeId, node_id: NodeId, existing: String, wanted: String },
    #[error("volume {id} is published to {nodes} and {volume_is}: unpublish it there first")]
    PublishedElsewhere { id: VolumeId, nodes: String, volume_is: &'static str },
    #[error("volume {id} is still published to {nodes}: unpublish it first")]
    StillPublished { id: VolumeId, nodes: String },
    #[error("volume {id} is in use at {at}: unpublish and unstage it there first")]
    InUse { id: VolumeId, at: String },
    #[error("node {node_id} has {limit} volumes, as many as --max-volumes-per-node allows: unpublish one first")]
    NodeFull { node_id: NodeId, limit: u32 },
    #[error("starting_token lies behind the last {kind}: list again from the beginning")]
    NoSuchPage { kind: &'static str },
    #[error("the operation ended without a result: try again")]
    Interrupted,
    #[error(transparent)]
    Disk(#[from] Error),
}

impl From<StateError> for Status {
    fn from(error: StateError) -> Self {
        let message = error.to_string();
        match error {
            StateError::Pending { .. } | StateError::NoSuchPage { .. } => Status::aborted(message),
            StateError::Exists { .. } | StateError::PublishedOtherwise { .. } => Status::already_exists(message),
            StateError::NotFound { .. } => Status::not_found(message),
            // CSI "CreateVolume Errors", "Source incompatible or not supported".
            StateError::SourceAccess { .. } => Status::invalid_argument(message),
            StateError::PublishedElsewhere { .. } | StateError::StillPublished { .. } | StateError::InUse { .. } => {
                Status::failed_precondition(message)
            }
            StateError::Size(_) => Status::out_of_range(message),
            StateError::Full { .. } | StateError::NodeFull { .. } => Status::resource_exhausted(message),
            StateError::Disk(Error::State { source, .. }) if is_full(&source) => Status::resource_exhausted(message),
            StateError::Interrupted | StateError::Disk(_) => Status::internal(message),
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
