//! Lists: pages of one consistent state of a collection.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    object, options,
    route::{Query, Route},
    status::Status,
    store::Store,
};

/// # Errors
/// 410 when the state asked for was compacted, 504 when it is in the future (the real server waits three seconds for it
/// first), 400 for a version or a token that is none, 422 for options that exclude each other.
pub(crate) fn list(store: &Store, route: &Route) -> Result<Value, Status> {
    let query = &route.query;
    options::check_list(query)?;
    let (revision, after) = start(store, query)?;
    if revision > store.revision() {
        return Err(Status::too_large_version(revision, store.revision()));
    }
    if revision < store.compacted() {
        let what = if after.is_some() { "continue parameter" } else { "resourceVersion" };
        return Err(Status::expired(format!("The provided {what} is too old to display a consistent list result.")));
    }
    let mut objects = if revision == store.revision() {
        store.objects(&route.resource, &route.namespace)
    } else {
        store.objects_at(&route.resource, &route.namespace, revision)
    };
    objects.sort_by_cached_key(|object| path(object));
    objects.retain(|object| after.as_ref().is_none_or(|after| path(object) > *after));
    // Any state will do, and the cache that has it gives no pages.
    let limit = if query.limit == 0 || query.resource_version == "0" { usize::MAX } else { query.limit };
    let all = objects.len();
    let (page, left) = page(objects, query, limit);
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    if left > 0
        && let Some(last) = page.last()
    {
        metadata["continue"] = json!(format!("{revision}/{}", path(last)));
        // Those that do not match are not counted out.
        if query.selector.is_empty() {
            metadata["remainingItemCount"] = json!(all - limit);
        }
    }
    Ok(json!({
        "kind": format!("{}List", route.resource.kind),
        "apiVersion": route.resource.api_version(),
        "metadata": metadata,
        "items": page.iter().map(|object| without_type(object)).collect::<Vec<_>>(),
    }))
}

/// The first objects that match, and how many come after the last of a full page, whether they match or not: a last page
/// may be empty.
fn page(objects: Vec<Arc<Value>>, query: &Query, limit: usize) -> (Vec<Arc<Value>>, usize) {
    let mut page = Vec::new();
    let mut rest = objects.into_iter();
    while let Some(object) = rest.next() {
        if query.selector.matches(&object) {
            page.push(object);
        }
        if page.len() >= limit {
            return (page, rest.len());
        }
    }
    (page, 0)
}

/// Where an object is among those of its kind, as etcd orders them.
fn path(object: &Value) -> String {
    match object::namespace(object) {
        "" => object::name(object).to_owned(),
        namespace => format!("{namespace}/{}", object::name(object)),
    }
}

/// The state a list is of, and what its first object comes after.
fn start(store: &Store, query: &Query) -> Result<(u64, Option<String>), Status> {
    if !query.continue_token.is_empty() {
        let token =
            query.continue_token.split_once('/').and_then(|(revision, path)| Some((revision.parse().ok()?, path)));
        let (revision, path) = token.ok_or_else(|| Status::bad_request("invalid continue token"))?;
        if !matches!(query.resource_version.as_str(), "" | "0") {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        return Ok((revision, Some(path.to_owned())));
    }
    let current = store.revision();
    let asked = match query.resource_version.as_str() {
        "" | "0" => return Ok((current, None)),
        version => {
            version.parse::<u64>().map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?
        }
    };
    // Pages without a match are exact, for the sake of old clients.
    let exact = query.resource_version_match == "Exact" || query.resource_version_match.is_empty() && query.limit > 0;
    Ok((if exact { asked } else { asked.max(current) }, None))
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
