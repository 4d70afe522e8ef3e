//! The records of one kind, by key and by group. A list is compared with it in place: objects listed are marked, the others
//! swept, so that a re-list never holds two copies.
//!
//! A cluster has ten thousands of some kinds, so an entry is one slot in one array. The tables that find it by key and by
//! group hold its number alone, and the members of a group are linked through their slots: no key is stored twice.

use std::hash::BuildHasher;
use std::mem;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use super::projection::Projection;

/// Below this many slots a table is never shrunk.
const KEEP_CAPACITY: usize = 1024;

/// No slot; more would not fit into any memory.
const NONE: u32 = u32::MAX;

struct Slot<P: Projection> {
    key: P::Key,
    record: Arc<P::Record>,
    seen: Seen,
    /// Neighbours in the group, in no order.
    next: u32,
    previous: u32,
}

/// Which version of the object the record is of, and whether the current list has had it.
#[derive(Clone, Copy)]
struct Seen(u64);

impl Seen {
    /// Seen by the current list; `version` is zero when the object had none.
    fn at(version: u64) -> Self {
        Self(version << 1 | 1)
    }

    fn version(self) -> u64 {
        self.0 >> 1
    }

    fn is_marked(self) -> bool {
        self.0 & 1 == 1
    }

    fn marked(self) -> Self {
        Self(self.0 | 1)
    }

    fn unmarked(self) -> Self {
        Self(self.0 & !1)
    }
}

pub(super) struct Store<P: Projection> {
    slots: Vec<Slot<P>>,
    by_key: HashTable<u32>,
    /// The first slot of each group.
    by_group: HashTable<u32>,
    hasher: RandomState,
}

impl<P: Projection> Default for Store<P> {
    fn default() -> Self {
        Self { slots: Vec::new(), by_key: HashTable::new(), by_group: HashTable::new(), hasher: RandomState::default() }
    }
}

impl<P: Projection> Store<P> {
    pub(super) fn get(&self, key: &P::Key) -> Option<Arc<P::Record>> {
        self.find(key).map(|at| self.slots[at as usize].record.clone())
    }

