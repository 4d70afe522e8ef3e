//! Which resources the API server has.

use kube::api::ListParams;
use kube::core::Request;
use kube::{Client, Error};
use serde::Deserialize;

/// One resource of a group and version (meta/v1 `APIResource`).
#[derive(Debug, Deserialize)]
pub(crate) struct ApiResource {
    /// The plural; a subresource has a slash in it.
    pub(crate) name: String,
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) namespaced: bool,
}

/// `/apis/GROUP/VERSION`, or `/api/VERSION` for the core group.
pub(crate) fn group_path(api_version: &str) -> String {
    let root = if api_version.contains('/') { "apis" } else { "api" };
    format!("/{root}/{api_version}")
}

/// Everything under a group and version; nothing when the API server does not have it.
pub(crate) async fn resources(client: &Client, api_version: &str) -> Result<Vec<ApiResource>, Error> {
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
