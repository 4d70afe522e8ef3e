//! Error answers in the form the API server gives them: a `Status` object whose reason and code agree.

use serde_json::{Value, json};

use crate::resource::Resource;

/// A refused request: what becomes the HTTP status line, the `Retry-After` header and the `Status` body.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// HTTP code, also `code` in the body.
    pub code: u16,
    /// Machine-readable reason (`metav1.StatusReason`), for example `AlreadyExists`.
    pub reason: String,
    /// Text for people.
    pub message: String,
    /// `Status.details`; `null` when there are none.
    pub details: Value,
    /// Seconds for the `Retry-After` header; none when the header is not sent.
    pub retry_after: Option<u32>,
}

impl Status {
    /// A refusal without details.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self { code, reason: reason.to_owned(), message: message.into(), details: Value::Null, retry_after: None }
    }

    /// 403, as RBAC gives it.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, "Forbidden", message)
    }

    /// 429 with `Retry-After`, as priority and fairness gives it.
    pub fn too_many_requests(retry_after: u32) -> Self {
        let mut status = Self::new(429, "TooManyRequests", "too many requests, please try again later");
        status.details = json!({ "retryAfterSeconds": retry_after });
        status.retry_after = Some(retry_after);
        status
    }

    /// 500, as a failing etcd gives it.
    pub fn internal_error(message: impl Into<String>) -> Self {
        Self::new(500, "InternalError", message)
    }

    /// 503.
    pub fn service_unavailable() -> Self {
        Self::new(503, "ServiceUnavailable", "the server is currently unable to handle the request")
    }

    /// The same refusal with a `Retry-After` header of `seconds`.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        Self::about(404, "NotFound", resource, name, format!("{} \"{name}\" not found", resource.qualified_plural()))
    }

    /// The path itself names nothing that is served.
    pub(crate) fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified_plural());
        Self::about(409, "AlreadyExists", resource, name, message)
    }

    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified_plural());
        Self::about(409, "Conflict", resource, name, message)
    }

    pub(crate) fn invalid(resource: &Resource, name: &str, field: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is invalid: {field}: {why}", resource.kind);
        let mut status = Self::about(422, "Invalid", resource, name, message);
        status.details["causes"] = json!([{ "reason": "FieldValueInvalid", "message": why, "field": field }]);
        status
    }

    /// An option of a list or watch that may not be.
    pub(crate) fn invalid_option(option: &str, why: &str) -> Self {
        let mut status = Self::new(422, "Invalid", format!("ListOptions.meta.k8s.io \"\" is invalid: {option}: {why}"));
        status.details = json!({
            "kind": "ListOptions", "group": "meta.k8s.io",
            "causes": [{ "reason": "FieldValueForbidden", "message": why, "field": option }],
        });
        status
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    /// A list at a resourceVersion that has not happened yet.
    pub(crate) fn too_large_version(asked: u64, current: u64) -> Self {
        let mut status =
            Self::new(504, "Timeout", format!("Timeout: Too large resource version: {asked}, current: {current}"));
        status.details = json!({
            "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
            "retryAfterSeconds": 1,
        });
        status.retry_after = Some(1);
        status
    }

    fn about(code: u16, reason: &str, resource: &Resource, name: &str, message: String) -> Self {
        let mut details = json!({ "name": name, "kind": resource.plural });
        if !resource.group.is_empty() {
            details["group"] = json!(resource.group);
        }
        Self { code, reason: reason.to_owned(), message, details, retry_after: None }
    }

    /// The `Status` object as it goes over the wire.
    pub(crate) fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if !self.details.is_null() {
            body["details"] = self.details.clone();
        }
        body
    }
}
