//! What can go wrong between an informer and the API server, and what the informer does about it.

use std::time::Duration;

use kube::core::Status;

/// One failed step. Whoever says it knows which kind it was about.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("the API server answers {code} {reason}: {message}")]
    Refused {
        code: u16,
        reason: String,
        message: String,
        /// From the server: not sooner than this.
        retry_after: Option<Duration>,
    },
    #[error("the request cannot be built: {0}")]
    Request(#[source] kube::core::request::Error),
    #[error("the API server cannot be reached: {0}")]
    Transport(#[source] kube::Error),
    #[error("no answer within {0:?}")]
    NoAnswer(Duration),
    #[error("the answer broke off: {0}")]
    BrokenOff(#[source] kube::Error),
    #[error("nothing came, not even a bookmark, for {0:?}")]
    Silence(Duration),
    #[error("the watch ended before the list it began with was complete")]
    Incomplete,
    #[error("the answer is not a list: {0}")]
    NotAList(#[source] serde_json::Error),
    #[error("the list is larger than {0} bytes a page")]
    PageTooLarge(usize),
    #[error("a line of the watch is not an event: {cause}")]
    NotAnEvent { cause: String },
    #[error("a line of the watch is longer than {0} bytes")]
    LineTooLong(usize),
    #[error("resourceVersion {version:?} is not a number, which the API server's own storage always makes it")]
    OpaqueVersion { version: String },
    #[error("the API server lists version {listed} after {wanted} was seen; it may have been restored from a backup")]
    Stale { listed: u64, wanted: u64 },
}

impl Failure {
    /// `header` is what the answer's `Retry-After` says; the flow control of the API server fills nothing else.
    pub(super) fn refused(status: Status, header: Option<Duration>) -> Self {
        let details = status.details.as_ref().map(|details| Duration::from_secs(details.retry_after_seconds.into()));
        Self::Refused {
            retry_after: details.max(header).filter(|pause| !pause.is_zero()),
            code: status.code,
            reason: status.reason,
            message: status.message,
        }
    }

    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code: 403, .. })
    }

    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The position is unknown to the server: compacted, or ahead of a server that was set back.
    pub(super) fn is_lost_position(&self) -> bool {
        match self {
            Self::Refused { code: 410, .. } => true,
            Self::Refused { code: 504, message, .. } => message.contains("Too large resource version"),
            Self::Refused { reason, .. } => reason == "Expired" || reason == "Gone",
            _ => false,
        }
    }
}

/// What the informer was doing when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// A watch that begins with the list (`sendInitialEvents`).
    WatchList,
    /// A list in pages.
    List,
    /// A watch from a known position.
    Watch,
}

/// How the informer goes on after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recovery {
    /// Watch again from the same position.
    Resume,
    /// Compare with the server from scratch.
    Relist,
    /// The server may not know watch-lists: try a list in pages.
    ListInPages,
}

/// Incomplete watch-lists in a row after which pages are tried.
const INCOMPLETE_LIMIT: u32 = 2;

/// Decides how to go on. `incomplete` counts the watch-lists in a row, this one included, that ended without an error
/// before their end was marked.
pub(super) fn recovery(doing: Doing, failure: &Failure, incomplete: u32) -> Recovery {
    match (doing, failure) {
        (Doing::WatchList, Failure::Refused { code: 400 | 403 | 405 | 415 | 422, .. }) => Recovery::ListInPages,
        (Doing::WatchList, Failure::Incomplete | Failure::Silence(_)) if incomplete >= INCOMPLETE_LIMIT => {
            Recovery::ListInPages
        }
        (Doing::WatchList | Doing::List, _) => Recovery::Relist,
        (Doing::Watch, lost) if lost.is_lost_position() => Recovery::Relist,
        (Doing::Watch, failure) => match failure {
            // Passing troubles, of the server or of our permissions, after which the position is still good.
            Failure::Refused { code: 401 | 403 | 408 | 429 | 500.., .. }
            | Failure::Transport(_)
            | Failure::NoAnswer(_)
            | Failure::BrokenOff(_)
            | Failure::Silence(_)
            | Failure::Incomplete => Recovery::Resume,
            // What cannot be read now may be what came after the position: going on from it could end here for ever.
            Failure::Refused { .. }
            | Failure::Request(_)
            | Failure::NotAList(_)
            | Failure::PageTooLarge(_)
            | Failure::NotAnEvent { .. }
            | Failure::LineTooLong(_)
            | Failure::OpaqueVersion { .. }
            | Failure::Stale { .. } => Recovery::Relist,
        },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn refused(code: u16) -> Failure {
        Failure::Refused { code, reason: String::new(), message: String::new(), retry_after: None }
    }

    #[test]
    fn every_refusal_has_a_way_on() {
        use Recovery::{ListInPages, Relist, Resume};
        let table = [
            // code, during a watch-list, a list, a watch
            (400, ListInPages, Relist, Relist),
            (401, Relist, Relist, Resume),
            (403, ListInPages, Relist, Resume),
            (404, Relist, Relist, Relist),
            (405, ListInPages, Relist, Relist),
            (410, Relist, Relist, Relist),
            (415, ListInPages, Relist, Relist),
            (422, ListInPages, Relist, Relist),
            (429, Relist, Relist, Resume),
            (500, Relist, Relist, Resume),
            (503, Relist, Relist, Resume),
            (504, Relist, Relist, Resume),
        ];
        for (code, watch_list, list, watch) in table {
            let after = |doing| recovery(doing, &refused(code), 1);
            assert_eq!(
                (after(Doing::WatchList), after(Doing::List), after(Doing::Watch)),
                (watch_list, list, watch),
                "{code}"
            );
        }
    }

    #[test]
    fn a_position_the_server_does_not_know_is_given_up() {
        let with = |code, reason: &str, message: &str| Failure::Refused {
            code,
            reason: reason.to_owned(),
            message: message.to_owned(),
            retry_after: None,
        };
        for failure in [
            with(410, "", ""),
            with(500, "Expired", ""),
            with(504, "Timeout", "Too large resource version: 12, current: 3"),
        ] {
            assert_eq!(recovery(Doing::Watch, &failure, 0), Recovery::Relist, "{failure}");
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_not_run_into_again() {
        let failure = Failure::NotAnEvent { cause: String::new() };
        assert_eq!(recovery(Doing::Watch, &failure, 0), Recovery::Relist);
    }

    #[test]
    fn a_server_that_never_ends_its_watch_list_is_asked_for_pages() {
        for failure in [Failure::Incomplete, Failure::Silence(Duration::ZERO)] {
            assert_eq!(recovery(Doing::WatchList, &failure, 1), Recovery::Relist);
            assert_eq!(recovery(Doing::WatchList, &failure, 2), Recovery::ListInPages);
        }
        assert_eq!(recovery(Doing::WatchList, &Failure::NoAnswer(Duration::ZERO), 9), Recovery::Relist);
    }
}
