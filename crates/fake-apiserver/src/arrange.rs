//! What a test does to the server directly, without a request: as the administrator, or another controller, would.
//!
//! These panic when they cannot do what the test says: the test is wrong then.
#![expect(clippy::panic, reason = "a broken arrangement is a bug of the test that made it")]

use std::{fmt::Debug, time::Duration};

use kube::Resource;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{FakeApiServer, object, patch, resource, store::Store, write};

impl FakeApiServer {
    /// Stores a new object as it is, its `status` included; name, UID and the like are set as the server sets them.
    /// Returns it as stored.
    ///
    /// # Panics
    /// When the name is taken, or there is none.
    #[track_caller]
    pub fn create<K>(&self, object: &K) -> K
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        let value = to_value(object);
        self.write(|store| match write::insert(store, &resource_of::<K>(), value) {
            Ok(stored) => from_value(&stored),
            Err(status) => panic!("cannot create: {}", status.message),
        })
    }

    /// Replaces an object whole, its `status` included, whatever its `resourceVersion`.
    ///
    /// # Panics
    /// When there is none of that name, or it is being deleted and gets a new finalizer.
    #[track_caller]
    pub fn update<K>(&self, object: &K) -> K
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        let new = to_value(object);
        self.replace::<K>(object.meta().namespace.as_deref(), object.meta().name.as_deref().unwrap_or_default(), |_| {
            new
        })
    }

    /// Changes an object in place, its `status` included.
    ///
    /// # Panics
    /// As [`update`](Self::update).
    #[track_caller]
    pub fn modify<'a, K>(&self, namespace: impl Into<Option<&'a str>>, name: &str, change: impl FnOnce(&mut K)) -> K
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        self.replace::<K>(namespace.into(), name, |current| {
            let mut object: K = from_value(&current);
            change(&mut object);
            to_value(&object)
        })
    }

    /// Merges JSON into an object (RFC 7386), its `status` included. For fields that the type does not know.
    ///
    /// # Panics
    /// As [`update`](Self::update).
    #[track_caller]
    pub fn merge<'a, K>(&self, namespace: impl Into<Option<&'a str>>, name: &str, json: &Value) -> K
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        self.replace::<K>(namespace.into(), name, |mut current| {
            patch::merge(&mut current, json);
            current
        })
    }

    /// Deletes an object as DELETE does: finalizers hold it. Does nothing when it is not there.
    pub fn delete<'a, K>(&self, namespace: impl Into<Option<&'a str>>, name: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        let resource = resource_of::<K>();
        let key = write::key(namespace.into(), name);
        self.write(|store| {
            if let Some(current) = store.get(&resource, &key).cloned() {
                write::delete_object(store, &resource, &current);
            }
        });
    }

    /// Takes an object away whatever its finalizers. Does nothing when it is not there.
    pub fn remove<'a, K>(&self, namespace: impl Into<Option<&'a str>>, name: &str)
    where
        K: Resource<DynamicType = ()>,
    {
        let resource = resource_of::<K>();
        let key = write::key(namespace.into(), name);
        self.write(|store| {
            if let Some(current) = store.get(&resource, &key).cloned() {
                store.remove(&resource, (*current).clone());
            }
        });
    }

    /// The object as it is stored.
    ///
    /// # Panics
    /// When it does not fit the type; [`get_json`](Self::get_json) reads such objects.
    #[track_caller]
    pub fn get<'a, K>(&self, namespace: impl Into<Option<&'a str>>, name: &str) -> Option<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        self.get_json::<K>(namespace, name).as_ref().map(from_value)
    }

    /// The object as it is stored, in JSON.
    pub fn get_json<'a, K>(&self, namespace: impl Into<Option<&'a str>>, name: &str) -> Option<Value>
    where
        K: Resource<DynamicType = ()>,
    {
        let state = self.shared.state.lock();
        state.store.get(&resource_of::<K>(), &write::key(namespace.into(), name)).map(|object| (**object).clone())
    }

    /// All objects of a kind, by namespace and name.
    ///
    /// # Panics
    /// When one does not fit the type.
    #[track_caller]
    pub fn list<K>(&self) -> Vec<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let objects = self.shared.state.lock().store.objects(&resource_of::<K>(), "");
        objects.iter().map(|object| from_value(object)).collect()
    }

    /// Stores JSON as it is under a kind, for objects that no type would produce. The name must be free.
    ///
    /// # Panics
    /// When the name is taken, or there is none.
    #[track_caller]
    pub fn create_json<K>(&self, object: Value) -> Value
    where
        K: Resource<DynamicType = ()>,
    {
        self.write(|store| match write::insert(store, &resource_of::<K>(), object) {
            Ok(stored) => (*stored).clone(),
            Err(status) => panic!("cannot create: {}", status.message),
        })
    }

    /// Waits until `condition` gives a value, asked again after each request and each change. `what` is for the
    /// message when it does not within `bound` (on the runtime's clock, so a paused clock makes it quick).
    ///
    /// # Panics
    /// At the bound, with the requests seen so far.
    pub async fn until<T>(&self, what: &str, bound: Duration, mut condition: impl FnMut(&Self) -> Option<T>) -> T {
        let mut changed = self.shared.changed.subscribe();
        let waited = tokio::time::timeout(bound, async {
            loop {
                changed.borrow_and_update();
                if let Some(value) = condition(self) {
                    return value;
                }
                if changed.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        });
        if let Ok(value) = waited.await {
            return value;
        }
        let requests: Vec<_> = self.requests().iter().map(|request| request.summary()).collect();
        panic!("not within {bound:?}: {what}; requests so far:\n  {}", requests.join("\n  "));
    }

    #[track_caller]
    fn replace<K>(&self, namespace: Option<&str>, name: &str, change: impl FnOnce(Value) -> Value) -> K
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let resource = resource_of::<K>();
        self.write(|store| {
            let current = match store.require(&resource, &write::key(namespace, name)) {
                Ok(current) => current,
                Err(status) => panic!("cannot change: {}", status.message),
            };
            let new = change((*current).clone());
            match write::replace(store, &resource, &current, new) {
                Ok(stored) => from_value(&stored),
                Err(status) => panic!("cannot change: {}", status.message),
            }
        })
    }

    /// One direct change, then everybody who waits is told.
    #[track_caller]
    fn write<T>(&self, change: impl FnOnce(&mut Store) -> T) -> T {
        let result = change(&mut self.shared.state.lock().store);
        self.shared.wake();
        result
    }
}

fn resource_of<K: Resource<DynamicType = ()>>() -> resource::Resource {
    resource::Resource::new(&K::group(&()), &K::version(&()), &K::plural(&()))
}

#[track_caller]
fn to_value<K: Serialize>(object: &K) -> Value {
    match serde_json::to_value(object) {
        Ok(value) => value,
        Err(error) => panic!("cannot be JSON: {error}"),
    }
}

#[track_caller]
fn from_value<K: DeserializeOwned>(value: &Value) -> K {
    match K::deserialize(value) {
        Ok(object) => object,
        Err(error) => panic!("{} does not fit its type: {error}", object::name(value)),
    }
}

impl Debug for FakeApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.shared.state.lock();
        f.debug_struct("FakeApiServer")
            .field("revision", &state.store.revision())
            .field("requests", &state.requests.len())
            .finish_non_exhaustive()
    }
}
