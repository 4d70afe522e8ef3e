//! What the process watches; kept over terms.

use std::sync::Arc;
use std::time::Duration;

use controller_runtime::{Informer, InformerError, Tasks};
use kube::{Api, Client};
use sidecar::FirstLists;

use crate::records::{AttributesClassProjection, ClaimProjection, VolumeNoteProjection};
use crate::settings::Settings;

/// The caches of one process.
pub(crate) struct Caches {
    /// Those that have something to do.
    pub(crate) claims: Informer<ClaimProjection>,
    /// Only where classes of attributes are looked at. Not waited for: they may be forbidden, and claims that only ask for
    /// more need none.
    pub(crate) attributes_classes: Option<Informer<AttributesClassProjection>>,
    /// Only with gate `AnnotateFsResize`, and not waited for.
    pub(crate) noted_volumes: Option<Informer<VolumeNoteProjection>>,
    /// Begun when the first term begins, if not before.
    pub(crate) first_lists: FirstLists,
}

impl Caches {
    /// One watch per kind, for the life of the process, from the first term or soon after.
    pub(crate) fn start(settings: &Arc<Settings>, resync: Option<Duration>, client: &Client, tasks: &Tasks) -> Self {
        let first_lists = FirstLists::default();
        let projection = ClaimProjection { settings: Arc::clone(settings) };
        let (claims, task) = Informer::new(Api::all(client.clone()), projection, resync);
        first_lists.spawn(tasks, "claims", task.run());
        let attributes_classes = settings.modifies.then(|| {
            let (classes, task) = Informer::new(Api::all(client.clone()), AttributesClassProjection, None);
            first_lists.spawn(tasks, "attributes classes", task.run());
            classes
        });
        let noted_volumes = (settings.annotates && settings.expands()).then(|| {
            let projection = VolumeNoteProjection::new(settings);
            let (volumes, task) = Informer::new(Api::all(client.clone()), projection, resync);
            first_lists.spawn(tasks, "volumes with a note", task.run());
            volumes
        });
        Self { claims, attributes_classes, noted_volumes, first_lists }
    }

    /// Waits for the first list.
    pub(crate) async fn synced(&self) {
        self.claims.synced().await;
    }

    /// Waits until no claim is older than this call.
    pub(crate) async fn caught_up(&self) -> Result<(), InformerError> {
        self.claims.caught_up().await
    }
}