    pub(super) fn keys(&self) -> Vec<P::Key> {
        self.slots.iter().map(|slot| slot.key.clone()).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn in_group(&self, projection: &P, group: &P::Group) -> Vec<P::Key> {
        let hash = self.hasher.hash_one(group);
        let is_group = |&at: &u32| projection.group(&self.slots[at as usize].record).as_ref() == Some(group);
        let mut at = self.by_group.find(hash, is_group).copied().unwrap_or(NONE);
        let mut keys = Vec::new();
        while let Some(slot) = self.slots.get(at as usize) {
            keys.push(slot.key.clone());
            at = slot.next;
        }
        keys
    }

    /// Puts a record in and returns the one it replaces. It counts as seen by the current list.
    pub(super) fn insert(
        &mut self,
        projection: &P,
        key: &P::Key,
        record: Arc<P::Record>,
        version: u64,
    ) -> Option<Arc<P::Record>> {
        let seen = Seen::at(version);
        let Some(at) = self.find(key) else {
            let at = u32::try_from(self.slots.len()).unwrap_or(NONE);
            self.push(Slot { key: key.clone(), record, seen, next: NONE, previous: NONE });
            let Self { slots, by_key, hasher, .. } = self;
            let rehash = |&at: &u32| hasher.hash_one(&slots[at as usize].key);
            by_key.insert_unique(hasher.hash_one(key), at, rehash);
            self.join(projection, at);
            return None;
        };
        let moves = projection.group(&self.slots[at as usize].record) != projection.group(&record);
        if moves {
            self.leave(projection, at);
        }
        let slot = &mut self.slots[at as usize];
        slot.seen = seen;
        let old = mem::replace(&mut slot.record, record);
        if moves {
            self.join(projection, at);
        }
        Some(old)
    }

    pub(super) fn remove(&mut self, projection: &P, key: &P::Key) -> Option<Arc<P::Record>> {
        let at = self.find(key)?;
        self.leave(projection, at);
        if let Ok(entry) = self.by_key.find_entry(self.hasher.hash_one(key), |&other| other == at) {
            entry.remove();
        }
        self.fill(projection, at);
        let slot = self.slots.swap_remove(at as usize);
        self.shrink(projection);
        Some(slot.record)
    }

    /// Starts a list: nothing is marked.
    pub(super) fn begin_list(&mut self) {
        for slot in &mut self.slots {
            slot.seen = slot.seen.unmarked();
        }
    }

    /// Marks a record as listed, if there is one.
    pub(super) fn mark(&mut self, key: &P::Key) {
        if let Some(at) = self.find(key) {
            let slot = &mut self.slots[at as usize];
            slot.seen = slot.seen.marked();
        }
    }

    /// Marks a record and returns true if it is of this very version of the object.
    pub(super) fn mark_unchanged(&mut self, key: &P::Key, version: u64) -> bool {
        let Some(at) = self.find(key) else { return false };
        let slot = &mut self.slots[at as usize];
        let unchanged = version != 0 && slot.seen.version() == version;
        if unchanged {
            slot.seen = slot.seen.marked();
        }
        unchanged
    }

    /// The keys the current list has not seen.
    pub(super) fn unmarked(&self) -> Vec<P::Key> {
        self.slots.iter().filter(|slot| !slot.seen.is_marked()).map(|slot| slot.key.clone()).collect()
    }

    fn find(&self, key: &P::Key) -> Option<u32> {
        self.by_key.find(self.hasher.hash_one(key), |&at| self.slots[at as usize].key == *key).copied()
    }

    /// An eighth more room at a time: the array may be most of what the process has.
    fn push(&mut self, slot: Slot<P>) {
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact((self.slots.len() / 8).max(4));
        }
        self.slots.push(slot);
    }

    fn join(&mut self, projection: &P, at: u32) {
        let Self { slots, by_group, hasher, .. } = self;
        let Some(group) = projection.group(&slots[at as usize].record) else { return };
        let hash = hasher.hash_one(&group);
        let is_group = |&first: &u32| projection.group(&slots[first as usize].record).as_ref() == Some(&group);
        if let Some(first) = by_group.find_mut(hash, is_group) {
            let second = mem::replace(first, at);
            slots[second as usize].previous = at;
            slots[at as usize].next = second;
        } else {
            let rehash = |&first: &u32| hash_of_group(hasher, projection, &slots[first as usize]);
            by_group.insert_unique(hash, at, rehash);
        }
    }

    fn leave(&mut self, projection: &P, at: u32) {
        let slot = &mut self.slots[at as usize];
        let next = mem::replace(&mut slot.next, NONE);
        let previous = mem::replace(&mut slot.previous, NONE);
        self.replace_in_group(projection, at, previous, next);
        if let Some(next) = self.slots.get_mut(next as usize) {
            next.previous = previous;
        }
    }

    /// Lets whoever points forward to `at` in its group point to `to`: the slot before it, or the table.
    fn replace_in_group(&mut self, projection: &P, at: u32, previous: u32, to: u32) {
        if let Some(previous) = self.slots.get_mut(previous as usize) {
            previous.next = to;
            return;
        }
        let Some(group) = projection.group(&self.slots[at as usize].record) else { return };
        let Ok(mut first) = self.by_group.find_entry(self.hasher.hash_one(&group), |&first| first == at) else {
            return;
        };
        if to == NONE {
            first.remove();
        } else {
            *first.get_mut() = to;
        }
    }

    /// Lets everything that points to the last slot point to `to`, where it is about to be moved.
    fn fill(&mut self, projection: &P, to: u32) {
        let Some(last) = self.slots.len().checked_sub(1).and_then(|last| u32::try_from(last).ok()) else { return };
        if last == to {
            return;
        }
        let slot = &self.slots[last as usize];
        let (hash, next, previous) = (self.hasher.hash_one(&slot.key), slot.next, slot.previous);
        if let Some(at) = self.by_key.find_mut(hash, |&at| at == last) {
            *at = to;
        }
        self.replace_in_group(projection, last, previous, to);
        if let Some(next) = self.slots.get_mut(next as usize) {
            next.previous = to;
        }
    }

