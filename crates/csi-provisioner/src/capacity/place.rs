//! Where the objects are: their namespace, and the version in which the API server has them.

use std::time::Duration;

use controller_runtime::{Collection, discovery};
use kube::{Client, Error};
use storage_kube::names::Namespace;
use storage_kube::wire::CsiStorageCapacity;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::managed_by::ManagedBy;

/// The collection of the objects, in one term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Of the group `storage.k8s.io`.
    pub(crate) version: &'static str,
    pub(crate) namespace: Namespace,
}

/// The version that stays, and the version before it (Kubernetes 1.21 to 1.26).
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// How long the API server is given to say which version it has. Volumes wait no longer for it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two questions.
const PAUSE: Duration = Duration::from_millis(500);

impl Place {
    /// Asks the API server, at the start of each term: an API server may be upgraded between two terms. `None` when it
    /// has neither version. Without an answer `v1` is taken, whose list then says what is wrong.
    pub(crate) async fn find(client: &Client, namespace: &Namespace) -> Option<Self> {
        let version = timeout(PATIENCE, served_version(client)).await.unwrap_or_else(|_| {
            warn!("the API server does not say in time which version of CSIStorageCapacity it has, v1 is taken");
            Some(VERSIONS[0])
        });
        let Some(version) = version else {
            warn!(
                "the API server has no CSIStorageCapacity in storage.k8s.io/v1 or v1beta1: no capacities are published until the next term"
            );
            return None;
        };
        info!(version, "CSIStorageCapacity is in storage.k8s.io");
        Some(Self { version, namespace: namespace.clone() })
    }

    pub(crate) fn api_version(&self) -> String {
        format!("storage.k8s.io/{}", self.version)
    }

    pub(crate) fn path(&self) -> String {
        format!("/apis/storage.k8s.io/{}/namespaces/{}/csistoragecapacities", self.version, self.namespace)
    }

    /// Those that a provisioner manages.
    pub(crate) fn objects(&self, managed_by: &ManagedBy) -> Collection {
        let all = Collection::of::<CsiStorageCapacity>().in_version(self.version);
        all.in_namespace(self.namespace.as_str()).with_labels(&managed_by.selector())
    }
}

/// Asks until the API server answers. One that refuses to tell is taken to have the version.
async fn served_version(client: &Client) -> Option<&'static str> {
    for version in VERSIONS {
        let api_version = format!("storage.k8s.io/{version}");
        loop {
            match discovery::resources(client, &api_version).await {
                Ok(resources) if resources.iter().any(|one| one.kind == "CSIStorageCapacity") => return Some(version),
                Ok(_) => break,
                Err(Error::Api(status)) if status.code != 429 && status.code < 500 => {
                    warn!(err = %status, "the API server does not say whether {api_version} has CSIStorageCapacity, {api_version} is taken");
                    return Some(version);
                }
                Err(error) => {
                    debug!(err = %error, "the API server is asked again whether {api_version} has CSIStorageCapacity");
                    sleep(PAUSE).await;
                }
            }
        }
    }
    None
}
