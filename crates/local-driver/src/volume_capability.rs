//! CSI `VolumeCapability`: what kind of volume it asks for. No I/O.

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::volume_capability::AccessType;
use csi_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Status;

use crate::capabilities::{Capabilities, Capability};
use crate::state::Access;

/// What kind of volume all these capabilities need, `Mount` or `Block`. File system types and mount flags have no meaning
/// for a directory.
pub(crate) fn access(wanted: &[csi::VolumeCapability], capabilities: &Capabilities) -> Result<Access, Status> {
    let mut kinds = wanted.iter().map(|one| kind(one, capabilities));
    let first = kinds.next().ok_or_else(|| Status::invalid_argument("volume_capabilities are required"))??;
    for kind in kinds {
        if kind? != first {
            return Err(Status::invalid_argument("a volume is either a block or a mount volume, not both"));
        }
    }
    Ok(first)
}

fn kind(wanted: &csi::VolumeCapability, capabilities: &Capabilities) -> Result<Access, Status> {
    let mode = mode(wanted);
    match mode {
        Mode::Unknown => return Err(Status::invalid_argument("a volume capability needs a known access_mode")),
        Mode::SingleNodeSingleWriter | Mode::SingleNodeMultiWriter
            if !capabilities.has(Capability::SingleNodeMultiWriter) =>
        {
            return Err(Status::invalid_argument(format!(
                "access mode {} needs the capability SINGLE_NODE_MULTI_WRITER",
                mode.as_str_name()
            )));
        }
        // All pods that can reach the one node of this driver share the directory or file, whatever the mode.
        Mode::SingleNodeSingleWriter
        | Mode::SingleNodeMultiWriter
        | Mode::SingleNodeWriter
        | Mode::SingleNodeReaderOnly
        | Mode::MultiNodeReaderOnly
        | Mode::MultiNodeSingleWriter
        | Mode::MultiNodeMultiWriter => {}
    }
    match wanted.access_type {
        Some(AccessType::Block(_)) => Ok(Access::Block),
        Some(AccessType::Mount(_)) => Ok(Access::Mount),
        None => Err(Status::invalid_argument("a volume capability needs an access type, block or mount")),
    }
}

/// The file system it asks for, if it does.
pub(crate) fn file_system(capability: &csi::VolumeCapability) -> Option<&str> {
    match &capability.access_type {
        Some(AccessType::Mount(mount)) => Some(mount.fs_type.as_str()).filter(|name| !name.is_empty()),
        Some(AccessType::Block(_)) | None => None,
    }
}

/// `UNKNOWN` when there is none.
pub(crate) fn mode(capability: &csi::VolumeCapability) -> Mode {
    capability.access_mode.as_ref().map_or(Mode::Unknown, csi::volume_capability::AccessMode::mode)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use csi_proto::csi::v1::volume_capability::{AccessMode, MountVolume};

    use super::*;

    fn mount(mode: Mode) -> csi::VolumeCapability {
        csi::VolumeCapability {
            access_type: Some(AccessType::Mount(MountVolume::default())),
            access_mode: Some(AccessMode { mode: mode.into() }),
        }
    }

    #[test]
    fn single_writer_modes_come_with_their_capability() {
        let capabilities = Capabilities::parse("CONTROLLER_SERVICE,SINGLE_NODE_MULTI_WRITER").unwrap();
        for mode in [Mode::SingleNodeSingleWriter, Mode::SingleNodeMultiWriter] {
            assert_eq!(access(&[mount(mode)], &capabilities).unwrap(), Access::Mount);
        }
    }
}
