//! What a request asks for, read from its method and path.

use http::{Method, request::Parts};

/// A request in the words of the API server's authorizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: &'static str,
    /// `persistentvolumes` and the like, with `/status` or another subresource; empty for what is no resource.
    pub resource: String,
    /// Empty for cluster-wide resources.
    pub namespace: String,
    /// Empty for collections.
    pub name: String,
    /// A watch that begins with all objects.
    pub watch_list: bool,
}

impl Request {
    pub(super) fn of(parts: &Parts) -> Self {
        let query = parts.uri.query().unwrap_or_default();
        let has = |wanted: &str| query.split('&').any(|pair| pair == wanted);
        let mut path = parts.uri.path().trim_matches('/').split('/');
        // `api/VERSION` or `apis/GROUP/VERSION` come before the resource.
        let skipped = match path.next() {
            Some("api") => 1,
            Some("apis") => 2,
            _ => return Self { verb: "get", ..Self::default() },
        };
        let path: Vec<&str> = path.skip(skipped).collect();
        let (namespace, path) = match path.as_slice() {
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
            path => ("", path),
        };
        let (resource, name, subresource) = match path {
            [] => ("", "", ""),
            [resource] => (*resource, "", ""),
            [resource, name] => (*resource, *name, ""),
            [resource, name, subresource, ..] => (*resource, *name, *subresource),
        };
        let watch = has("watch=true") || has("watch=1");
        Self {
            verb: match parts.method {
                Method::POST => "create",
                Method::PUT => "update",
                Method::PATCH => "patch",
                Method::DELETE => "delete",
                _ if watch => "watch",
                _ if name.is_empty() => "list",
                _ => "get",
            },
            resource: if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") },
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            watch_list: watch && has("sendInitialEvents=true"),
        }
    }

    /// Whether it changes anything.
    pub fn writes(&self) -> bool {
        ["create", "update", "patch", "delete"].contains(&self.verb)
    }

    pub(super) fn writes_lease(&self) -> bool {
        self.writes() && self.resource == "leases"
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn method_and_path_give_verb_and_object() {
        let cases = [
            ("GET", "/api/v1/persistentvolumes?limit=1", "list persistentvolumes  "),
            ("GET", "/api/v1/persistentvolumes?watch=true&timeoutSeconds=9", "watch persistentvolumes  "),
            ("GET", "/api/v1/persistentvolumes?watch=true&sendInitialEvents=true", "watch persistentvolumes  all"),
            ("POST", "/api/v1/persistentvolumes", "create persistentvolumes  "),
            ("PATCH", "/api/v1/persistentvolumes/pv-1", "patch persistentvolumes  pv-1"),
            ("GET", "/api/v1/namespaces/ns/secrets/key", "get secrets ns key"),
            ("PUT", "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l", "update leases ns l"),
            ("DELETE", "/api/v1/namespaces/ns/persistentvolumeclaims/c", "delete persistentvolumeclaims ns c"),
            (
                "PATCH",
                "/api/v1/namespaces/ns/persistentvolumeclaims/c/status",
                "patch persistentvolumeclaims/status ns c",
            ),
            ("GET", "/api/v1/namespaces/ns", "get namespaces  ns"),
            ("GET", "/readyz", "get   "),
        ];
        for (method, path, want) in cases {
            let (parts, ()) = http::Request::builder().method(method).uri(path).body(()).unwrap().into_parts();
            let Request { verb, resource, namespace, name, watch_list } = Request::of(&parts);
            let all = if watch_list { "all" } else { "" };
            assert_eq!(format!("{verb} {resource} {namespace} {name}{all}"), want, "{method} {path}");
        }
    }
}
