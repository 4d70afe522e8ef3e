//! Objects that upstream's RBAC lets us `update` and not `patch`, claims and snapshots: read in full, changed, and put back
//! with their resourceVersion, so that nothing which others write meanwhile is lost.

use kube::api::{GetParams, PostParams};
use kube::core::Request;
use kube::{Client, Error, Resource};
use serde_json::Value;

/// Tries to change an object that others change at the same time.
pub(crate) const TRIES: usize = 5;

/// One object, by where it is.
pub(crate) struct WholeObject<'a> {
    client: &'a Client,
    collection: Request,
    name: &'a str,
}

impl<'a> WholeObject<'a> {
    pub(crate) fn of<K: Resource<DynamicType = ()>>(client: &'a Client, namespace: &str, name: &'a str) -> Self {
        Self { client, collection: Request::new(K::url_path(&(), Some(namespace))), name }
    }

    /// `None` when it is not there.
    pub(crate) async fn read(&self) -> Result<Option<Value>, Error> {
        let request = self.collection.get(self.name, &GetParams::default()).map_err(Error::BuildRequest)?;
        match self.client.request(request).await {
            Ok(object) => Ok(Some(object)),
            Err(Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts it back, and gives what the API server answers: the object again, as text.
    pub(crate) async fn replace(&self, object: &Value) -> Result<String, Error> {
        let body = serde_json::to_vec(object).map_err(Error::SerdeError)?;
        let request = self.collection.replace(self.name, &PostParams::default(), body).map_err(Error::BuildRequest)?;
        self.client.request_text(request).await
    }
}

/// Whether somebody else has changed the object since it was read.
pub(crate) fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 409)
}
