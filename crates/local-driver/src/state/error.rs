//! Why an operation on a volume did not succeed, and the code CSI gives for it.

use tonic::Status;

use crate::error::Error;

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
            VolumeError::Exists { .. } => Status::already_exists(message),
            VolumeError::Size(_) => Status::out_of_range(message),
            VolumeError::Full { .. } => Status::resource_exhausted(message),
            VolumeError::Interrupted | VolumeError::Disk(_) => Status::internal(message),
        }
    }
}
