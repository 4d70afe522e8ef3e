//! From an HTTP method, path and query to what is asked of which object.

use http::Method;

use crate::{resource::Resource, selector::Selector, status::Status};

/// Where a request goes.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    pub(crate) verb: &'static str,
    pub(crate) resource: Resource,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    pub(crate) query: Query,
}

/// Query parameters of list, watch and write requests; those that change nothing here are left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pub(crate) watch: bool,
    pub(crate) resource_version: String,
    pub(crate) resource_version_match: String,
    pub(crate) limit: usize,
    pub(crate) continue_token: String,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) allow_watch_bookmarks: bool,
    /// None for 0, which stands for the server's own.
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) dry_run: bool,
    pub(crate) selector: Selector,
}

impl Route {
    /// # Errors
    /// 404 for a path outside `/api/v1` and `/apis/GROUP/VERSION`, 405 for a method that fits nothing there, 400
    /// for a query that cannot be read.
    pub(crate) fn parse(method: &Method, path: &str, query: &str) -> Result<Self, Status> {
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Err(Status::no_such_path()),
        };
        let (namespace, plural, name, subresource) = match *rest {
            [] if method == Method::GET => ("", "", "", ""),
            ["namespaces", namespace, plural @ ("status" | "finalize")] => ("", "namespaces", namespace, plural),
            ["namespaces", namespace, plural] => (namespace, plural, "", ""),
            ["namespaces", namespace, plural, name] => (namespace, plural, name, ""),
            ["namespaces", namespace, plural, name, subresource] => (namespace, plural, name, subresource),
            [plural] => ("", plural, "", ""),
            [plural, name] => ("", plural, name, ""),
            [plural, name, subresource] => ("", plural, name, subresource),
            _ => return Err(Status::no_such_path()),
        };
        let query = Query::parse(query)?;
        let verb = match (method, name.is_empty()) {
            // Discovery.
            (&Method::GET, _) if plural.is_empty() => "get",
            (&Method::GET, _) if query.watch => "watch",
            (&Method::GET, true) => "list",
            (&Method::GET, false) => "get",
            (&Method::POST, _) => "create",
            (&Method::PUT, false) => "update",
            (&Method::PATCH, false) => "patch",
            (&Method::DELETE, false) => "delete",
            (&Method::DELETE, true) => "deletecollection",
            _ => return Err(Status::method_not_allowed()),
        };
        Ok(Self {
            verb,
            resource: Resource::new(group, version, plural),
            namespace: decode(namespace),
            name: decode(name),
            subresource: subresource.to_owned(),
            query,
        })
    }
}

impl Query {
    fn parse(query: &str) -> Result<Self, Status> {
        let mut parsed = Self::default();
        let (mut labels, mut fields) = (String::new(), String::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(&value.replace('+', " "));
            match key {
                "watch" => parsed.watch = is_true(&value),
                "resourceVersion" => parsed.resource_version = value,
                "resourceVersionMatch" => parsed.resource_version_match = value,
                "limit" => parsed.limit = number(key, &value)?,
                "continue" => parsed.continue_token = value,
                "sendInitialEvents" => parsed.send_initial_events = Some(is_true(&value)),
                "allowWatchBookmarks" => parsed.allow_watch_bookmarks = is_true(&value),
                "timeoutSeconds" => parsed.timeout_seconds = Some(number(key, &value)?).filter(|seconds| *seconds > 0),
                "dryRun" => parsed.dry_run = true,
                "labelSelector" => labels = value,
                "fieldSelector" => fields = value,
                _ => {}
            }
        }
        parsed.selector = Selector::parse(&labels, &fields)?;
        Ok(parsed)
    }
}

fn is_true(value: &str) -> bool {
    matches!(value, "true" | "1")
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, Status> {
    value.parse().map_err(|_| Status::bad_request(format!("query parameter {key}: {value:?} is not a number")))
}

/// Percent-decoding; a malformed escape stays as it is.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped =
            (byte == b'%').then(|| text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok())).flatten();
        decoded.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
