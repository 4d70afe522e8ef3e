//! The record of what clients asked.

use serde_json::Value;
use tokio::time::Instant;

/// One request as it arrived, whatever became of it.
#[derive(Clone, Debug)]
pub struct Request {
    /// Kubernetes' word for what is done: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    /// `deletecollection`.
    pub verb: &'static str,
    /// API group; empty for the core group.
    pub group: String,
    /// Plural of the resource.
    pub resource: String,
    /// `status` and the like; empty for the object itself.
    pub subresource: String,
    /// Empty for cluster-scoped objects and for requests over all namespaces.
    pub namespace: String,
    /// Name of the object; of a created one the name in its body, empty when the server is to generate it.
    pub name: String,
    /// The query as sent, still encoded.
    pub query: String,
    /// `Content-Type`, which tells patch forms apart; empty when there is none.
    pub content_type: String,
    /// `Accept`, which asks for metadata alone where it names `PartialObjectMetadata`; empty when there is none.
    pub accept: String,
    /// `User-Agent`; empty when there is none.
    pub user_agent: String,
    /// The body; `null` when there is none or it is not JSON.
    pub body: Value,
    /// When it arrived, on the (possibly paused) clock of the runtime.
    pub at: Instant,
}

impl Request {
    /// `verb resource[/subresource] [namespace/]name`: one line for comparing sequences.
    pub fn summary(&self) -> String {
        let mut line = format!("{} {}", self.verb, self.resource);
        if !self.subresource.is_empty() {
            line = line + "/" + &self.subresource;
        }
        match (self.namespace.is_empty(), self.name.is_empty()) {
            (true, true) => line,
            (true, false) => line + " " + &self.name,
            (false, true) => line + " " + &self.namespace + "/",
            (false, false) => line + " " + &self.namespace + "/" + &self.name,
        }
    }

    /// Whether only the metadata of objects is asked for.
    pub fn is_metadata_only(&self) -> bool {
        self.accept.contains(";as=PartialObjectMetadata")
    }

    /// Whether the request was to change something.
    pub fn is_write(&self) -> bool {
        !matches!(self.verb, "get" | "list" | "watch")
    }
}
