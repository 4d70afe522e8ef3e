//! Who owns the objects: this pod, or the controller so many levels above it. They go when it goes.

use std::time::Duration;

use controller_runtime::discovery::{self, group_path};
use kube::Client;
use kube::api::GetParams;
use kube::core::Request;
use serde::Deserialize;
use serde_json::{Value, json};
use sidecar::Exit;
use storage_kube::names::Namespace;
use storage_kube::uid::Uid;
use thiserror::Error;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::settings::CapacityFlags;

/// An object as owner references name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
}

impl Owner {
    /// The reference, as a controller's (meta/v1 `OwnerReference`).
    pub(crate) fn reference(&self) -> Value {
        json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": true,
        })
    }

    pub(crate) fn uid(&self) -> Uid {
        Uid::from(self.uid.as_str())
    }
}

/// Why there is no owner.
#[derive(Debug, Error)]
pub(crate) enum OwnerError {
    #[error("{kind} {namespace}/{name} cannot be read: {source}; {cure}")]
    Read { kind: String, namespace: Namespace, name: String, source: Box<kube::Error>, cure: &'static str },
    #[error("{kind} of {api_version}, which owns {namespace}/{name}, is not known to the API server")]
    UnknownKind { kind: String, api_version: String, namespace: Namespace, name: String },
    #[error("the resources of {api_version} cannot be listed: {source}")]
    Discovery { api_version: String, source: Box<kube::Error> },
    #[error(
        "{kind} {namespace}/{name} has no controller: lower --capacity-ownerref-level, or set it to -1 for objects without an owner"
    )]
    NoController { kind: String, namespace: Namespace, name: String },
}

impl OwnerError {
    /// Whether the same request may be answered later.
    fn may_pass(&self) -> bool {
        match self {
            Self::Read { source, .. } | Self::Discovery { source, .. } => match &**source {
                kube::Error::Api(status) => status.code == 429 || status.code >= 500,
                _ => true,
            },
            Self::UnknownKind { .. } | Self::NoController { .. } => false,
        }
    }
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    #[serde(default)]
    owner_references: Option<Vec<Reference>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    #[serde(default)]
    controller: Option<bool>,
}

/// Pauses while the API server is out of reach.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// The owner that the flags ask for, if any. An API server that is out of reach is waited for.
///
/// # Errors
/// Exit 255 when there is no such owner, as in the Go provisioner.
pub(crate) async fn await_owner(client: &Client, flags: &CapacityFlags) -> Result<Option<Owner>, Exit> {
    let (Some(level), Some(pod)) = (flags.owner_level, &flags.pod) else { return Ok(None) };
    let (mut pause, mut told) = (FIRST_PAUSE, String::new());
    loop {
        match find(client, &flags.namespace, pod, level).await {
            Ok(owner) => {
                info!(?owner, "owner of the CSIStorageCapacity objects");
                return Ok(Some(owner));
            }
            Err(error) if error.may_pass() => {
                let text = error.to_string();
                if told != text {
                    warn!("owner of the CSIStorageCapacity objects: {text}; trying again");
                    told = text;
                }
            }
            Err(error) => return Err(Exit::fatal(format!("owner of the CSIStorageCapacity objects: {error}"))),
        }
        sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

/// The owner `level` controllers above a pod; 0 is the pod. The last one is not looked at: its child knows it.
pub(crate) async fn find(client: &Client, namespace: &Namespace, pod: &str, level: u32) -> Result<Owner, OwnerError> {
    let mut owner =
        Owner { api_version: "v1".to_owned(), kind: "Pod".to_owned(), name: pod.to_owned(), uid: String::new() };
    let mut object = read(client, namespace, &owner).await?;
    owner.uid.clone_from(&object.metadata.uid);
    for above in 1..=level {
        if above > 1 {
            object = read(client, namespace, &owner).await?;
        }
        let references = object.metadata.owner_references.take().unwrap_or_default();
        let Some(controller) = references.into_iter().find(|one| one.controller == Some(true)) else {
            return Err(OwnerError::NoController { kind: owner.kind, namespace: namespace.clone(), name: owner.name });
        };
        let Reference { api_version, kind, name, uid, .. } = controller;
        owner = Owner { api_version, kind, name, uid };
    }
    Ok(owner)
}

async fn read(client: &Client, namespace: &Namespace, owner: &Owner) -> Result<Object, OwnerError> {
    let path = path(client, namespace, owner).await?;
    let cure = if owner.kind == "Pod" {
        "NAMESPACE and POD_NAME must name this pod, and its service account needs get of pods"
    } else {
        "the service account of this pod needs get of it, or --capacity-ownerref-level must be lower"
    };
    let failed = |source: kube::Error| OwnerError::Read {
        kind: owner.kind.clone(),
        namespace: namespace.clone(),
        name: owner.name.clone(),
        source: Box::new(source),
        cure,
    };
    let request = Request::new(path).get(&owner.name, &GetParams::default());
    client.request(request.map_err(|error| failed(kube::Error::BuildRequest(error)))?).await.map_err(failed)
}

/// The collection that the owner is in.
async fn path(client: &Client, namespace: &Namespace, owner: &Owner) -> Result<String, OwnerError> {
    if owner.api_version == "v1" && owner.kind == "Pod" {
        return Ok(format!("/api/v1/namespaces/{namespace}/pods"));
    }
    let resources = discovery::resources(client, &owner.api_version)
        .await
        .map_err(|source| OwnerError::Discovery { api_version: owner.api_version.clone(), source: Box::new(source) })?;
    let Some(resource) = resources.into_iter().find(|one| one.kind == owner.kind && !one.name.contains('/')) else {
        return Err(OwnerError::UnknownKind {
            kind: owner.kind.clone(),
            api_version: owner.api_version.clone(),
            namespace: namespace.clone(),
            name: owner.name.clone(),
        });
    };
    let group = group_path(&owner.api_version);
    let plural = resource.name;
    Ok(if resource.namespaced {
        format!("{group}/namespaces/{namespace}/{plural}")
    } else {
        format!("{group}/{plural}")
    })
}
