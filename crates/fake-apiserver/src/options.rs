//! Options of lists and watches that exclude each other, refused as the API server refuses them.

use crate::{route::Query, status::Status};

const MATCH: &str = "resourceVersionMatch";
const INITIAL: &str = "sendInitialEvents";

/// # Errors
/// 422 for a `resourceVersionMatch` that has nothing to match or is none, and for initial events.
pub(crate) fn check_list(query: &Query) -> Result<(), Status> {
    let matching = query.resource_version_match.as_str();
    if !matching.is_empty() {
        if query.resource_version.is_empty() {
            return Err(forbidden(MATCH, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
        }
        if !query.continue_token.is_empty() {
            return Err(forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
        }
        if !matches!(matching, "Exact" | "NotOlderThan") {
            return Err(unsupported(matching, r#"supported values: "Exact", "NotOlderThan", """#));
        }
        if matching == "Exact" && query.resource_version == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            return Err(forbidden(MATCH, why));
        }
    }
    if query.send_initial_events.is_some() {
        return Err(forbidden(INITIAL, "sendInitialEvents is forbidden for list"));
    }
    Ok(())
}

/// # Errors
/// 422 for initial events without `resourceVersionMatch=NotOlderThan`, or when the server has no watch-list; and for a
/// `resourceVersionMatch` without them.
pub(crate) fn check_watch(query: &Query, watch_list: bool) -> Result<(), Status> {
    let matching = query.resource_version_match.as_str();
    if query.send_initial_events.is_some() {
        if matching != "NotOlderThan" {
            return Err(forbidden(MATCH, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
        }
        if !watch_list {
            let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
            return Err(forbidden(INITIAL, why));
        }
    }
    if !matching.is_empty() && query.send_initial_events.is_none() {
        let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        return Err(forbidden(MATCH, why));
    }
    Ok(())
}

fn forbidden(option: &str, why: &str) -> Status {
    Status::invalid_option(option, &format!("Forbidden: {why}"))
}

fn unsupported(value: &str, supported: &str) -> Status {
    Status::invalid_option(MATCH, &format!("Unsupported value: {value:?}: {supported}"))
}
