//! The request to give a volume a class (CSI `ControllerModifyVolume`).

use csi_proto::csi::v1::ControllerModifyVolumeRequest;
use storage_kube::annotations::{MODIFY_SECRET_NAME, MODIFY_SECRET_NAMESPACE};
use storage_kube::credentials;
use storage_kube::secret_ref::SecretRef;

use super::ModifyError;
use crate::expand::request::reference;
use crate::records::{AttributesClassRecord, ClaimRecord};
use crate::term_context::TermContext;
use crate::volume::Volume;

/// Asks for the class. The secret is the one that the volume's annotations name, else the one for growing.
pub(crate) async fn with_secret(
    term: &TermContext,
    claim: &ClaimRecord,
    volume: &Volume,
    class: &AttributesClassRecord,
) -> Result<ControllerModifyVolumeRequest, ModifyError> {
    let csi = volume.object.spec.csi.as_ref().filter(|csi| !csi.volume_handle.is_empty());
    let csi = csi.ok_or_else(|| ModifyError::NoHandle { volume: claim.volume.clone() })?;
    let mut request = ControllerModifyVolumeRequest {
        volume_id: csi.volume_handle.clone(),
        mutable_parameters: class.parameters.clone().into_iter().collect(),
        ..ControllerModifyVolumeRequest::default()
    };
    if term.settings.extra_modify_metadata {
        request.mutable_parameters.extend([
            ("csi.storage.k8s.io/pvc/name".to_owned(), claim.name.to_string()),
            ("csi.storage.k8s.io/pvc/namespace".to_owned(), claim.namespace.to_string()),
            ("csi.storage.k8s.io/pv/name".to_owned(), claim.volume.to_string()),
        ]);
    }
    let annotation = |key: &str| {
        let annotations = volume.object.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(key)).filter(|value| !value.is_empty()).cloned()
    };
    let annotated = annotation(MODIFY_SECRET_NAME).zip(annotation(MODIFY_SECRET_NAMESPACE));
    let annotated = annotated.map(|(name, namespace)| SecretRef { name, namespace });
    let secret = annotated.or_else(|| csi.controller_expand_secret_ref.clone().map(reference));
    if let Some(secret) = secret {
        let content = credentials::fetch(&term.api, &secret).await;
        let content =
            content.map_err(|source| ModifyError::Secret { volume: claim.volume.clone(), source: Box::new(source) })?;
        request.secrets = content.expose();
    }
    Ok(request)
}
