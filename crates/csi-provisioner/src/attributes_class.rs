//! VolumeAttributesClass at creation (KEP-3751): read live, told to the driver as CSI `mutable_parameters`.

use std::collections::BTreeMap;

use controller_runtime::discovery::ServedKind;
use kube::{Api, Client, Error};
use storage_kube::wire::VolumeAttributesClass;
use thiserror::Error as ThisError;

/// Why the attributes of a claim are not known.
#[derive(Debug, ThisError)]
pub(crate) enum AttributesClassError {
    #[error("VolumeAttributesClass \"{class}\" not found: create it, or name another in the claim")]
    Missing { class: String },
    #[error("\"{class}\" is not a possible name of a VolumeAttributesClass: correct the claim")]
    Impossible { class: String },
    #[error(
        "VolumeAttributesClass \"{class}\" may not be read: allow get on volumeattributesclasses in the RBAC rules of csi-provisioner ({reason})"
    )]
    Forbidden { class: String, reason: String },
    #[error(
        "VolumeAttributesClass \"{class}\" could not be read: {source}; this may pass, else see whether the API server is well"
    )]
    Unavailable { class: String, source: Box<Error> },
    #[error(
        "VolumeAttributesClass \"{class}\" is of CSI driver {driver}, and the claim of {own}: name one of the same driver"
    )]
    OtherDriver { class: String, driver: String, own: String },
}

/// The parameters of a class.
pub(crate) async fn fetch(
    client: &Client,
    class: &str,
    own: &str,
) -> Result<BTreeMap<String, String>, AttributesClassError> {
    let name = || class.to_owned();
    if !storage_kube::dns_1123::is_subdomain(class) {
        return Err(AttributesClassError::Impossible { class: name() });
    }
    let api: Api<VolumeAttributesClass> = Api::all(client.clone());
    let found = match api.get_opt(class).await {
        Ok(found) => found.ok_or_else(|| AttributesClassError::Missing { class: name() })?,
        Err(Error::Api(status)) if status.code == 403 => {
            return Err(AttributesClassError::Forbidden { class: name(), reason: status.message.clone() });
        }
        Err(source) => return Err(AttributesClassError::Unavailable { class: name(), source: Box::new(source) }),
    };
    if found.driver_name != own {
        return Err(AttributesClassError::OtherDriver {
            class: name(),
            driver: found.driver_name,
            own: own.to_owned(),
        });
    }
    Ok(found.parameters)
}

/// Whether the API server has the kind. `asked`: the command line leaves the gate alone.
pub(crate) fn kind(asked: bool) -> ServedKind {
    ServedKind::new("storage.k8s.io/v1", "VolumeAttributesClass", asked)
}
