//! One `DeleteVolume` call: what may forbid it, and the Secret it takes along.

use std::collections::HashSet;

use csi_proto::csi::v1::DeleteVolumeRequest;
use storage_kube::credentials::{self, Credentials};
use storage_kube::names::VolumeHandle;
use storage_kube::secret_ref::{self, ClaimValues, SecretKind, SecretRef, TemplateValues};
use storage_kube::uid::Uid;
use tracing::warn;

use crate::attachments;
use crate::error::ReclaimError;
use crate::migration;
use crate::records::VolumeRecord;
use crate::records::volume::{DeletionSecret, VolumeSource};
use crate::still_wanted::while_reclaimable;
use crate::term_context::TermContext;
use crate::volume::unclaimed;

/// Deletes the volume at the driver. An unknown handle is success there (CSI spec, `DeleteVolume`).
pub(crate) async fn delete_volume(term: &TermContext, volume: &VolumeRecord) -> Result<(), ReclaimError> {
    let (handle, stale_attachments) = deletable(term, volume).await?;
    let secrets = match deletion_secret(term, volume)? {
        Some(secret) => fetch_or_go_without(term, volume, &secret).await,
        None => Credentials::default(),
    };
    let request = DeleteVolumeRequest { volume_id: handle.to_string(), secrets: secrets.expose() };
    let migrated = matches!(volume.source, VolumeSource::Migrated(_));
    let driver = term.driver.provided(while_reclaimable(term, volume, stale_attachments)).for_migrated(migrated);
    driver.delete_volume(request).await?;
    Ok(())
}

/// The handle, and the attachments that hold nothing up, unless the volume must not be deleted (now).
async fn deletable<'a>(
    term: &TermContext,
    volume: &'a VolumeRecord,
) -> Result<(&'a VolumeHandle, HashSet<Uid>), ReclaimError> {
    let handle = match &volume.source {
        VolumeSource::Driver(handle) | VolumeSource::Migrated(handle) => handle,
        VolumeSource::Untranslatable(why) => return Err(ReclaimError::Untranslatable(why.clone())),
        VolumeSource::NotCsi => return Err(ReclaimError::NotCsi),
        VolumeSource::OtherDriver(driver) => return Err(ReclaimError::OtherDriver { driver: driver.to_string() }),
    };
    if !term.settings.driver.provisions {
        return Err(ReclaimError::NoDynamicProvisioning { driver: term.settings.names.driver.clone() });
    }
    unclaimed::check(term, volume).await?;
    attachments::known(term).await?;
    Ok((handle, attachments::passed_over(term, volume, handle).await?))
}

/// The volume's own annotations win; without them the class decides, if it is still there.
fn deletion_secret(term: &TermContext, volume: &VolumeRecord) -> Result<Option<SecretRef>, ReclaimError> {
    match &volume.deletion_secret {
        DeletionSecret::Named(secret) => return Ok(Some((**secret).clone())),
        DeletionSecret::None => return Ok(None),
        DeletionSecret::AskClass => {}
    }
    let class_name = volume.class.name();
    if class_name.as_str().is_empty() {
        return Ok(None);
    }
    let Some(class) = term.caches.classes.get(class_name) else {
        warn!(volume = %volume.name, class = %class_name, "StorageClass is gone: the volume is deleted without a Secret");
        return Ok(None);
    };
    let Some(claim) = &volume.claim else {
        warn!(volume = %volume.name, "the volume names no claim: it is deleted without a Secret");
        return Ok(None);
    };
    // The claim itself may be gone, so its annotations are not available to templates here.
    let claim = ClaimValues { namespace: &claim.namespace, name: &claim.name, annotations: None };
    let values = TemplateValues { volume_name: &volume.name.to_string(), claim: Some(claim) };
    let class = migration::csi_class(&term.settings.names, &class)
        .map_err(|source| ReclaimError::Class { class: class.name.to_string(), source })?;
    Ok(secret_ref::resolve(SecretKind::Provisioner, &class.parameters, &values)?)
}

/// A Secret that cannot be read does not keep the volume for ever: the driver may not need it, and says so if it does.
async fn fetch_or_go_without(term: &TermContext, volume: &VolumeRecord, secret: &SecretRef) -> Credentials {
    match credentials::fetch(&term.api, secret).await {
        Ok(credentials) => credentials,
        Err(error) => {
            warn!(volume = %volume.name, err = %error, "the volume is deleted without its Secret");
            Credentials::default()
        }
    }
}
