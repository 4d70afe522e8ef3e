//! Volume and settings → what is asked of the driver. Pure.

use csi_proto::csi::v1::ControllerPublishVolumeRequest;
use storage_kube::volume_capability::{AccessType, volume_capability};

use crate::error::AttachmentError;
use crate::records::VolumeRecord;
use crate::settings::Settings;
use crate::source;

/// The request to publish the volume, without node and secrets, or what in the volume forbids it.
pub(crate) fn publish(
    settings: &Settings,
    volume: &VolumeRecord,
) -> Result<ControllerPublishVolumeRequest, AttachmentError> {
    let shape = &volume.shape;
    let handle = source::handle(volume)?;
    let fs_type = if shape.fs_type.is_empty() { &settings.default_fs_type } else { &shape.fs_type };
    let access =
        if shape.block { AccessType::Block } else { AccessType::Mount { fs_type, mount_flags: &shape.mount_options } };
    let capability = volume_capability(&shape.access_modes, settings.facts.access_modes, access)?;
    Ok(ControllerPublishVolumeRequest {
        volume_id: handle.to_string(),
        volume_capability: Some(capability),
        readonly: shape.read_only && settings.facts.publishes_readonly,
        volume_context: volume.attributes.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        ..ControllerPublishVolumeRequest::default()
    })
}
