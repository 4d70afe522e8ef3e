//! Which resources the API server has.

use std::time::Duration;

use kube::api::ListParams;
use kube::core::Request;
use kube::{Client, Error};
use parking_lot::Mutex;
use serde::Deserialize;
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

/// Whether the API server has a kind at all, as far as the present term knows.
#[derive(Debug)]
pub struct ServedKind {
    api_version: &'static str,
    kind: &'static str,
    asked: bool,
    answer: Mutex<Answer>,
}

/// What the API server has said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    None,
    Served,
    NotServed,
}

impl ServedKind {
    /// Of a group and version. `asked`: whether the answer matters.
    pub fn new(api_version: &'static str, kind: &'static str, asked: bool) -> Self {
        Self { api_version, kind, asked, answer: Mutex::new(Answer::None) }
    }

    /// Asks the API server when a term begins. Only "served" is kept for the terms after it: an API server that lacks the
    /// kind may be upgraded. Without an answer the kind counts as served.
    pub async fn find_out(&self, client: &Client) {
        if !self.asked || *self.answer.lock() == Answer::Served {
            return;
        }
        let Self { api_version, kind, .. } = self;
        let answer = match timeout(PATIENCE, resources(client, api_version)).await {
            Ok(Ok(resources)) if resources.iter().any(|resource| resource.kind == *kind) => Answer::Served,
            Ok(Ok(_)) => {
                info!("the API server has no {kind} in {api_version}: gate {kind} is off until the next term");
                Answer::NotServed
            }
            Ok(Err(error)) => {
                warn!(err = %error, "kinds of {api_version} are not known: gate {kind} stays on");
                Answer::None
            }
            Err(_) => {
                warn!("kinds of {api_version} are not known: gate {kind} stays on");
                Answer::None
            }
        };
        *self.answer.lock() = answer;
    }

    /// False when the API server has said in this term that it does not have the kind.
    pub fn may_be_served(&self) -> bool {
        *self.answer.lock() != Answer::NotServed
    }
}

#[cfg(test)]
mod tests {
    use fake_apiserver::{FakeApiServer, Matcher, Reaction, Status};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn k3_only_that_a_kind_is_served_is_kept_for_the_next_term() {
        let server = FakeApiServer::new();
        let (client, kind) = (server.client(), ServedKind::new("storage.k8s.io/v1", "VolumeAttributesClass", true));
        let serve = |served| server.serve("storage.k8s.io", "v1", "volumeattributesclasses", served);
        assert!(kind.may_be_served(), "not asked yet");
        for term in 1..3 {
            serve(false);
            kind.find_out(&client).await;
            assert!(!kind.may_be_served(), "term {term}");
        }
        server.react(Matcher::any(), Reaction::Refuse(Status::internal_error("etcd")));
        kind.find_out(&client).await;
        assert!(kind.may_be_served(), "no answer");
        server.clear_reactions();
        serve(true);
        kind.find_out(&client).await;
        serve(false);
        server.clear_requests();
        kind.find_out(&client).await;
        assert!(kind.may_be_served() && server.requests().is_empty(), "asked once");
    }
}
