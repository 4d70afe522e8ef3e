//! Why an operation on a volume did not succeed, and the code CSI gives for it.

use tonic::Status;

use crate::error::Error;
use crate::state::{NodeId, VolumeId};

#[derive(Debug, thiserror::Error)]
pub(crate) enum VolumeError {
    #[error("an operation on volume {0} is under way: try again when it has ended")]
    Pending(String),
    #[error("volume {name} exists and {conflict}: ask for what it is, or use another name")]
    Exists { name: String, conflict: String },
    #[error("{0}: ask for another capacity_range")]
    Size(String),
    #[error("{wanted} bytes are wanted, {free} are free: delete volumes or raise --capacity")]
    Full { wanted: i64, free: i64 },
    #[error("volume {0} does not exist")]
    NotFound(VolumeId),
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
    #[error("starting_token lies behind the last volume: list again from the beginning")]
    NoSuchPage,
    #[error("the operation ended without a result: try again")]
    Interrupted,
    #[error(transparent)]
    Disk(#[from] Error),
}

impl From<VolumeError> for Status {
    fn from(error: VolumeError) -> Self {
        let message = error.to_string();
        match error {
            VolumeError::Pending(_) | VolumeError::NoSuchPage => Status::aborted(message),
            VolumeError::Exists { .. } | VolumeError::PublishedOtherwise { .. } => Status::already_exists(message),
            VolumeError::NotFound(_) => Status::not_found(message),
            VolumeError::PublishedElsewhere { .. } | VolumeError::StillPublished { .. } | VolumeError::InUse { .. } => {
                Status::failed_precondition(message)
            }
            VolumeError::Size(_) => Status::out_of_range(message),
            VolumeError::Full { .. } | VolumeError::NodeFull { .. } => Status::resource_exhausted(message),
            VolumeError::Interrupted | VolumeError::Disk(_) => Status::internal(message),
        }
    }
}
