//! What create, update, patch and delete do to an object, with the checks the real server makes.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use crate::{
    object, patch,
    resource::{InitialStatus, Resource, StatusSubresource},
    route::Route,
    status::Status,
    store::{ObjectKey, Store},
    validation,
};

/// What the answer to a write carries.
pub(crate) type Written = Result<(u16, Value), Status>;

pub(crate) fn create(store: &mut Store, route: &Route, body: &[u8]) -> Written {
    if !route.subresource.is_empty() || !route.name.is_empty() {
        return Err(Status::no_such_path());
    }
    let mut object = object::parse(body)?;
    check_namespace(route, &mut object)?;
    if !object::resource_version(&object).is_empty() {
        return Err(Status::internal_error("resourceVersion should not be set on objects to be created"));
    }
    match route.resource.traits.initial_status {
        InitialStatus::Untouched => {}
        InitialStatus::Empty => object::copy_field("status", &Value::Null, &mut object),
        InitialStatus::PhasePending => object["status"] = json!({ "phase": "Pending" }),
        InitialStatus::NotAttached => object["status"] = json!({ "attached": false }),
    }
    validation::owners(&route.resource, &object)?;
    if route.query.dry_run {
        return Ok((201, object));
    }
    insert(store, &route.resource, object).map(|object| (201, (*object).clone()))
}

/// Stores a new object with the metadata the server sets.
///
/// # Errors
/// 409 when the name is taken, 422 when there is none.
pub(crate) fn insert(store: &mut Store, resource: &Resource, mut object: Value) -> Result<Arc<Value>, Status> {
    object::tidy(&mut object);
    if object::name(&object).is_empty() {
        let prefix = object::text(&object, "/metadata/generateName").to_owned();
        if prefix.is_empty() {
            return Err(Status::invalid(
                resource,
                "",
                "metadata.name",
                "Required value: name or generateName is required",
            ));
        }
        let random = uuid::Uuid::new_v4().simple().to_string();
        object::set_metadata(&mut object, "name", json!(format!("{prefix}{}", &random[..5])));
    }
    let name = object::name(&object).to_owned();
    if store.get(resource, &(object::namespace(&object).to_owned(), name.clone())).is_some() {
        return Err(Status::already_exists(resource, &name));
    }
    object["kind"] = json!(resource.kind);
    object["apiVersion"] = json!(resource.api_version());
    object::set_metadata(&mut object, "uid", json!(uuid::Uuid::new_v4().to_string()));
    object::set_metadata(&mut object, "creationTimestamp", object::now());
    object::set_metadata(&mut object, "deletionTimestamp", Value::Null);
    object::set_metadata(&mut object, "deletionGracePeriodSeconds", Value::Null);
    Ok(store.put(resource, object))
}

/// PUT and PATCH.
pub(crate) fn change(store: &mut Store, route: &Route, method: &Method, content_type: &str, body: &[u8]) -> Written {
    if !matches!(route.subresource.as_str(), "" | "status") || has_no_status(route) {
        return Err(Status::no_such_path());
    }
    let key = (route.namespace.clone(), route.name.clone());
    let patching = method == Method::PATCH;
    let mut wanted = if patching { Value::Null } else { object::parse(body)? };
    let current = match store.require(&route.resource, &key) {
        Ok(current) => current,
        Err(_) if !patching && route.resource.traits.create_on_update => {
            return create_by_update(store, route, wanted);
        }
        Err(missing) => return Err(missing),
    };
    if patching {
        wanted = patch::apply(content_type, &current, body)?;
    } else {
        check_namespace(route, &mut wanted)?;
    }
    if object::name(&wanted) != route.name {
        return Err(Status::bad_request("the name of the object does not match the name on the URL"));
    }
    check_identity(&route.resource, &current, &wanted, patching)?;
    keep_what_the_subresource_may_not_change(route, &current, &mut wanted);
    validation::owners(&route.resource, &wanted)?;
    validation::update(&route.resource, &current, &wanted)?;
    if route.query.dry_run {
        return Ok((200, wanted));
    }
    replace(store, &route.resource, &current, wanted).map(|object| (200, (*object).clone()))
}

fn has_no_status(route: &Route) -> bool {
    route.subresource == "status" && route.resource.traits.status == StatusSubresource::None
}

/// A PUT of an object that is not there, of a kind that may be created so (leases, events). A UID shows that the
/// writer believes it exists.
fn create_by_update(store: &mut Store, route: &Route, mut object: Value) -> Written {
    check_namespace(route, &mut object)?;
    let uid = object::uid(&object);
    if !uid.is_empty() {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: ");
        return Err(Status::conflict(&route.resource, &route.name, &why));
    }
    insert(store, &route.resource, object).map(|object| (201, (*object).clone()))
}

