//! What must be known before any object can be written: which version of the API there is, and who owns the objects.
//!
//! Asked once, before anything else is started. An API server that does not answer is waited for.

use std::time::Duration;

use kube::{Client, Error};
use sidecar::Exit;
use storage_kube::names::Namespace;
use storage_kube::wire::CsiStorageCapacity;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::managed_by::ManagedBy;
use super::owner::{self, Owner};
use crate::settings::CapacityFlags;
use controller_runtime::{Collection, discovery};

/// The collection of the objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Of the group `storage.k8s.io`.
    pub(crate) version: &'static str,
    pub(crate) namespace: Namespace,
}

impl Place {
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

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetUp {
    pub(crate) place: Place,
    pub(crate) owner: Option<Owner>,
}

/// The one that is there for good, and the one before (Kubernetes 1.21 to 1.26).
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Finds out. `None`: the API server has no CSIStorageCapacity, or the process is to end.
///
/// # Errors
/// Exit 255 when there is no such owner.
pub(crate) async fn set_up(
    client: &Client,
    flags: &CapacityFlags,
    shutdown: &CancellationToken,
) -> Result<Option<SetUp>, Exit> {
    tokio::select! {
        () = shutdown.cancelled() => Ok(None),
        found = found(client, flags) => found,
    }
}

async fn found(client: &Client, flags: &CapacityFlags) -> Result<Option<SetUp>, Exit> {
    let Some(version) = version(client).await else {
        warn!("the API server has no CSIStorageCapacity in storage.k8s.io/v1 or v1beta1: no capacities are published");
        return Ok(None);
    };
    info!(version, "CSIStorageCapacity is in storage.k8s.io");
    let owner = match (flags.owner_level, &flags.pod) {
        (Some(level), Some(pod)) => Some(find_owner(client, &flags.namespace, pod, level).await?),
        _ => None,
    };
    Ok(Some(SetUp { place: Place { version, namespace: flags.namespace.clone() }, owner }))
}

async fn version(client: &Client) -> Option<&'static str> {
    for version in VERSIONS {
        let api_version = format!("storage.k8s.io/{version}");
        let mut patience = Patience::default();
        loop {
            match discovery::resources(client, &api_version).await {
                Ok(resources) if resources.iter().any(|one| one.kind == "CSIStorageCapacity") => return Some(version),
                Ok(_) => break,
                Err(error) if may_pass(&error) => {
                    patience.wait(&format!("asking what {api_version} has: {error}")).await;
                }
                // Discovery is refused: the watch will tell.
                Err(error) => {
                    warn!(err = %error, "what {api_version} has cannot be told, it is taken to have CSIStorageCapacity");
                    return Some(version);
                }
            }
        }
    }
    None
}

async fn find_owner(client: &Client, namespace: &Namespace, pod: &str, level: u32) -> Result<Owner, Exit> {
    let mut patience = Patience::default();
    loop {
        match owner::find(client, namespace, pod, level).await {
            Ok(owner) => {
                info!(?owner, "owner of the CSIStorageCapacity objects");
                return Ok(owner);
            }
            Err(error) if error.api().is_some_and(may_pass) => patience.wait(&error.to_string()).await,
            Err(error) => return Err(Exit::fatal(format!("owner of the CSIStorageCapacity objects: {error}"))),
        }
    }
}

/// Whether the same request may be answered later.
fn may_pass(error: &Error) -> bool {
    match error {
        Error::Api(status) => status.code == 429 || status.code >= 500,
        _ => true,
    }
}

/// Pauses between tries, and what they are told.
#[derive(Default)]
struct Patience {
    tries: u32,
    told: String,
}

/// The longest pause.
const PAUSE: Duration = Duration::from_secs(15);

impl Patience {
    async fn wait(&mut self, text: &str) {
        if self.told != text {
            text.clone_into(&mut self.told);
            warn!("{text}; trying again");
        }
        sleep(PAUSE.min(Duration::from_millis(500) * 2_u32.saturating_pow(self.tries))).await;
        self.tries += 1;
    }
}
