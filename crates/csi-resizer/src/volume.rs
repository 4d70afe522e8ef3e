//! The volume of a claim, read live: a claim that has something to do is rare, and a cache of volumes is not.

use kube::Api;
use storage_kube::names::VolumeName;
use storage_kube::wire::PersistentVolume;
use thiserror::Error;

use crate::records::ClaimRecord;
use crate::settings::Settings;
use crate::term_context::TermContext;

/// A volume of this driver that is bound to the claim.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    pub(crate) object: PersistentVolume,
    /// Its source is that of the plugin that the driver replaces.
    pub(crate) is_migrated: bool,
}

/// Why the volume is not known.
#[derive(Debug, Error)]
pub(crate) enum VolumeError {
    #[error("persistentvolume \"{volume}\" not found: the claim names it, so it is either late or lost")]
    Missing { volume: VolumeName },
    #[error("persistentvolume \"{volume}\" could not be read: {source}")]
    Unreadable { volume: VolumeName, source: Box<kube::Error> },
}

/// The claim's volume; `None` when it is of another driver or not bound to this claim.
pub(crate) async fn of_claim(term: &TermContext, claim: &ClaimRecord) -> Result<Option<Volume>, VolumeError> {
    if term.memories.get(&claim.uid).is_foreign {
        return Ok(None);
    }
    let api: Api<PersistentVolume> = Api::all(term.api.clone());
    let volume = || claim.volume.clone();
    let object = match api.get_opt(&claim.volume.to_string()).await {
        Ok(found) => found.ok_or_else(|| VolumeError::Missing { volume: volume() })?,
        Err(source) => return Err(VolumeError::Unreadable { volume: volume(), source: Box::new(source) }),
    };
    let whose = whose(&term.settings, claim, &object);
    if whose == Whose::Others {
        term.memories.change(&claim.uid, |memory| memory.is_foreign = true);
    }
    let is_ours = matches!(whose, Whose::Driver | Whose::Migrated) && is_bound_to(&object, claim);
    Ok(is_ours.then_some(Volume { object, is_migrated: whose == Whose::Migrated }))
}

/// By whom a volume is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    Driver,
    /// By this driver, once the claim says that it was handed over.
    NotMigrated,
    Migrated,
    Others,
}

/// A volume of the plugin that the driver replaces is the driver's when the claim's annotation says so
/// (`volume.kubernetes.io/storage-resizer`, written by kube-controller-manager).
pub(crate) fn whose(settings: &Settings, claim: &ClaimRecord, volume: &PersistentVolume) -> Whose {
    match (&volume.spec.csi, settings.in_tree, volume.spec.in_tree_plugin()) {
        (Some(csi), ..) if csi.driver == settings.driver => Whose::Driver,
        (None, Some(ours), Some(plugin)) if plugin == ours => {
            let annotated = claim.size.resizer.as_deref() == Some(settings.driver.as_str());
            if annotated { Whose::Migrated } else { Whose::NotMigrated }
        }
        _ => Whose::Others,
    }
}

/// Both sides of the binding must agree.
fn is_bound_to(volume: &PersistentVolume, claim: &ClaimRecord) -> bool {
    volume.spec.claim_ref.as_ref().is_some_and(|reference| {
        reference.namespace == *claim.namespace.as_str()
            && reference.uid.as_deref().is_some_and(|uid| uid == claim.uid.to_string())
    })
}
