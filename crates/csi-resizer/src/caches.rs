//! What a term watches.

use std::sync::Arc;

use controller_runtime::{Informer, Informers};

use crate::records::{AttributesClassProjection, ClaimProjection, VolumeNoteProjection};
use crate::settings::Settings;

/// The caches of one term.
pub(crate) struct Caches {
    /// Those that have something to do.
    pub(crate) claims: Informer<ClaimProjection>,
    /// Only where classes of attributes are looked at. Not waited for: they may be forbidden, and claims that only ask for
    /// more need none.
    pub(crate) attributes_classes: Option<Informer<AttributesClassProjection>>,
    /// Only with gate `AnnotateFsResize`, and not waited for.
    pub(crate) noted_volumes: Option<Informer<VolumeNoteProjection>>,
}

impl Caches {
    /// Begins to list.
    pub(crate) fn start(settings: &Arc<Settings>, informers: &Informers) -> Self {
        let claims = informers.all(ClaimProjection { settings: Arc::clone(settings) }, settings.resync);
        let attributes_classes = settings.modifies.then(|| informers.all(AttributesClassProjection, None));
        let notes = settings.annotates && settings.expands();
        let noted_volumes = notes.then(|| informers.all(VolumeNoteProjection::new(settings), settings.resync));
        Self { claims, attributes_classes, noted_volumes }
    }
}
