//! Why a volume could not be staged, published or taken back, and the code CSI gives for it.

use std::io;
use std::path::{Path, PathBuf};

use tonic::Status;

use crate::program::ProgramError;
use crate::state::{NodeId, VolumeId};

#[derive(Debug, thiserror::Error)]
pub(super) enum NodeError {
    #[error("volume {0} does not exist")]
    NotFound(VolumeId),
    #[error("volume {0} is at {1} not published")]
    NotAt(VolumeId, PathBuf),
    #[error("{field} {path:?} {reason}")]
    Path { field: &'static str, path: PathBuf, reason: &'static str },
    #[error("volume {id} is a {is} volume, not a {wanted} one")]
    WrongAccess { id: VolumeId, is: String, wanted: String },
    #[error(
        "volume {id} is not published to this node, {node_id} (publish_context: {found}): call ControllerPublishVolume first"
    )]
    NotPublishedHere { id: VolumeId, node_id: NodeId, found: String },
    #[error(
        "volume {id} has {has} bytes, fewer than the {wanted} that are required: call ControllerExpandVolume first"
    )]
    Smaller { id: VolumeId, has: i64, wanted: i64 },
    #[error("volume {id} is not staged{at}: call NodeStageVolume first")]
    NotStaged { id: VolumeId, at: String },
    #[error("volume {id} is for a single writer and published at {other}: unpublish it there first")]
    SecondTarget { id: VolumeId, other: PathBuf },
    #[error("volume {id} is still published at {target}: call NodeUnpublishVolume first")]
    StillPublished { id: VolumeId, target: PathBuf },
    #[error("volume {id} is at {path} already, {how}: unpublish it first")]
    Otherwise { id: VolumeId, path: PathBuf, how: &'static str },
    #[error("{path} is a mount of {root}, which is not volume {id}: it is left alone, unmount it by hand")]
    Foreign { id: VolumeId, path: PathBuf, root: PathBuf },
    #[error("{0} is not empty and is left alone: move away what is in it")]
    NotEmpty(PathBuf),
    #[error("the driver may not {action} {path} ({source}): run it as root with CAP_SYS_ADMIN, in a pod privileged")]
    Forbidden { action: &'static str, path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("cannot {action} {path}: {source}")]
    Failed { action: &'static str, path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("the operation ended without a result: try again")]
    Interrupted,
}

impl NodeError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| {
            let (path, forbidden) = (path.to_owned(), source.kind() == io::ErrorKind::PermissionDenied);
            let source = source.into();
            if forbidden { Self::Forbidden { action, path, source } } else { Self::Failed { action, path, source } }
        }
    }

    pub(super) fn program(action: &'static str, path: &Path) -> impl Fn(ProgramError) -> Self {
        move |source| {
            let (path, forbidden) = (path.to_owned(), source.is_forbidden());
            let source = source.into();
            if forbidden { Self::Forbidden { action, path, source } } else { Self::Failed { action, path, source } }
        }
    }
}

impl From<NodeError> for Status {
    fn from(error: NodeError) -> Self {
        use NodeError::{
            Failed, Forbidden, Foreign, Interrupted, NotAt, NotEmpty, NotFound, NotPublishedHere, NotStaged, Otherwise,
            Path, SecondTarget, Smaller, StillPublished, WrongAccess,
        };
        let message = error.to_string();
        match error {
            NotFound(_) | NotAt(..) => Status::not_found(message),
            Path { .. } | WrongAccess { .. } => Status::invalid_argument(message),
            NotPublishedHere { .. }
            | NotStaged { .. }
            | SecondTarget { .. }
            | StillPublished { .. }
            | Foreign { .. }
            | NotEmpty(_) => Status::failed_precondition(message),
            // CSI "NodeExpandVolume Errors", "Unsupported capacity_range".
            Smaller { .. } => Status::out_of_range(message),
            Otherwise { .. } => Status::already_exists(message),
            Forbidden { .. } => Status::permission_denied(message),
            Failed { .. } | Interrupted => Status::internal(message),
        }
    }
}
