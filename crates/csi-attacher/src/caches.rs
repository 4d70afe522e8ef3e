//! What a term watches.

use std::sync::Arc;
use std::time::Duration;

use controller_runtime::{Informer, Informers, Subscription};
use kube::Api;
use kube::api::ListParams;
use storage_kube::names::{NodeName, VolumeName};
use storage_kube::wire::CsiNode;
use tokio::time::sleep;
use tracing::warn;

use crate::kept_volumes::{self, KeptVolumes};
use crate::records::{AttachmentProjection, Interners, NodeProjection, NodeRecord, VolumeProjection, VolumeRecord};
use crate::settings::Settings;

/// How long the first list of the nodes may take before it is asked whether it is forbidden.
const LONG_LIST: Duration = Duration::from_secs(5);

/// The caches of one term.
pub(crate) struct Caches {
    pub(crate) attachments: Informer<AttachmentProjection>,
    /// None for a driver that does not publish: nothing of volumes and nodes is read then.
    pub(crate) published: Option<PublishedCaches>,
    pub(crate) kept_volumes: Arc<KeptVolumes>,
    pub(crate) interners: Arc<Interners>,
    _keeping: Vec<Subscription>,
}

/// Volumes and nodes.
pub(crate) struct PublishedCaches {
    pub(crate) volumes: Informer<VolumeProjection>,
    pub(crate) nodes: Informer<NodeProjection>,
}

impl Caches {
    /// Begins to list.
    pub(crate) fn start(settings: &Settings, informers: &Informers) -> Self {
        let (interners, kept_volumes) = (Arc::<Interners>::default(), Arc::<KeptVolumes>::default());
        let attachments = informers.all(AttachmentProjection::new(settings, &interners), settings.resync);
        let published = settings.facts.publishes.then(|| {
            let nodes = NodeProjection { driver: settings.driver.clone(), interners: Arc::clone(&interners) };
            PublishedCaches {
                volumes: informers.all(VolumeProjection::new(settings, &interners), settings.resync),
                nodes: informers.all(nodes, settings.resync),
            }
        });
        let keeping =
            published.as_ref().map(|published| kept_volumes::keep(&kept_volumes, &attachments, &published.volumes));
        Self { attachments, published, kept_volumes, interners, _keeping: keeping.unwrap_or_default() }
    }

    /// Waits for the first lists. Nodes are not waited for where they cannot be read: what is noted at an attachment is enough to
    /// detach it.
    pub(crate) async fn synced(&self, api: &kube::Client) {
        self.attachments.synced().await;
        if let Some(PublishedCaches { volumes, nodes }) = &self.published {
            let nodes = async {
                tokio::select! {
                    biased;
                    () = nodes.synced() => {}
                    () = nodes_are_forbidden(api) => {}
                }
            };
            tokio::join!(volumes.synced(), nodes);
        }
    }

    /// Whether a node that is not in the cache does not exist.
    pub(crate) fn nodes_are_known(&self) -> bool {
        self.published.as_ref().is_some_and(|published| published.nodes.is_synced())
    }

    pub(crate) fn volume(&self, name: &VolumeName) -> Option<Arc<VolumeRecord>> {
        self.published.as_ref()?.volumes.get(name)
    }

    pub(crate) fn node(&self, name: &NodeName) -> Option<Arc<NodeRecord>> {
        self.published.as_ref()?.nodes.get(name)
    }
}

/// Returns when the API server says that this process must not list the nodes. The informer, which tells nobody, goes on trying.
async fn nodes_are_forbidden(api: &kube::Client) {
    let nodes: Api<CsiNode> = Api::all(api.clone());
    loop {
        sleep(LONG_LIST).await;
        match nodes.list(&ListParams::default().limit(1)).await {
            Err(kube::Error::Api(status)) if status.code == 403 => {
                warn!(
                    err = %status,
                    "CSINodes cannot be read: volumes are detached at the noted node ids, and none is attached until this \
                     ServiceAccount may list and watch csinodes of storage.k8s.io"
                );
                return;
            }
            Ok(_) | Err(_) => {}
        }
    }
}
