//! Whether a claim names a deleted volume that is Pending or Available.
//!
//! Such a volume may still be in use: when somebody removes `spec.claimRef` from a Bound volume, kube-controller-manager calls
//! the volume Available first (`PersistentVolumeController.syncVolume`) and binds the claim to it again only at the next sync of
//! the claim (`syncBoundClaim`). The caches keep no bound claims, so the API server is asked. That happens only for volumes that
//! somebody deletes before their claims are bound.

use kube::Api;
use kube::api::ListParams;
use storage_kube::wire::{PersistentVolumeClaim, VolumePhase};

use crate::error::ReclaimError;
use crate::records::VolumeRecord;
use crate::term_context::TermContext;

/// Claims per request.
const PAGE: u32 = 500;

/// # Errors
/// A claim names the volume, or that cannot be found out: it must not be deleted.
pub(crate) async fn check(term: &TermContext, volume: &VolumeRecord) -> Result<(), ReclaimError> {
    if matches!(volume.phase, Some(VolumePhase::Bound | VolumePhase::Released | VolumePhase::Failed)) {
        return Ok(());
    }
    let claims: Api<PersistentVolumeClaim> = Api::all(term.api.clone());
    let (own, mut page) = (volume.name.to_string(), ListParams::default().limit(PAGE));
    loop {
        let found = claims.list(&page).await.map_err(|source| ReclaimError::Claims { source: Box::new(source) })?;
        let named = found.items.iter().find(|claim| claim.spec.volume_name.as_deref() == Some(&*own));
        if let Some(claim) = named {
            let (namespace, name) = (&claim.metadata.namespace, &claim.metadata.name);
            return Err(ReclaimError::Claimed {
                volume: own,
                claim: format!("{}/{}", namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default()),
            });
        }
        match found.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(()),
        }
    }
}
