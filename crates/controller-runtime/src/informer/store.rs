//! The records of one kind, by key and by group. A list is compared with it in place: objects listed are marked, the others
//! swept, so that a re-list never holds two copies.

use std::hash::Hash;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt as _, HashSet};

use super::projection::Projection;

/// Below this many slots a table is never shrunk.
const KEEP_CAPACITY: usize = 1024;

struct Entry<R> {
    record: Arc<R>,
    /// resourceVersion of the object, zero when it had none.
    version: u64,
    /// The list that saw it last.
    list: u32,
}

/// Keys of one group. Most groups have one, and a set of one would cost four slots.
enum Members<K> {
    One(K),
    Many(HashSet<K>),
}

pub(super) struct Store<P: Projection> {
    entries: HashMap<P::Key, Entry<P::Record>>,
    groups: HashMap<P::Group, Members<P::Key>>,
    list: u32,
}

impl<P: Projection> Default for Store<P> {
    fn default() -> Self {
        Self { entries: HashMap::new(), groups: HashMap::new(), list: 0 }
    }
}

impl<P: Projection> Store<P> {
    pub(super) fn get(&self, key: &P::Key) -> Option<Arc<P::Record>> {
        self.entries.get(key).map(|entry| entry.record.clone())
    }

    pub(super) fn keys(&self) -> Vec<P::Key> {
        self.entries.keys().cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn in_group(&self, group: &P::Group) -> Vec<P::Key> {
        match self.groups.get(group) {
            None => Vec::new(),
            Some(Members::One(key)) => vec![key.clone()],
            Some(Members::Many(keys)) => keys.iter().cloned().collect(),
        }
    }

    /// Puts a record in and returns the one it replaces. It counts as seen by the current list.
    pub(super) fn insert(
        &mut self,
        projection: &P,
        key: &P::Key,
        record: Arc<P::Record>,
        version: u64,
    ) -> Option<Arc<P::Record>> {
        let group = projection.group(&record);
        let entry = Entry { record, version, list: self.list };
        let old = self.entries.insert(key.clone(), entry).map(|entry| entry.record);
        let old_group = old.as_deref().and_then(|record| projection.group(record));
        if group != old_group {
            if let Some(group) = old_group {
                self.leave(&group, key);
            }
            if let Some(group) = group {
                self.join(group, key.clone());
            }
        }
        old
    }

    pub(super) fn remove(&mut self, projection: &P, key: &P::Key) -> Option<Arc<P::Record>> {
        let record = self.entries.remove(key)?.record;
        if let Some(group) = projection.group(&record) {
            self.leave(&group, key);
        }
        shrink(&mut self.entries);
        Some(record)
    }

    /// Starts a list: nothing is marked.
    pub(super) fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// Marks a record as listed, if there is one.
    pub(super) fn mark(&mut self, key: &P::Key) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.list = self.list;
        }
    }

    /// Marks a record and returns true if it is of this very version of the object.
    pub(super) fn mark_unchanged(&mut self, key: &P::Key, version: u64) -> bool {
        match self.entries.get_mut(key) {
            Some(entry) if version != 0 && entry.version == version => {
                entry.list = self.list;
                true
            }
            Some(_) | None => false,
        }
    }

    /// The keys the current list has not seen.
    pub(super) fn unmarked(&self) -> Vec<P::Key> {
        self.entries.iter().filter(|(_, entry)| entry.list != self.list).map(|(key, _)| key.clone()).collect()
    }

    fn join(&mut self, group: P::Group, key: P::Key) {
        use std::collections::hash_map::Entry as Slot;
        match self.groups.entry(group) {
            Slot::Vacant(slot) => {
                slot.insert(Members::One(key));
            }
            Slot::Occupied(mut slot) => match slot.get_mut() {
                Members::Many(keys) => {
                    keys.insert(key);
                }
                Members::One(first) => {
                    let both = HashSet::from_iter([first.clone(), key]);
                    slot.insert(Members::Many(both));
                }
            },
        }
    }

    fn leave(&mut self, group: &P::Group, key: &P::Key) {
        let empty = match self.groups.get_mut(group) {
            None => return,
            Some(Members::One(only)) => only == key,
            Some(Members::Many(keys)) => {
                keys.remove(key);
                shrink_set(keys);
                keys.is_empty()
            }
        };
        if empty {
            self.groups.remove(group);
            shrink(&mut self.groups);
        }
    }
}

