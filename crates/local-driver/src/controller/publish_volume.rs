//! ControllerPublishVolume, decided: the publication that is wanted, or why it cannot be had. No I/O.

use std::collections::BTreeSet;

use csi_proto::csi::v1 as csi;
use tonic::Status;

use crate::capabilities::{Capabilities, Capability};
use crate::state::{Access, NodeId, Publication, VolumeId};
use crate::volume_capability;

/// Key of the publish context: the node the volume was published to. The node service looks for its own id there.
pub(crate) const PUBLISHED_TO: &str = "local.outrigger.dev/published-to";

/// A publication that is wanted.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) id: VolumeId,
    pub(super) access: Access,
    pub(super) publication: Publication,
}

/// What the request wants; secrets and the volume context are not looked at.
pub(super) fn check(
    request: &csi::ControllerPublishVolumeRequest,
    capabilities: &Capabilities,
) -> Result<Wanted, Status> {
    let id = super::volume_id("volume_id", &request.volume_id)?;
    let node_id = node_id(&request.node_id)?.ok_or_else(|| Status::invalid_argument("node_id is required"))?;
    let Some(capability) = &request.volume_capability else {
        return Err(Status::invalid_argument("volume_capability is required"));
    };
    let access = volume_capability::access(std::slice::from_ref(capability), capabilities)?;
    // CSI "ControllerPublishVolumeRequest.readonly": false unless the plugin has the capability.
    if request.readonly && !capabilities.has(Capability::PublishReadonly) {
        return Err(Status::invalid_argument("readonly needs the capability PUBLISH_READONLY"));
    }
    let access_mode = volume_capability::mode(capability);
    Ok(Wanted { id, access, publication: Publication { node_id, access_mode, readonly: request.readonly } })
}

/// The node the request names, None for an empty id.
pub(super) fn node_id(id: &str) -> Result<Option<NodeId>, Status> {
    // CSI "NodeGetInfoResponse.node_id".
    const LONGEST: usize = 256;
    if id.len() > LONGEST {
        return Err(Status::invalid_argument(format!("node_id is {} bytes long, {LONGEST} are allowed", id.len())));
    }
    Ok((!id.is_empty()).then(|| NodeId::from(id)))
}

/// Refuses a node that is not in the cluster. With no node known besides this one, every node id is taken.
pub(super) fn check_node(node: &NodeId, own: &NodeId, known: &BTreeSet<String>) -> Result<(), Status> {
    if known.is_empty() || node == own || known.contains(&node.to_string()) {
        return Ok(());
    }
    Err(Status::not_found(format!("node {node} is neither this one nor given by --known-node")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use csi_proto::csi::v1::volume_capability::access_mode::Mode;
    use csi_proto::csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};
    use tonic::Code;

    use super::*;

    fn good() -> csi::ControllerPublishVolumeRequest {
        let capability = csi::VolumeCapability {
            access_type: Some(AccessType::Mount(MountVolume::default())),
            access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        };
        csi::ControllerPublishVolumeRequest {
            volume_id: "v".to_owned(),
            node_id: "n".to_owned(),
            volume_capability: Some(capability),
            ..csi::ControllerPublishVolumeRequest::default()
        }
    }

    type Case = (&'static str, fn(&mut csi::ControllerPublishVolumeRequest), Code);

    #[test]
    fn requests_are_refused_with_the_code_of_the_specification() {
        let cases: &[Case] = &[
            ("good", |_| {}, Code::Ok),
            ("no volume", |r| r.volume_id.clear(), Code::InvalidArgument),
            ("no node", |r| r.node_id.clear(), Code::InvalidArgument),
            ("node id too long", |r| r.node_id = "n".repeat(257), Code::InvalidArgument),
            ("no capability", |r| r.volume_capability = None, Code::InvalidArgument),
            ("no access type", |r| r.volume_capability.as_mut().unwrap().access_type = None, Code::InvalidArgument),
            (
                "RWOP without its capability",
                |r| {
                    let mode = AccessMode { mode: Mode::SingleNodeSingleWriter.into() };
                    r.volume_capability.as_mut().unwrap().access_mode = Some(mode);
                },
                Code::InvalidArgument,
            ),
            ("readonly without its capability", |r| r.readonly = true, Code::InvalidArgument),
        ];
        assert_eq!(cases.len(), 8);
        let capabilities = Capabilities::parse("CONTROLLER_SERVICE,PUBLISH_UNPUBLISH_VOLUME").unwrap();
        for (name, change, code) in cases {
            let mut request = good();
            change(&mut request);
            let result = check(&request, &capabilities);
            assert_eq!(result.map_or_else(|status| status.code(), |_| Code::Ok), *code, "{name}");
        }
    }

    #[test]
    fn nodes_are_checked_only_when_some_are_known() {
        let own = NodeId::from("own");
        let known = BTreeSet::from(["other".to_owned()]);
        for node in ["own", "other"] {
            check_node(&NodeId::from(node), &own, &known).unwrap();
        }
        let stranger = NodeId::from("stranger");
        assert_eq!(check_node(&stranger, &own, &known).unwrap_err().code(), Code::NotFound);
        check_node(&stranger, &own, &BTreeSet::new()).unwrap();
    }
}
