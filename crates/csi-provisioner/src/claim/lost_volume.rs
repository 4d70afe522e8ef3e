//! A claim whose volume was deleted before the claim was bound to it.
//!
//! kube-controller-manager binds no claim to a deleted volume (`FindMatchingVolume`), and while the object is there no other
//! volume can have its name. So both wait until somebody deletes the claim: kube-controller-manager then calls the volume
//! Released (`PersistentVolumeController.syncVolume`), and it is reclaimed.

use controller_runtime::EventKind;
use tracing::warn;

use super::claim_reference;
use crate::records::VolumeRecord;
use crate::term_context::TermContext;

/// Says on the claim what it waits for. Where every node has a provisioner, the one of the selected node does.
pub(crate) fn tell(term: &TermContext, volume: &VolumeRecord) {
    let claim = volume.claim_uid().and_then(|claim| term.caches.claims.get(&claim));
    let Some(claim) = claim else { return };
    let node = term.settings.node.as_ref().map(|node| &node.name);
    if node.is_some() && claim.selected_node.as_ref() != node {
        return;
    }
    let text = format!(
        "persistentvolume {} of this claim is being deleted, so the claim cannot be bound to it: delete the claim, which \
         lets the volume go too, and create it again",
        volume.name
    );
    warn!(claim = claim.full_name(), "{text}");
    term.events.record(&claim_reference(&claim), EventKind::Warning, "ProvisioningFailed", text);
}
