//! What the process watches; kept over terms.

use std::sync::Arc;
use std::time::Duration;

use controller_runtime::{Informer, Subscription, Tasks};
use kube::{Api, Client};
use sidecar::FirstLists;

use crate::kept_volumes::{self, KeptVolumes};
use crate::records::{AttachmentProjection, Interners, NodeProjection, VolumeProjection};
use crate::settings::Settings;

/// The caches of one process.
pub(crate) struct Caches {
    pub(crate) attachments: Informer<AttachmentProjection>,
    /// Empty for a driver that does not publish: nothing of volumes and nodes is read then.
    pub(crate) volumes: Informer<VolumeProjection>,
    /// As `volumes`.
    pub(crate) nodes: Informer<NodeProjection>,
    pub(crate) kept_volumes: Arc<KeptVolumes>,
    pub(crate) interners: Arc<Interners>,
    /// Begun when the first term begins, if not before.
    pub(crate) first_lists: FirstLists,
    _keeping: Vec<Subscription>,
}

impl Caches {
    /// One watch per kind, for the life of the process, from the first term or soon after.
    pub(crate) fn start(settings: &Settings, resync: Option<Duration>, client: &Client, tasks: &Tasks) -> Self {
        let interners = Arc::<Interners>::default();
        let first_lists = FirstLists::default();
        let projection = AttachmentProjection::new(settings, &interners);
        let (attachments, task) = Informer::new(Api::all(client.clone()), projection, resync);
        first_lists.spawn(tasks, "attachments", task.run());
        let projection = VolumeProjection::new(settings, &interners);
        let (volumes, volumes_task) = Informer::new(Api::all(client.clone()), projection, resync);
        let projection = NodeProjection { driver: settings.driver.clone(), interners: Arc::clone(&interners) };
        let (nodes, nodes_task) = Informer::new(Api::all(client.clone()), projection, resync);
        let kept_volumes = Arc::<KeptVolumes>::default();
        let mut keeping = Vec::new();
        if settings.facts.publishes {
            keeping = kept_volumes::keep(&kept_volumes, &attachments, &volumes);
            first_lists.spawn(tasks, "volumes", volumes_task.run());
            first_lists.spawn(tasks, "nodes", nodes_task.run());
        }
        Self { attachments, volumes, nodes, kept_volumes, interners, first_lists, _keeping: keeping }
    }
}
