//! What a term watches.

use std::sync::Arc;

use controller_runtime::{Informer, Informers, Subscription};
use storage_kube::names::{NodeName, VolumeName};

use crate::kept_volumes::{self, KeptVolumes};
use crate::records::{AttachmentProjection, Interners, NodeProjection, NodeRecord, VolumeProjection, VolumeRecord};
use crate::settings::Settings;

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

    /// Waits for the first lists.
    pub(crate) async fn synced(&self) {
        self.attachments.synced().await;
        if let Some(PublishedCaches { volumes, nodes }) = &self.published {
            tokio::join!(volumes.synced(), nodes.synced());
        }
    }

    pub(crate) fn volume(&self, name: &VolumeName) -> Option<Arc<VolumeRecord>> {
        self.published.as_ref()?.volumes.get(name)
    }

    pub(crate) fn node(&self, name: &NodeName) -> Option<Arc<NodeRecord>> {
        self.published.as_ref()?.nodes.get(name)
    }
}