/// Gives slots back after most of a big table has been removed.
fn shrink<K: Eq + Hash, V>(map: &mut HashMap<K, V>) {
    if map.capacity() > KEEP_CAPACITY && map.len() < map.capacity() / 4 {
        map.shrink_to(map.len() * 2);
    }
}

fn shrink_set<K: Eq + Hash>(set: &mut HashSet<K>) {
    if set.capacity() > KEEP_CAPACITY && set.len() < set.capacity() / 4 {
        set.shrink_to(set.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    struct ByFirstLetter;

    impl Projection for ByFirstLetter {
        type Wire = ConfigMap;
        type Key = u32;
        type Record = &'static str;
        type Group = char;

        fn key(&self, _: &ConfigMap) -> Option<u32> {
            None
        }

        fn project(&self, _: ConfigMap) -> Option<&'static str> {
            None
        }

        fn group(&self, record: &&'static str) -> Option<char> {
            record.chars().next()
        }
    }

    fn insert(store: &mut Store<ByFirstLetter>, key: u32, record: &'static str) {
        store.insert(&ByFirstLetter, &key, Arc::new(record), 0);
    }

    fn group(store: &Store<ByFirstLetter>, group: char) -> Vec<u32> {
        let mut keys = store.in_group(&group);
        keys.sort_unstable();
        keys
    }

    #[test]
    fn groups_follow_inserts_changes_and_removals() {
        let mut store = Store::<ByFirstLetter>::default();
        insert(&mut store, 1, "apple");
        assert_eq!(group(&store, 'a'), [1]);
        insert(&mut store, 2, "avocado");
        insert(&mut store, 3, "banana");
        insert(&mut store, 4, "");
        assert_eq!((group(&store, 'a'), group(&store, 'b')), (vec![1, 2], vec![3]));
        insert(&mut store, 1, "apricot");
        assert_eq!(group(&store, 'a'), [1, 2]);
        insert(&mut store, 1, "blueberry");
        assert_eq!((group(&store, 'a'), group(&store, 'b')), (vec![2], vec![1, 3]));
        insert(&mut store, 3, "");
        store.remove(&ByFirstLetter, &2);
        assert_eq!((group(&store, 'a'), group(&store, 'b')), (vec![], vec![1]));
        store.remove(&ByFirstLetter, &1);
        assert!(store.groups.is_empty(), "no empty group is kept");
        assert_eq!(store.len(), 2);
    }

    #[test]
    fn a_list_finds_what_it_has_not_seen() {
        let mut store = Store::<ByFirstLetter>::default();
        for key in 1..=4 {
            store.insert(&ByFirstLetter, &key, Arc::new("x"), u64::from(key));
        }
        store.begin_list();
        assert!(store.mark_unchanged(&1, 1));
        assert!(!store.mark_unchanged(&2, 9), "another version");
        store.mark(&3);
        insert(&mut store, 5, "new");
        let mut unmarked = store.unmarked();
        unmarked.sort_unstable();
        assert_eq!(unmarked, [2, 4]);
    }

    #[test]
    fn records_without_a_version_are_never_unchanged() {
        let mut store = Store::<ByFirstLetter>::default();
        insert(&mut store, 1, "x");
        store.begin_list();
        assert!(!store.mark_unchanged(&1, 0));
    }

    #[test]
    fn c2_tables_shrink_with_the_cluster() {
        let mut store = Store::<ByFirstLetter>::default();
        for key in 0..50_000 {
            insert(&mut store, key, "one big group");
        }
        for key in 10..50_000 {
            store.remove(&ByFirstLetter, &key);
        }
        assert!(store.entries.capacity() <= KEEP_CAPACITY, "{}", store.entries.capacity());
        let Some(Members::Many(keys)) = store.groups.get(&'o') else {
            panic!("the group is gone");
        };
        assert!(keys.capacity() <= KEEP_CAPACITY, "{}", keys.capacity());
    }
}
