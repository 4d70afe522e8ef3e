//! When the driver is asked again: what claims and volumes have to do with it is one call each.
//!
//! Asked for twice before it is done, it is done once. Whatever is missed here, the next poll finds.

use csi_proto::csi::v1::Volume;
use storage_kube::names::ClassName;
use storage_kube::topology::Segment;
use storage_kube::wire::VolumeReach;
use tracing::warn;

use super::affinity;
use crate::records::VolumeRecord;
use crate::term_context::TermContext;

/// A volume was made: there is less where it is. Without topology that may be anywhere.
pub(crate) fn volume_made(term: &TermContext, class: &ClassName, volume: &Volume) {
    let Some(capacity) = &term.capacity else { return };
    if !term.settings.topology() || volume.accessible_topology.is_empty() {
        capacity.refresh_class(class);
        return;
    }
    for topology in &volume.accessible_topology {
        capacity.refresh_segment(&Segment::from(topology));
    }
}

/// The driver could not make a volume, or its answer is not known: what is published may be wrong.
pub(crate) fn provisioning_failed(term: &TermContext, class: &ClassName) {
    if let Some(capacity) = &term.capacity {
        capacity.refresh_class(class);
    }
}

/// A volume is gone: there is more where it was. `reach` is what the API server has said of the volume last; without it
/// nobody knows where that was.
pub(crate) fn volume_reclaimed(term: &TermContext, volume: &VolumeRecord, reach: Option<VolumeReach>) {
    let (Some(capacity), Some(reach)) = (&term.capacity, reach) else { return };
    let terms = reach.spec.node_affinity.and_then(|affinity| affinity.required);
    let Some(terms) = terms else { return capacity.refresh_class(volume.class.name()) };
    for term in &terms.node_selector_terms {
        match affinity::segment(term) {
            Ok(segment) => capacity.refresh_segment(&segment),
            Err(error) => {
                warn!(volume = %volume.name, err = %error, "the capacity where the volume was is not asked for before the next poll");
            }
        }
    }
}
