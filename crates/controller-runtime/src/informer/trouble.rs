//! What can go wrong between a watcher and the API server: how it is told, and how the watcher goes on.

use std::error::Error as _;
use std::time::Duration;

use kube::core::Status;
use kube_runtime::utils::Backoff as _;
use kube_runtime::watcher::{DefaultBackoff, Error};

use super::collection::Collection;
use super::guard::IsSetBack;

/// A failure that may last, and the pauses between attempts. It is told once, until it changes or is over.
#[derive(Default)]
pub(super) struct Trouble {
    told: Option<String>,
    /// Refusals since the last time that all was well.
    refusals: u32,
    backoff: DefaultBackoff,
}

/// Refused watches in a row after which the collection is listed again: lists may be allowed where watches are not.
const REFUSALS_BEFORE_LIST: u32 = 2;

impl Trouble {
    /// Whether something was told that is not over.
    pub(super) fn lasts(&self) -> bool {
        self.told.is_some()
    }

    /// Ends the trouble: the watch has yielded an event or stayed open. A completed list is not enough: if every watch after
    /// it failed, lists would repeat without a pause.
    pub(super) fn recovered(&mut self, collection: &Collection) {
        self.refusals = 0;
        if self.told.take().is_some() {
            tracing::info!("{collection} can be watched again");
            self.backoff.reset();
        }
    }

    /// Tells the failure, if it is a new one, and says how long to wait.
    pub(super) fn meets(&mut self, collection: &Collection, error: &Error) -> Duration {
        let text = describe(collection, error);
        if self.told.as_ref() == Some(&text) {
            tracing::debug!("{text}");
        } else {
            tracing::warn!("{text}");
            self.told = Some(text);
        }
        self.refusals += u32::from(is_refusal_of_a_watch(error));
        self.backoff.next().unwrap_or_default()
    }

    /// Whether the watch may resume from its position after `error`. If not, the watcher lists again: the event after the
    /// position may be the one that cannot be read, and resuming would fail on it for ever.
    pub(super) fn keeps_position(&self, error: &Error) -> bool {
        self.refusals < REFUSALS_BEFORE_LIST && is_passing(error)
    }
}

/// 401 (Unauthorized) and 429 (Too Many Requests) do not count: they are not about watches.
fn is_refusal_of_a_watch(error: &Error) -> bool {
    match error {
        Error::WatchStartFailed(kube::Error::Api(status))
        | Error::WatchFailed(kube::Error::Api(status))
        | Error::WatchError(status) => !matches!(status.code, 401 | 429),
        _ => false,
    }
}

fn is_passing(error: &Error) -> bool {
    match error {
        Error::InitialListFailed(_) | Error::NoResourceVersion => true, // the watcher lists again by itself
        Error::WatchError(status) => may_pass(status),
        Error::WatchStartFailed(cause) | Error::WatchFailed(cause) => match cause {
            kube::Error::Api(status) => may_pass(status),
            kube::Error::SerdeError(_) => false,
            other => !is_set_back(other),
        },
    }
}

/// Whether a refusal is about the server or our permissions, and not about the position.
fn may_pass(status: &Status) -> bool {
    let lost =
        matches!(status.reason.as_str(), "Expired" | "Gone") || status.message.contains("Too large resource version");
    !lost && matches!(status.code, 401 | 403 | 408 | 429 | 500..)
}

fn is_set_back(error: &kube::Error) -> bool {
    let mut cause = error.source();
    while let Some(present) = cause {
        if present.is::<IsSetBack>() {
            return true;
        }
        cause = present.source();
    }
    false
}

fn describe(collection: &Collection, error: &Error) -> String {
    let (verb, refusal, text) = match error {
        Error::InitialListFailed(cause) => ("list", refusal(cause), cause.to_string()),
        Error::WatchStartFailed(cause) | Error::WatchFailed(cause) => ("watch", refusal(cause), cause.to_string()),
        Error::WatchError(status) => ("watch", Some(&**status), String::new()),
        Error::NoResourceVersion => ("watch", None, error.to_string()),
    };
    let cause = refusal.map_or(text, |Status { code, reason, message, .. }| {
        format!("the API server answers {code} {reason}: {message}")
    });
    let cure = if refusal.is_some_and(|status| status.code == 403) {
        format!("the ServiceAccount of this process needs the verbs list and watch on {collection}")
    } else {
        "trying again with backoff; what was known before is kept".to_owned()
    };
    format!("cannot {verb} {collection}: {cause}; {cure}")
}

fn refusal(error: &kube::Error) -> Option<&Status> {
    match error {
        kube::Error::Api(status) => Some(status),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, reason: &str, message: &str) -> Error {
        let status = Status::failure(message, reason).with_code(code);
        Error::WatchStartFailed(kube::Error::Api(Box::new(status)))
    }

    #[test]
    fn only_what_may_pass_keeps_the_position() {
        let table = [
            (400, false),
            (401, true),
            (403, true),
            (404, false),
            (406, false),
            (408, true),
            (410, false),
            (422, false),
            (429, true),
            (500, true),
            (501, true),
            (503, true),
            (504, true),
        ];
        for (code, keeps) in table {
            assert_eq!(is_passing(&refused(code, "", "")), keeps, "{code}");
        }
        for lost in [refused(500, "Expired", ""), refused(504, "Timeout", "Too large resource version: 12, current: 3")]
        {
            assert!(!is_passing(&lost), "{lost}");
        }
    }
}
