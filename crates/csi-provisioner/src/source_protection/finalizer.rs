//! Our finalizer on claims and snapshots. Upstream's rules grant `get` and `update` on both and `patch` on neither, so the
//! whole object is read, changed and put back with its resourceVersion.

use kube::api::{GetParams, PostParams};
use kube::core::Request;
use kube::{Client, Error, Resource};
use serde_json::{Value, json};
use storage_kube::finalizers::{self, Edit};
use storage_kube::uid::Uid;
use storage_kube::wire::{PersistentVolumeClaim, VolumeSnapshot};

use super::ProtectError;
use crate::data_source::SourceKey;

/// Tries to edit an object that others change at the same time.
const TRIES: usize = 5;

/// The finalizer for this kind of source.
pub(crate) fn of(key: &SourceKey) -> &'static str {
    match key {
        SourceKey::Claim(..) => finalizers::CLONE_SOURCE_PROTECTION,
        SourceKey::Snapshot(..) => finalizers::SNAPSHOT_SOURCE_PROTECTION,
    }
}

/// Puts the finalizer on the object with this UID; says whether it was missing.
pub(crate) async fn add(client: &Client, key: &SourceKey, uid: &Uid) -> Result<bool, ProtectError> {
    let finalizer = of(key);
    let failed = |source| ProtectError::Write { key: key.clone(), finalizer, source: Box::new(source) };
    for left in (0..TRIES).rev() {
        let object = read(client, key).await.map_err(failed)?;
        let Some(mut object) = object else { return Err(ProtectError::Gone { key: key.clone() }) };
        let metadata = |field: &str| object["metadata"][field].as_str();
        if metadata("uid").is_none_or(|found| Uid::from(found) != *uid) {
            return Err(ProtectError::MadeAnew { key: key.clone() });
        }
        let Edit::Changed(edited) = finalizers::add(&list(&object), finalizer) else { return Ok(false) };
        if metadata("deletionTimestamp").is_some() {
            return Err(ProtectError::Deleting { key: key.clone() });
        }
        object["metadata"]["finalizers"] = json!(edited);
        match write(client, key, &object).await {
            Ok(()) => return Ok(true),
            Err(error) if is_conflict(&error) && left > 0 => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(false)
}

/// The object, if it is there and carries the finalizer.
pub(crate) async fn protected(client: &Client, key: &SourceKey) -> Result<Option<Value>, Error> {
    let object = read(client, key).await?;
    Ok(object.filter(|object| finalizers::contains(&list(object), of(key))))
}

/// Takes the finalizer off; `object` is the source as it was read. One that is gone, or was made anew, is no error.
pub(crate) async fn remove(client: &Client, key: &SourceKey, object: Value) -> Result<(), Error> {
    let uid = object["metadata"]["uid"].clone();
    let mut current = Some(object);
    for left in (0..TRIES).rev() {
        let Some(mut object) = current.filter(|object| object["metadata"]["uid"] == uid) else { return Ok(()) };
        let Edit::Changed(edited) = finalizers::remove(&list(&object), of(key)) else { return Ok(()) };
        object["metadata"]["finalizers"] = json!(edited.unwrap_or_default());
        match write(client, key, &object).await {
            Ok(()) => return Ok(()),
            Err(Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(error) if is_conflict(&error) && left > 0 => current = read(client, key).await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 409)
}

fn list(object: &Value) -> Vec<String> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    list.map(|list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect()).unwrap_or_default()
}

/// Where the collection of the source is, and its name.
fn address(key: &SourceKey) -> (Request, &str) {
    match key {
        SourceKey::Claim(namespace, name) => {
            (Request::new(PersistentVolumeClaim::url_path(&(), Some(namespace.as_str()))), name.as_str())
        }
        SourceKey::Snapshot(namespace, name) => {
            (Request::new(VolumeSnapshot::url_path(&(), Some(namespace.as_str()))), name.as_str())
        }
    }
}

async fn read(client: &Client, key: &SourceKey) -> Result<Option<Value>, Error> {
    let (collection, name) = address(key);
    let request = collection.get(name, &GetParams::default()).map_err(Error::BuildRequest)?;
    match client.request(request).await {
        Ok(object) => Ok(Some(object)),
        Err(Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

async fn write(client: &Client, key: &SourceKey, object: &Value) -> Result<(), Error> {
    let (collection, name) = address(key);
    let body = serde_json::to_vec(object).map_err(Error::SerdeError)?;
    let request = collection.replace(name, &PostParams::default(), body).map_err(Error::BuildRequest)?;
    // The answer is the object again, of which nothing is wanted.
    client.request_text(request).await.map(drop)
}
