//! Attachments of a driver that does not attach, which perhaps nobody will ever take away.
//!
//! kube-controller-manager creates an attachment where the CSIDriver object has `attachRequired`, and takes it away when
//! the node has let go of the volume. It leaves alone what somebody else made under another name, and, once restarted, what
//! was made before `attachRequired` was set to false (`attachDetachController.processVolumeAttachments` skips what has no
//! attacher by `csiPlugin.skipAttach`). At such a driver an attachment stands for nothing but the node's use of the volume,
//! and of that the Node object tells more:
//!
//! - `status.volumesInUse`: kubelet has the volume mounted, or is about to mount it (`volumeManager.GetVolumesInUse`). The
//!   attach-detach controller does not detach before it is off this list, unless the node is lost (`reconciler.reconcile`).
//! - `status.volumesAttached`: the attach-detach controller still has to take the attachment away
//!   (`actualStateOfWorld.GetVolumesToReportAttached`; `reconciler.reconcile` takes the volume off this list first).
//!
//! An attachment whose node is gone, or has the volume on neither list, holds nothing up.

use std::collections::HashSet;

use kube::api::GetParams;
use kube::core::Request;
use kube::{Client, Error};
use serde::Deserialize;
use storage_kube::names::{NodeName, VolumeHandle};
use storage_kube::uid::Uid;
use tracing::warn;

use crate::error::ReclaimError;
use crate::records::VolumeRecord;
use crate::term_context::TermContext;

/// Whether a node still has to do with a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeUse {
    /// Kubelet uses the volume, or the attach-detach controller has it down as attached.
    InUse,
    /// The node is there and has let go of the volume.
    LetGo,
    NodeGone,
    /// Nodes may not be read.
    Forbidden,
}

impl NodeUse {
    /// Why an attachment to the node is stale. Where nodes may not be read the Go provisioner would not have waited at all.
    fn why_stale(self) -> Option<&'static str> {
        match self {
            Self::InUse => None,
            Self::LetGo => Some("the node does not use the volume"),
            Self::NodeGone => Some("the node is gone"),
            Self::Forbidden => {
                Some("nodes cannot be read to see whether it is in use: allow this ServiceAccount to get nodes")
            }
        }
    }
}

/// Those of the volume's attachments that hold nothing up.
///
/// # Errors
/// A node could not be read: nothing may be deleted then.
pub(super) async fn stale(
    term: &TermContext,
    volume: &VolumeRecord,
    handle: &VolumeHandle,
    attachments: &[(Uid, NodeName)],
) -> Result<HashSet<Uid>, ReclaimError> {
    let unique_name = unique_name(&term.settings.names.driver, handle);
    let mut stale = HashSet::new();
    for (attachment, node) in attachments {
        let node_use = node_use(&term.api, node, &unique_name)
            .await
            .map_err(|source| ReclaimError::NodeOfAttachment { node: node.to_string(), source: Box::new(source) })?;
        if let Some(why) = node_use.why_stale() {
            warn!(
                volume = %volume.name, node = %node, attachment_uid = %attachment,
                "the volume will be deleted although a VolumeAttachment names it, which should be deleted too: {why}"
            );
            stale.insert(attachment.clone());
        }
    }
    Ok(stale)
}

/// The volume as the lists of a Node name it (Kubernetes `util.GetUniqueVolumeName` of `csiPlugin.GetVolumeName`).
fn unique_name(driver: &str, handle: &VolumeHandle) -> String {
    format!("kubernetes.io/csi/{driver}^{handle}")
}

async fn node_use(client: &Client, node: &NodeName, unique_name: &str) -> Result<NodeUse, Error> {
    let request = Request::new("/api/v1/nodes").get(node.as_str(), &GetParams::default());
    match client.request::<NodeVolumes>(request.map_err(Error::BuildRequest)?).await {
        Ok(node) if node.has(unique_name) => Ok(NodeUse::InUse),
        Ok(_) => Ok(NodeUse::LetGo),
        // Not a 404 that a proxy gives.
        Err(Error::Api(status)) if status.code == 404 && status.reason == "NotFound" => Ok(NodeUse::NodeGone),
        Err(Error::Api(status)) if status.code == 403 => Ok(NodeUse::Forbidden),
        Err(error) => Err(error),
    }
}

/// The volumes of a `Node`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeVolumes {
    status: Lists,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Lists {
    volumes_in_use: Vec<String>,
    volumes_attached: Vec<Attached>,
}

#[derive(Deserialize)]
struct Attached {
    name: String,
}

impl NodeVolumes {
    fn has(&self, volume: &str) -> bool {
        let in_use = self.status.volumes_in_use.iter().any(|used| used == volume);
        in_use || self.status.volumes_attached.iter().any(|attached| attached.name == volume)
    }
}
