//! Volume and size → what is asked of the driver. Pure, but for the Secret.

use csi_proto::csi::v1::{CapacityRange, ControllerExpandVolumeRequest};
use csi_translation::volume_to_csi;
use storage_kube::credentials;
use storage_kube::secret_ref::SecretRef;
use storage_kube::volume_capability::{AccessType, volume_capability};
use storage_kube::volume_mode::VolumeMode;
use storage_kube::wire::SecretReference;
use storage_kube::{access_mode, quantity};
use thiserror::Error;

use crate::settings::Settings;
use crate::term_context::TermContext;
use crate::volume::Volume;

/// Why nothing can be asked of the driver.
#[derive(Debug, Error)]
pub(crate) enum RequestError {
    #[error("{0}")]
    Translation(Box<csi_translation::Error>),
    #[error("empty volume handle")]
    NoHandle,
    #[error("failed to get capabilities of volume: {0}")]
    Capability(#[from] access_mode::Error),
    #[error(transparent)]
    Size(#[from] quantity::Error),
    #[error("failed to get secret: {0}")]
    Secret(Box<credentials::Error>),
}

/// The request, and the Secret to be read for it.
pub(crate) fn request(
    settings: &Settings,
    volume: &Volume,
    size: &str,
) -> Result<(ControllerExpandVolumeRequest, Option<SecretRef>), RequestError> {
    let spec = &volume.object.spec;
    let (handle, fs_type, secret, modes) = if let Some(csi) = &spec.csi {
        let fs_type = csi.fs_type.clone().unwrap_or_default();
        (csi.volume_handle.clone(), fs_type, csi.controller_expand_secret_ref.clone(), spec.access_modes.clone())
    } else {
        let csi = volume_to_csi(&volume.object).map_err(|error| RequestError::Translation(Box::new(error)))?;
        (csi.handle, csi.fs_type, csi.secrets.controller_expand, csi.access_modes)
    };
    if handle.is_empty() {
        return Err(RequestError::NoHandle);
    }
    let access = if spec.volume_mode == Some(VolumeMode::Block) {
        AccessType::Block
    } else {
        AccessType::Mount { fs_type: &fs_type, mount_flags: &spec.mount_options }
    };
    let request = ControllerExpandVolumeRequest {
        volume_id: handle,
        capacity_range: Some(CapacityRange { required_bytes: quantity::bytes(size)?, limit_bytes: 0 }),
        volume_capability: Some(volume_capability(&modes, settings.facts.access_modes, access)?),
        ..ControllerExpandVolumeRequest::default()
    };
    Ok((request, secret.map(reference)))
}

/// The same with the content of the Secret.
pub(crate) async fn with_secret(
    term: &TermContext,
    volume: &Volume,
    size: &str,
) -> Result<ControllerExpandVolumeRequest, RequestError> {
    let (mut request, secret) = request(&term.settings, volume, size)?;
    if let Some(secret) = secret {
        let content = credentials::fetch(&term.api, &secret).await;
        request.secrets = content.map_err(|error| RequestError::Secret(Box::new(error)))?.expose();
    }
    Ok(request)
}

pub(crate) fn reference(secret: SecretReference) -> SecretRef {
    SecretRef { name: secret.name, namespace: secret.namespace }
}
