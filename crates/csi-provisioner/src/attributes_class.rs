//! VolumeAttributesClass at creation (KEP-3751): read live, told to the driver as CSI `mutable_parameters`.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::{Api, Client, Error};
use storage_kube::wire::VolumeAttributesClass;
use thiserror::Error as ThisError;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::discovery;

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

/// How long the API server is given to say which kinds it has. No work waits longer for it.
const DISCOVERY: Duration = Duration::from_secs(5);

/// Whether the API server has the kind at all. Asked once, and only if the command line leaves the gate alone.
#[derive(Debug)]
pub(crate) struct Discovery {
    asked: bool,
    served: OnceCell<bool>,
}

impl Discovery {
    /// `asked`: whether the answer matters.
    pub(crate) fn new(asked: bool) -> Self {
        Self { asked, served: OnceCell::new() }
    }

    /// Asks the API server, unless it has answered before. Without an answer the gate stays as it is.
    pub(crate) async fn find_out(&self, client: &Client) {
        if !self.asked || self.served.initialized() {
            return;
        }
        let answer = timeout(DISCOVERY, is_served(client)).await;
        match answer {
            Ok(Ok(served)) => {
                if !served {
                    info!(
                        "the API server has no VolumeAttributesClass in storage.k8s.io/v1: gate VolumeAttributesClass is off"
                    );
                }
                // Terms do not overlap: nobody else sets it.
                let _ = self.served.set(served);
            }
            Ok(Err(error)) => {
                warn!(err = %error, "kinds of storage.k8s.io/v1 are not known: gate VolumeAttributesClass stays on");
            }
            Err(_) => warn!("kinds of storage.k8s.io/v1 are not known: gate VolumeAttributesClass stays on"),
        }
    }

    /// False once the API server has said that it does not have the kind.
    pub(crate) fn may_be_served(&self) -> bool {
        self.served.get().copied().unwrap_or(true)
    }
}

async fn is_served(client: &Client) -> Result<bool, Error> {
    let resources = discovery::resources(client, "storage.k8s.io/v1").await?;
    Ok(resources.iter().any(|resource| resource.kind == "VolumeAttributesClass"))
}