    /// Gives slots back after most of a big table has been removed.
    fn shrink(&mut self, projection: &P) {
        let Self { slots, by_key, by_group, hasher } = self;
        if is_wasteful(slots.len(), slots.capacity()) {
            slots.shrink_to(slots.len() * 2);
        }
        if is_wasteful(by_key.len(), by_key.capacity()) {
            by_key.shrink_to(by_key.len() * 2, |&at| hasher.hash_one(&slots[at as usize].key));
        }
        if is_wasteful(by_group.len(), by_group.capacity()) {
            let rehash = |&first: &u32| hash_of_group(hasher, projection, &slots[first as usize]);
            by_group.shrink_to(by_group.len() * 2, rehash);
        }
    }
}

/// Of the first slot of a group.
fn hash_of_group<P: Projection>(hasher: &RandomState, projection: &P, slot: &Slot<P>) -> u64 {
    projection.group(&slot.record).map_or(0, |group| hasher.hash_one(group))
}

fn is_wasteful(len: usize, capacity: usize) -> bool {
    capacity > KEEP_CAPACITY && len < capacity / 4
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::collections::HashMap;

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
        let mut keys = store.in_group(&ByFirstLetter, &group);
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
        assert!(store.by_group.is_empty(), "no empty group is kept");
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
        assert_eq!(group(&store, 'o'), (0..10).collect::<Vec<_>>());
        assert!(store.slots.capacity() <= KEEP_CAPACITY, "{}", store.slots.capacity());
        assert!(store.by_key.capacity() <= KEEP_CAPACITY, "{}", store.by_key.capacity());
    }

    /// Slots move when others are removed: whatever the order, the store answers as a plain map would.
    #[test]
    fn any_order_of_changes_leaves_what_a_plain_map_would_have() {
        const WORDS: [&str; 8] = ["apple", "avocado", "banana", "blueberry", "cherry", "", "date", "almond"];
        let mut store = Store::<ByFirstLetter>::default();
        let mut plain = HashMap::new();
        let mut random = 88_172_645_463_325_252_u64;
        for round in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let key = u32::try_from(random % 40).unwrap();
            if (random >> 32).is_multiple_of(4) {
                assert_eq!(store.remove(&ByFirstLetter, &key).map(|record| *record), plain.remove(&key), "{round}");
            } else {
                let word = WORDS[usize::try_from(random >> 40).unwrap() % WORDS.len()];
                let old = store.insert(&ByFirstLetter, &key, Arc::new(word), 0).map(|record| *record);
                assert_eq!(old, plain.insert(key, word), "{round}");
            }
            assert_eq!(store.len(), plain.len());
            for letter in ['a', 'b', 'c', 'd', 'e'] {
                let mut expected: Vec<u32> =
                    plain.iter().filter(|(_, word)| word.starts_with(letter)).map(|(key, _)| *key).collect();
                expected.sort_unstable();
                assert_eq!(group(&store, letter), expected, "{round} {letter}");
            }
            assert!(plain.iter().all(|(key, word)| store.get(key).is_some_and(|record| *record == *word)), "{round}");
        }
    }

    /// A list that fails half-way leaves marks; the next one must not trust them.
    #[test]
    fn a_list_that_was_broken_off_marks_nothing_for_the_next() {
        let mut store = Store::<ByFirstLetter>::default();
        insert(&mut store, 1, "x");
        insert(&mut store, 2, "x");
        for _ in 0..300 {
            store.begin_list();
            store.mark(&1);
        }
        store.begin_list();
        store.mark(&2);
        assert_eq!(store.unmarked(), [1]);
    }
}
