//! What a request of the node service wants, or why it cannot be had. No I/O.

use std::path::{Path, PathBuf};

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::volume_capability::AccessType;
use csi_proto::csi::v1::volume_capability::access_mode::Mode;
use rustix::mount::MountFlags;
use tonic::Status;

use crate::capabilities::Capabilities;
use crate::node::mount_flags;
use crate::state::{Access, VolumeId};
use crate::volume_capability;

/// Volume context key of an inline volume (Kubernetes "CSI ephemeral volumes").
const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";

/// How a volume is to be used, from its capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) access: Access,
    pub(super) single_writer: bool,
    /// The mode allows no writing.
    pub(super) reader: bool,
    pub(super) flags: MountFlags,
}

#[derive(Debug)]
pub(super) struct Publish {
    pub(super) id: VolumeId,
    pub(super) target: PathBuf,
    pub(super) usage: Usage,
    pub(super) readonly: bool,
    pub(super) ephemeral: bool,
}

pub(super) fn volume_id(id: &str) -> Result<VolumeId, Status> {
    given("volume_id", id)?;
    Ok(VolumeId::from(id))
}

/// A path of the request, absolute and not the root.
pub(super) fn path(field: &str, path: &str) -> Result<PathBuf, Status> {
    given(field, path)?;
    if path.contains('\0') || !path.starts_with('/') || Path::new(path).file_name().is_none() {
        return Err(Status::invalid_argument(format!("{field} {path:?} is not an absolute path of a file")));
    }
    Ok(PathBuf::from(path))
}

fn given(field: &str, value: &str) -> Result<(), Status> {
    if value.is_empty() { Err(Status::invalid_argument(format!("{field} is required"))) } else { Ok(()) }
}

pub(super) fn usage(capability: Option<&csi::VolumeCapability>, capabilities: &Capabilities) -> Result<Usage, Status> {
    let capability = capability.ok_or_else(|| Status::invalid_argument("volume_capability is required"))?;
    let access = volume_capability::access(std::slice::from_ref(capability), capabilities)?;
    let mode = volume_capability::mode(capability);
    let names = match &capability.access_type {
        Some(AccessType::Mount(mount)) => mount.mount_flags.as_slice(),
        Some(AccessType::Block(_)) | None => &[],
    };
    let (flags, meaningless) = mount_flags::parse(names);
    if !meaningless.is_empty() {
        tracing::warn!("mount_flags without a meaning for a directory are left out: {}", meaningless.join(", "));
    }
    Ok(Usage {
        access,
        single_writer: mode == Mode::SingleNodeSingleWriter,
        reader: matches!(mode, Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly),
        flags,
    })
}

pub(super) fn publish(request: &csi::NodePublishVolumeRequest, capabilities: &Capabilities) -> Result<Publish, Status> {
    let id = volume_id(&request.volume_id)?;
    let target = path("target_path", &request.target_path)?;
    let usage = usage(request.volume_capability.as_ref(), capabilities)?;
    let ephemeral = request.volume_context.get(EPHEMERAL).is_some_and(|value| value == "true");
    if ephemeral && usage.access == Access::Block {
        return Err(Status::invalid_argument("an ephemeral volume is a mount volume, not a block volume"));
    }
    if ephemeral && !is_file_name(&request.volume_id) {
        let message = "volume_id of an ephemeral volume: letters, digits, '.', '_' and '-' only, no '.' in front";
        return Err(Status::invalid_argument(message));
    }
    let readonly = request.readonly || usage.reader || usage.flags.contains(MountFlags::RDONLY);
    Ok(Publish { id, target, usage, readonly, ephemeral })
}

/// Whether an id of a caller can be the name of a directory. Ids of inline volumes are chosen by the kubelet.
pub(super) fn is_file_name(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !id.is_empty() && id.len() <= 128 && !id.starts_with('.') && id.chars().all(plain)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use csi_proto::csi::v1::volume_capability::{AccessMode, BlockVolume, MountVolume};
    use tonic::Code;

    use super::*;

    fn good() -> csi::NodePublishVolumeRequest {
        let capability = csi::VolumeCapability {
            access_type: Some(AccessType::Mount(MountVolume::default())),
            access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        };
        csi::NodePublishVolumeRequest {
            volume_id: "v".to_owned(),
            target_path: "/pods/a/mount".to_owned(),
            volume_capability: Some(capability),
            ..csi::NodePublishVolumeRequest::default()
        }
    }

    fn ephemeral(request: &mut csi::NodePublishVolumeRequest) {
        request.volume_context.insert(EPHEMERAL.to_owned(), "true".to_owned());
    }

    type Case = (&'static str, fn(&mut csi::NodePublishVolumeRequest), Code);

    #[test]
    fn requests_are_refused_with_the_code_of_the_specification() {
        let cases: &[Case] = &[
            ("good", |_| {}, Code::Ok),
            ("no volume", |r| r.volume_id.clear(), Code::InvalidArgument),
            ("no target", |r| r.target_path.clear(), Code::InvalidArgument),
            ("relative target", |r| r.target_path = "pods/a".to_owned(), Code::InvalidArgument),
            ("root as target", |r| r.target_path = "/".to_owned(), Code::InvalidArgument),
            ("parent as target", |r| r.target_path = "/pods/..".to_owned(), Code::InvalidArgument),
            ("no capability", |r| r.volume_capability = None, Code::InvalidArgument),
            ("ephemeral", ephemeral, Code::Ok),
            (
                "ephemeral with a path as id",
                |r| {
                    ephemeral(r);
                    r.volume_id = "../data".to_owned();
                },
                Code::InvalidArgument,
            ),
            (
                "ephemeral block",
                |r| {
                    ephemeral(r);
                    r.volume_capability.as_mut().unwrap().access_type = Some(AccessType::Block(BlockVolume {}));
                },
                Code::InvalidArgument,
            ),
        ];
        assert_eq!(cases.len(), 10);
        let capabilities = Capabilities::parse("").unwrap();
        for (name, change, code) in cases {
            let mut request = good();
            change(&mut request);
            let result = publish(&request, &capabilities);
            assert_eq!(result.map_or_else(|status| status.code(), |_| Code::Ok), *code, "{name}");
        }
    }

    #[test]
    fn a_volume_is_read_only_by_field_by_mode_and_by_flag() {
        let capabilities = Capabilities::parse("").unwrap();
        let readonly = |change: fn(&mut csi::NodePublishVolumeRequest)| {
            let mut request = good();
            change(&mut request);
            publish(&request, &capabilities).unwrap().readonly
        };
        assert!(!readonly(|_| {}));
        assert!(readonly(|r| r.readonly = true));
        assert!(readonly(|r| {
            let mode = AccessMode { mode: Mode::MultiNodeReaderOnly.into() };
            r.volume_capability.as_mut().unwrap().access_mode = Some(mode);
        }));
        assert!(readonly(|r| {
            let mount = MountVolume { mount_flags: vec!["ro".to_owned()], ..MountVolume::default() };
            r.volume_capability.as_mut().unwrap().access_type = Some(AccessType::Mount(mount));
        }));
    }
}
