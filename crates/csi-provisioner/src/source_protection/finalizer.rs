//! Our finalizer on claims and snapshots.

use kube::{Client, Error};
use serde_json::{Value, json};
use storage_kube::finalizers::{self, Edit};
use storage_kube::uid::Uid;
use storage_kube::wire::{PersistentVolumeClaim, VolumeSnapshot};

use super::ProtectError;
use crate::data_source::SourceKey;
use crate::whole_object::{TRIES, WholeObject, is_conflict};

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
    let whole = source(client, key);
    let failed = |source| ProtectError::Write { key: key.clone(), finalizer, source: Box::new(source) };
    for left in (0..TRIES).rev() {
        let object = whole.read().await.map_err(failed)?;
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
        match whole.replace(&object).await {
            Ok(_) => return Ok(true),
            Err(error) if is_conflict(&error) && left > 0 => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(false)
}

/// The object, if it is there and carries the finalizer.
pub(crate) async fn protected(client: &Client, key: &SourceKey) -> Result<Option<Value>, Error> {
    let object = source(client, key).read().await?;
    Ok(object.filter(|object| finalizers::contains(&list(object), of(key))))
}

/// Takes the finalizer off; `object` is the source as it was read. One that is gone, or was made anew, is no error.
pub(crate) async fn remove(client: &Client, key: &SourceKey, object: Value) -> Result<(), Error> {
    let uid = object["metadata"]["uid"].clone();
    let whole = source(client, key);
    let mut current = Some(object);
    for left in (0..TRIES).rev() {
        let Some(mut object) = current.filter(|object| object["metadata"]["uid"] == uid) else { return Ok(()) };
        let Edit::Changed(edited) = finalizers::remove(&list(&object), of(key)) else { return Ok(()) };
        object["metadata"]["finalizers"] = json!(edited.unwrap_or_default());
        match whole.replace(&object).await {
            Ok(_) => return Ok(()),
            Err(Error::Api(status)) if status.code == 404 => return Ok(()),
            Err(error) if is_conflict(&error) && left > 0 => current = whole.read().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn list(object: &Value) -> Vec<String> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    list.map(|list| list.iter().filter_map(Value::as_str).map(str::to_owned).collect()).unwrap_or_default()
}

fn source<'a>(client: &'a Client, key: &'a SourceKey) -> WholeObject<'a> {
    match key {
        SourceKey::Claim(namespace, name) => {
            WholeObject::of::<PersistentVolumeClaim>(client, namespace.as_str(), name.as_str())
        }
        SourceKey::Snapshot(namespace, name) => {
            WholeObject::of::<VolumeSnapshot>(client, namespace.as_str(), name.as_str())
        }
    }
}
