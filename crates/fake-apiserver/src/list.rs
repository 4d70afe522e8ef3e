//! Lists: pages of one consistent state of a collection.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{object, route::Route, status::Status, store::Store};

/// # Errors
/// 410 when the state asked for was compacted, 504 when it is in the future, 400 for a broken token.
pub(crate) fn list(store: &Store, route: &Route) -> Result<Value, Status> {
    let query = &route.query;
    let (revision, after) = match query.continue_token.as_str() {
        "" => (wanted_revision(store, route)?, None),
        token => {
            let token = read_token(token).ok_or_else(|| Status::bad_request("continue key is not valid"))?;
            (token.0, Some((token.1, token.2)))
        }
    };
    if revision < store.compacted() {
        return Err(Status::expired("The provided continue parameter is too old to display a consistent list result."));
    }
    let objects = if revision == store.revision() {
        store.objects(&route.resource, &route.namespace)
    } else {
        store.objects_at(&route.resource, &route.namespace, revision)
    };
    let mut rest: Vec<Arc<Value>> = objects
        .into_iter()
        .filter(|object| after.as_ref().is_none_or(|after| key(object) > (after.0.as_str(), after.1.as_str())))
        .filter(|object| query.selector.matches(object))
        .collect();
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    if query.limit > 0 && rest.len() > query.limit {
        metadata["remainingItemCount"] = json!(rest.len() - query.limit);
        rest.truncate(query.limit);
        if let Some(last) = rest.last() {
            metadata["continue"] = json!(format!("{revision}/{}/{}", object::namespace(last), object::name(last)));
        }
    }
    Ok(json!({
        "kind": format!("{}List", route.resource.kind),
        "apiVersion": route.resource.api_version(),
        "metadata": metadata,
        "items": rest.iter().map(|object| without_type(object)).collect::<Vec<_>>(),
    }))
}

fn key(object: &Value) -> (&str, &str) {
    (object::namespace(object), object::name(object))
}

/// `resourceVersion` of a first page: absent or "0" is the latest, else a minimum unless the match is `Exact`.
fn wanted_revision(store: &Store, route: &Route) -> Result<u64, Status> {
    let current = store.revision();
    let query = &route.query;
    let asked = match query.resource_version.as_str() {
        "" | "0" => return Ok(current),
        version => version
            .parse::<u64>()
            .map_err(|_| Status::bad_request(format!("resourceVersion: Invalid value: {version:?}")))?,
    };
    if asked > current {
        return Err(Status::too_large_version(asked, current));
    }
    Ok(if query.resource_version_match == "Exact" { asked } else { current })
}

fn read_token(token: &str) -> Option<(u64, String, String)> {
    let mut parts = token.splitn(3, '/');
    let revision = parts.next()?.parse().ok()?;
    Some((revision, parts.next()?.to_owned(), parts.next()?.to_owned()))
}

/// Items of a list carry neither kind nor version, as those of built-in kinds in the real server.
fn without_type(object: &Value) -> Value {
    let mut item = object.clone();
    if let Some(item) = item.as_object_mut() {
        item.remove("kind");
        item.remove("apiVersion");
    }
    item
}
