//! The objects, one revision counter for all of them, and everything that ever happened to them.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};

use crate::{object, resource::Resource, status::Status};

/// Namespace (empty when there is none) and name.
pub(crate) type ObjectKey = (String, String);
type Collection = BTreeMap<ObjectKey, Arc<Value>>;

/// Group and plural: versions of one resource share their objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CollectionId(String, String);

impl From<&Resource> for CollectionId {
    fn from(resource: &Resource) -> Self {
        Self(resource.group.clone(), resource.plural.clone())
    }
}

/// One thing that happened, kept for ever: watches are cursors into this list.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) revision: u64,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Put {
        collection: CollectionId,
        old: Option<Arc<Value>>,
        new: Arc<Value>,
    },
    /// `last` is the object as it was, with the revision of its deletion.
    Removed {
        collection: CollectionId,
        old: Arc<Value>,
        last: Arc<Value>,
    },
    /// To every watch that allows bookmarks.
    Bookmark,
}

impl What {
    /// Whose objects it is about; none for all.
    pub(crate) fn collection(&self) -> Option<&CollectionId> {
        match self {
            Self::Put { collection, .. } | Self::Removed { collection, .. } => Some(collection),
            Self::Bookmark => None,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Store {
    collections: BTreeMap<CollectionId, Collection>,
    revision: u64,
    history: Vec<Entry>,
    compacted: u64,
    /// The revision at which a server started anew has read everything: it remembers no change before.
    started_at: u64,
    /// Plural, and the parent and the name of the field.
    unknown: Vec<(String, &'static str, &'static str)>,
}

impl Store {
    /// The revision of the latest write.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Nothing before this revision can be listed any more.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted
    }

    /// Nothing before this revision can be watched from any more.
    pub(crate) fn watchable_from(&self) -> u64 {
        self.compacted.max(self.started_at)
    }

    /// Everything as it was, and the next revisions are given out again.
    pub(crate) fn set_back_to(&mut self, backup: &Self) {
        let unknown = std::mem::take(&mut self.unknown);
        *self = Self { unknown, started_at: backup.revision, ..backup.clone() };
    }

    /// Open watches go on; only new requests from the past are refused. The revision itself moves on, so that
    /// whoever is at the latest one is refused too.
    pub(crate) fn compact(&mut self) {
        self.revision += 1;
        self.compacted = self.revision;
    }

    pub(crate) fn drop_field(&mut self, plural: &str, parent: &'static str, field: &'static str) {
        self.unknown.push((plural.to_owned(), parent, field));
    }

    pub(crate) fn history(&self) -> &[Entry] {
        &self.history
    }

    pub(crate) fn get(&self, resource: &Resource, key: &ObjectKey) -> Option<&Arc<Value>> {
        self.collections.get(&resource.into())?.get(key)
    }

    /// # Errors
    /// 404 in the API server's words.
    pub(crate) fn require(&self, resource: &Resource, key: &ObjectKey) -> Result<Arc<Value>, Status> {
        self.get(resource, key).cloned().ok_or_else(|| Status::not_found(resource, &key.1))
    }

    /// The objects of a collection in key order; of one namespace unless `namespace` is empty.
    pub(crate) fn objects(&self, resource: &Resource, namespace: &str) -> Vec<Arc<Value>> {
        let all = self.collections.get(&resource.into()).into_iter().flatten();
        all.filter(|((ns, _), _)| namespace.is_empty() || ns == namespace).map(|(_, object)| object.clone()).collect()
    }

    /// The same at an earlier revision: the present with everything later undone.
    pub(crate) fn objects_at(&self, resource: &Resource, namespace: &str, revision: u64) -> Vec<Arc<Value>> {
        let id = CollectionId::from(resource);
        let mut objects = self.collections.get(&id).cloned().unwrap_or_default();
        for entry in self.history.iter().rev().take_while(|entry| entry.revision > revision) {
            match &entry.what {
                What::Put { collection, old: Some(old), .. } | What::Removed { collection, old, .. }
                    if *collection == id =>
                {
                    objects.insert(key_of(old), old.clone());
                }
                What::Put { collection, old: None, new } if *collection == id => {
                    objects.remove(&key_of(new));
                }
                _ => {}
            }
        }
        objects.retain(|(ns, _), _| namespace.is_empty() || ns == namespace);
        objects.into_values().collect()
    }

    /// Stores an object, new or changed, under a new revision.
    pub(crate) fn put(&mut self, resource: &Resource, mut object: Value) -> Arc<Value> {
        self.revision += 1;
        object::set_metadata(&mut object, "resourceVersion", json!(self.revision.to_string()));
        for (_, parent, field) in self.unknown.iter().filter(|(plural, ..)| *plural == resource.plural) {
            if let Some(parent) = object.get_mut(parent).and_then(Value::as_object_mut) {
                parent.remove(*field);
            }
        }
        let id = CollectionId::from(resource);
        let new = Arc::new(object);
        let old = self.collections.entry(id.clone()).or_default().insert(key_of(&new), new.clone());
        let what = What::Put { collection: id, old, new: new.clone() };
        self.history.push(Entry { revision: self.revision, what });
        new
    }

    /// Takes an object away; `last` is its final state as watches see it.
    pub(crate) fn remove(&mut self, resource: &Resource, mut last: Value) -> Arc<Value> {
        self.revision += 1;
        object::set_metadata(&mut last, "resourceVersion", json!(self.revision.to_string()));
        let id = CollectionId::from(resource);
        let last = Arc::new(last);
        let old = self.collections.get_mut(&id).and_then(|objects| objects.remove(&key_of(&last)));
        if let Some(old) = old {
            let what = What::Removed { collection: id, old, last: last.clone() };
            self.history.push(Entry { revision: self.revision, what });
        }
        last
    }

    pub(crate) fn bookmark(&mut self) {
        self.history.push(Entry { revision: self.revision, what: What::Bookmark });
    }
}

pub(crate) fn key_of(object: &Value) -> ObjectKey {
    (object::namespace(object).to_owned(), object::name(object).to_owned())
}
