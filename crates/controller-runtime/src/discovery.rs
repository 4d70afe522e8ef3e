//! Which resources the API server has.

use std::time::Duration;

use kube::api::ListParams;
use kube::core::Request;
use kube::{Client, Error};
use serde::Deserialize;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tracing::{info, warn};

/// One resource of a group and version (meta/v1 `APIResource`).
#[derive(Clone, Debug, Deserialize)]
pub struct ApiResource {
    /// The plural; a subresource has a slash in it.
    pub name: String,
    /// Of its objects.
    pub kind: String,
    #[serde(default)]
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

/// `/apis/GROUP/VERSION`, or `/api/VERSION` for the core group.
pub fn group_path(api_version: &str) -> String {
    let root = if api_version.contains('/') { "apis" } else { "api" };
    format!("/{root}/{api_version}")
}

/// Everything under a group and version; nothing when the API server does not have it.
///
/// # Errors
/// When the API server does not answer, or refuses.
pub async fn resources(client: &Client, api_version: &str) -> Result<Vec<ApiResource>, Error> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        resources: Vec<ApiResource>,
    }
    let request = Request::new(group_path(api_version)).list(&ListParams::default()).map_err(Error::BuildRequest)?;
    match client.request::<List>(request).await {
        Ok(list) => Ok(list.resources),
        Err(Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// How long the API server is given to say which kinds it has. No work waits longer for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether the API server has a kind at all, asked once.
#[derive(Debug)]
pub struct ServedKind {
    api_version: &'static str,
    kind: &'static str,
    asked: bool,
    served: OnceCell<bool>,
}

impl ServedKind {
    /// Of a group and version. `asked`: whether the answer matters.
    pub fn new(api_version: &'static str, kind: &'static str, asked: bool) -> Self {
        Self { api_version, kind, asked, served: OnceCell::new() }
    }

    /// Asks the API server, unless it has answered before. Without an answer the kind counts as served.
    pub async fn find_out(&self, client: &Client) {
        if !self.asked || self.served.initialized() {
            return;
        }
        let Self { api_version, kind, .. } = self;
        match timeout(PATIENCE, resources(client, api_version)).await {
            Ok(Ok(resources)) => {
                let served = resources.iter().any(|resource| resource.kind == *kind);
                if !served {
                    info!("the API server has no {kind} in {api_version}: gate {kind} is off");
                }
                // Terms do not overlap: nobody else sets it.
                let _ = self.served.set(served);
            }
            Ok(Err(error)) => warn!(err = %error, "kinds of {api_version} are not known: gate {kind} stays on"),
            Err(_) => warn!("kinds of {api_version} are not known: gate {kind} stays on"),
        }
    }

    /// False once the API server has said that it does not have the kind.
    pub fn may_be_served(&self) -> bool {
        self.served.get().copied().unwrap_or(true)
    }
}