/// The UID and the resourceVersion a writer names must be those of the stored object. A foreign UID is a failed
/// precondition of a PUT, but in a patch an attempt to change it, which is looked at last.
fn check_identity(resource: &Resource, current: &Value, wanted: &Value, patching: bool) -> Result<(), Status> {
    let name = object::name(current);
    let (uid, actual) = (object::uid(wanted), object::uid(current));
    let foreign = !uid.is_empty() && uid != actual;
    if foreign && !patching {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}");
        return Err(Status::conflict(resource, name, &why));
    }
    let version = object::resource_version(wanted);
    if version.is_empty() && !resource.traits.unconditional_update {
        let why = "Invalid value: 0: must be specified for an update";
        return Err(Status::invalid(resource, name, "metadata.resourceVersion", why));
    }
    if !version.is_empty() && version != object::resource_version(current) {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        return Err(Status::conflict(resource, name, why));
    }
    if foreign {
        let why = format!("Invalid value: {uid:?}: field is immutable");
        return Err(Status::invalid(resource, name, "metadata.uid", &why));
    }
    Ok(())
}

fn keep_what_the_subresource_may_not_change(route: &Route, current: &Value, wanted: &mut Value) {
    let status = route.resource.traits.status;
    if route.subresource.is_empty() {
        if status != StatusSubresource::None {
            object::copy_field("status", current, wanted);
        }
        return;
    }
    let sent = std::mem::replace(wanted, current.clone());
    object::copy_field("status", &sent, wanted);
    if status == StatusSubresource::WithMetadata {
        object::copy_field("metadata", &sent, wanted);
    }
}

/// Stores the new state of an object: nothing when it says nothing new, removal when it was only waiting for its
/// last finalizer.
///
/// # Errors
/// 422 when a deleting object would get a new finalizer.
pub(crate) fn replace(
    store: &mut Store,
    resource: &Resource,
    current: &Value,
    mut new: Value,
) -> Result<Arc<Value>, Status> {
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
    ] {
        let value = current.pointer(&format!("/metadata/{field}")).cloned().unwrap_or(Value::Null);
        object::set_metadata(&mut new, field, value);
    }
    object::copy_field("kind", current, &mut new);
    object::copy_field("apiVersion", current, &mut new);
    object::tidy(&mut new);
    if object::is_deleting(current) {
        let before = object::finalizers(current);
        let added: Vec<_> = object::finalizers(&new).into_iter().filter(|f| !before.contains(f)).collect();
        if !added.is_empty() {
            let why = format!(
                "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {added:?}"
            );
            return Err(Status::invalid(resource, object::name(current), "metadata.finalizers", &why));
        }
        if object::finalizers(&new).is_empty() {
            return Ok(store.remove(resource, new));
        }
    }
    if new == *current {
        return Ok(Arc::new(new));
    }
    Ok(store.put(resource, new))
}

/// DELETE of one object. The body may carry `DeleteOptions` with preconditions.
pub(crate) fn delete(store: &mut Store, route: &Route, body: &[u8]) -> Written {
    if !route.subresource.is_empty() {
        return Err(Status::no_such_path());
    }
    let options = if body.is_empty() { Value::Null } else { object::parse(body)? };
    let key = (route.namespace.clone(), route.name.clone());
    let current = store.require(&route.resource, &key)?;
    check_preconditions(&route.resource, &current, &options)?;
    if route.query.dry_run {
        return Ok((200, (*current).clone()));
    }
    Ok((200, delete_object(store, &route.resource, &current)))
}

/// DELETE of a collection: every object that the selectors match.
pub(crate) fn delete_collection(store: &mut Store, route: &Route) -> (u16, Value) {
    let matching = store.objects(&route.resource, &route.namespace).into_iter();
    for object in matching.filter(|object| route.query.selector.matches(object)) {
        delete_object(store, &route.resource, &object);
    }
    (200, json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" }))
}

/// The answer is the object while finalizers hold it, else a `Status`.
pub(crate) fn delete_object(store: &mut Store, resource: &Resource, current: &Value) -> Value {
    if !object::finalizers(current).is_empty() {
        if object::is_deleting(current) {
            return current.clone();
        }
        let mut deleting = current.clone();
        object::set_metadata(&mut deleting, "deletionTimestamp", object::now());
        object::set_metadata(&mut deleting, "deletionGracePeriodSeconds", json!(0));
        return (*store.put(resource, deleting)).clone();
    }
    store.remove(resource, current.clone());
    let mut details = json!({ "name": object::name(current), "kind": resource.plural, "uid": object::uid(current) });
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details })
}

fn check_preconditions(resource: &Resource, current: &Value, options: &Value) -> Result<(), Status> {
    let checks = [
        ("UID", "uid", object::uid(current)),
        ("ResourceVersion", "resourceVersion", object::resource_version(current)),
    ];
    for (title, field, actual) in checks {
        let wanted = object::text(options, &format!("/preconditions/{field}"));
        if !wanted.is_empty() && wanted != actual {
            let why =
                format!("Precondition failed: {title} in precondition: {wanted}, {title} in object meta: {actual}");
            return Err(Status::conflict(resource, object::name(current), &why));
        }
    }
    Ok(())
}

/// The namespace of the object is that of the path, and may be left out of the body.
fn check_namespace(route: &Route, object: &mut Value) -> Result<(), Status> {
    let named = object::namespace(object);
    if !named.is_empty() && named != route.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if !route.namespace.is_empty() {
        object::set_metadata(object, "namespace", json!(route.namespace));
    }
    Ok(())
}

/// Key of the object a typed value stands for.
pub(crate) fn key(namespace: Option<&str>, name: &str) -> ObjectKey {
    (namespace.unwrap_or_default().to_owned(), name.to_owned())
}
