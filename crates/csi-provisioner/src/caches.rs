//! What a term watches.

use std::sync::Arc;
use std::time::Duration;

use controller_runtime::{Informer, Informers};
use storage_kube::names::Interner;

use crate::attachments::Attachments;
use crate::records::volume::VolumeNaming;
use crate::records::{
    ClaimProjection, Claims, ClassProjection, CsiNodeProjection, GrantProjection, NodeProjection, VolumeProjection,
};
use crate::settings::Settings;

/// How often every object is looked at again, as in the Go provisioner's library.
const RESYNC: Duration = Duration::from_mins(15);

/// The caches of one term.
pub(crate) struct Caches {
    pub(crate) claims: Claims,
    pub(crate) classes: Informer<ClassProjection>,
    pub(crate) volumes: Informer<VolumeProjection>,
    pub(crate) attachments: Attachments,
    /// Only where the nodes decide what is asked of the driver.
    pub(crate) nodes: Option<NodeCaches>,
    /// Only with gate `CrossNamespaceVolumeDataSource`. Not waited for: their kind may not be installed.
    pub(crate) grants: Option<Informer<GrantProjection>>,
}

/// The nodes of the cluster and what the driver told the kubelet there.
pub(crate) struct NodeCaches {
    pub(crate) nodes: Informer<NodeProjection>,
    pub(crate) csi_nodes: Informer<CsiNodeProjection>,
}

impl Caches {
    /// Begins to list.
    pub(crate) fn start(settings: &Settings, informers: &Informers) -> Self {
        let names = &settings.names;
        let interner = Arc::new(Interner::new());
        let volumes = VolumeProjection {
            names: names.clone(),
            interner: Arc::clone(&interner),
            place: settings.node.as_ref().and_then(|node| node.place.clone()),
            naming: VolumeNaming::new(&settings.flags.volume_name_prefix, settings.flags.uuid_length),
        };
        let nodes = settings.needs_nodes().then(|| {
            let interner = Arc::new(Interner::new());
            let nodes = NodeProjection { interner: Arc::clone(&interner) };
            let csi_nodes = CsiNodeProjection { driver: names.driver.clone(), interner };
            NodeCaches { nodes: informers.all(nodes, None), csi_nodes: informers.all(csi_nodes, None) }
        });
        Self {
            claims: Claims::new(informers.all(ClaimProjection::new(names.clone()), Some(RESYNC))),
            classes: informers.all(ClassProjection { names: names.clone() }, Some(RESYNC)),
            volumes: informers.all(volumes, Some(RESYNC)),
            attachments: Attachments::start(settings, informers, interner),
            nodes,
            grants: settings.flags.cross_namespace_gate.then(|| informers.all(GrantProjection, None)),
        }
    }

    /// Waits for the first lists.
    pub(crate) async fn synced(&self) {
        tokio::join!(self.claims.synced(), self.classes.synced(), self.volumes.synced(), self.attachments.synced());
        if let Some(NodeCaches { nodes, csi_nodes }) = &self.nodes {
            tokio::join!(nodes.synced(), csi_nodes.synced());
        }
    }
}
