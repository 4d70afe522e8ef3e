//! All writes to PersistentVolume objects.

use controller_runtime::gate_closed;
use csi_translation::volume_to_csi;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Error};
use serde_json::Value;
use storage_kube::names::{ClaimUid, VolumeName};
use storage_kube::uid::Uid;
use storage_kube::wire::{PersistentVolume, VolumeReach};
use thiserror::Error as ThisError;

/// Why a new volume has no object.
#[derive(Debug, ThisError)]
pub(crate) enum SaveError {
    #[error("creating PersistentVolume {volume}: {source}")]
    Create { volume: VolumeName, source: Box<Error> },
    #[error("PersistentVolume {volume} exists and could not be read: {source}")]
    Read { volume: VolumeName, source: Box<Error> },
    #[error(
        "PersistentVolume {volume} exists and is for another claim or backend volume: this volume is saved once that PersistentVolume is gone"
    )]
    Taken { volume: VolumeName },
    #[error(
        "PersistentVolume {volume} exists and is for another claim, which has this backend volume: create this claim anew; with \
         --volume-name-uuid-length, start csi-provisioner with a larger length when no claim is Pending"
    )]
    VolumeOfAnother { volume: VolumeName },
}

impl SaveError {
    /// Whether leadership ended before the write was sent.
    pub(crate) fn is_gate_closed(&self) -> bool {
        match self {
            Self::Create { source, .. } | Self::Read { source, .. } => gate_closed(source),
            Self::Taken { .. } | Self::VolumeOfAnother { .. } => false,
        }
    }
}

/// Creates the object. One that is there already counts as created when it is for this claim and this backend volume:
/// the answer to an earlier try may have been lost.
pub(crate) async fn create(
    client: &Client,
    object: &Value,
    name: &VolumeName,
    claim: &ClaimUid,
    handle: &str,
) -> Result<(), SaveError> {
    let failed = |source: Error| SaveError::Create { volume: name.clone(), source: Box::new(source) };
    let body = serde_json::to_vec(object).map_err(|error| failed(Error::SerdeError(error)))?;
    let request = kube::core::Request::new("/api/v1/persistentvolumes")
        .create(&PostParams::default(), body)
        .map_err(|error| failed(Error::BuildRequest(error)))?;
    match client.request::<PersistentVolume>(request).await {
        Ok(_) => Ok(()),
        Err(Error::Api(status)) if status.reason == "AlreadyExists" => {
            let driver = object.pointer("/spec/csi/driver").and_then(Value::as_str);
            existing(client, name, claim, driver, handle).await
        }
        Err(error) => Err(failed(error)),
    }
}

/// `driver` is that of a CSI volume; one of an in-tree plugin has none.
async fn existing(
    client: &Client,
    name: &VolumeName,
    claim: &ClaimUid,
    driver: Option<&str>,
    handle: &str,
) -> Result<(), SaveError> {
    let api: Api<PersistentVolume> = Api::all(client.clone());
    let found = api
        .get(&name.to_string())
        .await
        .map_err(|source| SaveError::Read { volume: name.clone(), source: Box::new(source) })?;
    let found_handle = match &found.spec.csi {
        Some(csi) => Some(csi.volume_handle.clone()),
        None => volume_to_csi(&found).ok().map(|translated| translated.handle),
    };
    let same_driver = found.spec.csi.as_ref().map(|csi| csi.driver.as_str()) == driver;
    let same_volume = same_driver && found_handle.as_deref() == Some(handle);
    let found_claim = found.spec.claim_ref.and_then(|claim| claim.uid).map(|uid| ClaimUid(Uid::from(uid.as_str())));
    match found_claim {
        Some(found) if found == *claim && same_volume => Ok(()),
        Some(found) if found != *claim && same_volume => Err(SaveError::VolumeOfAnother { volume: name.clone() }),
        _ => Err(SaveError::Taken { volume: name.clone() }),
    }
}

/// Deletes exactly this object; one that is gone, or that was made anew under the name, is no error. What is answered is the
/// volume while finalizers hold it.
pub(crate) async fn delete(client: &Client, name: &VolumeName, uid: &Uid) -> Result<Option<VolumeReach>, Error> {
    let api: Api<VolumeReach> = Api::all(client.clone());
    let preconditions = Preconditions { uid: Some(uid.to_string()), resource_version: None };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api.delete(&name.to_string(), &parameters).await {
        Ok(answer) => Ok(answer.left()),
        Err(error) => unless_gone(&api, name, uid, error).await,
    }
}

/// Sends a finalizer patch of [`storage_kube::finalizers`], which carries the UID. A volume that is gone, or that was made
/// anew under the name, is no error, and nothing is answered of it.
pub(crate) async fn patch_finalizers(
    client: &Client,
    name: &VolumeName,
    uid: &Uid,
    patch: Value,
) -> Result<Option<VolumeReach>, Error> {
    let api: Api<VolumeReach> = Api::all(client.clone());
    match api.patch(&name.to_string(), &PatchParams::default(), &Patch::Strategic(patch)).await {
        Ok(volume) => Ok(Some(volume)),
        Err(error) => unless_gone(&api, name, uid, error).await,
    }
}

/// Whether a refused write has found another volume of the name, or none. The code alone does not tell: another UID is
/// answered 409 to a DELETE and 422 to a patch, and so are writes that an admission webhook refuses.
async fn unless_gone(
    api: &Api<VolumeReach>,
    name: &VolumeName,
    uid: &Uid,
    error: Error,
) -> Result<Option<VolumeReach>, Error> {
    let code = if let Error::Api(status) = &error { status.code } else { 0 };
    let is_gone = match code {
        404 => true,
        409 | 422 => {
            let live = api.get_opt(&name.to_string()).await?;
            live.is_none_or(|live| live.metadata.uid.is_some_and(|live| Uid::from(live.as_str()) != *uid))
        }
        _ => false,
    };
    if is_gone { Ok(None) } else { Err(error) }
}
