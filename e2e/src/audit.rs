//! What callers asked of an API server, from its audit log.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Value, json};

/// One request that has been answered. Of a watch, the start of the answer counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Namespace and name of the service account.
    pub caller: (String, String),
    /// `create`, `get`, `list`, `watch`, `update`, `patch`, `delete`.
    pub verb: String,
    /// `persistentvolumes` and the like, with `/status` or another subresource.
    pub resource: String,
    /// Empty for cluster-wide resources.
    pub namespace: String,
    /// Empty for collections.
    pub name: String,
    /// HTTP status of the answer.
    pub code: u16,
    /// Body of a create, update or patch; null where there is none.
    pub body: Value,
}

/// Requests of service accounts when they are answered, bodies only of what they write: Secrets are not among these.
pub(crate) fn policy() -> Value {
    json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy",
        // A watch counts when its answer begins; other requests have no such stage.
        "omitStages": ["RequestReceived", "Panic"],
        "rules": [
            { "level": "Request", "userGroups": ["system:serviceaccounts"], "verbs": ["create", "update", "patch"] },
            { "level": "Metadata", "userGroups": ["system:serviceaccounts"] },
            { "level": "None" },
        ],
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    stage: String,
    verb: String,
    user: User,
    object_ref: Option<ObjectRef>,
    response_status: Option<Status>,
    #[serde(default)]
    request_object: Value,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    code: u16,
}

/// Reads a log, which may still be written.
pub(crate) fn read(path: &Path) -> Result<Vec<Request>> {
    let text = fs::read_to_string(path).with_context(|| format!("no audit log at {}", path.display()))?;
    // A line without its end is still being written.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let mut requests = Vec::new();
    for line in whole.lines() {
        let line: Line = serde_json::from_str(line).with_context(|| format!("audit log line {line}"))?;
        requests.extend(line.request());
    }
    Ok(requests)
}

impl Line {
    /// None for what is no request of a service account for a resource, and for the second line of a watch.
    fn request(self) -> Option<Request> {
        let counts = if self.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
        if self.stage != counts {
            return None;
        }
        let (namespace, name) = self.user.username.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        let object = self.object_ref?;
        let resource = match object.subresource.as_str() {
            "" => object.resource,
            subresource => format!("{}/{subresource}", object.resource),
        };
        Some(Request {
            caller: (namespace.to_owned(), name.to_owned()),
            verb: self.verb,
            resource,
            namespace: object.namespace,
            name: object.name,
            code: self.response_status.unwrap_or_default().code,
            body: self.request_object,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn line(stage: &str, verb: &str, user: &str) -> Option<Request> {
        let line = json!({
            "stage": stage, "verb": verb, "user": { "username": user },
            "objectRef": { "resource": "persistentvolumes", "name": "pv-1", "apiVersion": "v1" },
            "responseStatus": { "metadata": {}, "code": 201 },
            "requestObject": { "kind": "PersistentVolume" },
        });
        serde_json::from_value::<Line>(line).unwrap().request()
    }

    #[test]
    fn each_answered_request_of_a_service_account_is_one() {
        let user = "system:serviceaccount:default:csi-provisioner";
        let request = line("ResponseComplete", "create", user).unwrap();
        assert_eq!(request.caller, ("default".to_owned(), "csi-provisioner".to_owned()));
        assert_eq!((request.resource.as_str(), request.name.as_str()), ("persistentvolumes", "pv-1"));
        assert_eq!((request.code, &request.body["kind"]), (201, &json!("PersistentVolume")));
        assert!(line("ResponseStarted", "watch", user).is_some(), "a watch is told when it begins");
        assert_eq!(line("ResponseComplete", "watch", user), None, "and not again when it ends");
        assert_eq!(line("ResponseComplete", "create", "admin"), None);
    }
}
