//! Which records there are, and which name and id lead to them. In memory.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use crate::state::StateError;
use crate::state::kept::Kept;

#[derive(Debug)]
pub(super) struct Index<R: Kept> {
    by_sequence: BTreeMap<u64, Arc<R>>,
    by_id: HashMap<R::Id, u64>,
    by_name: HashMap<String, u64>,
    /// Sequence number of the next record.
    next: u64,
}

/// A part of a list, oldest first, and the sequence number to go on after if there is more.
pub(crate) type Page<R> = (Vec<Arc<R>>, Option<u64>);

impl<R: Kept> Index<R> {
    pub(super) fn new(records: Vec<R>) -> Self {
        let next = records.iter().map(|record| record.sequence() + 1).max().unwrap_or_default();
        let mut index = Self { by_sequence: BTreeMap::new(), by_id: HashMap::new(), by_name: HashMap::new(), next };
        for record in records {
            index.insert(Arc::new(record));
        }
        index
    }

    pub(super) fn len(&self) -> usize {
        self.by_sequence.len()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<R>> {
        self.by_sequence.values()
    }

    pub(super) fn get(&self, id: &R::Id) -> Option<Arc<R>> {
        self.by_id.get(id).and_then(|sequence| self.by_sequence.get(sequence)).cloned()
    }

    pub(super) fn named(&self, name: &str) -> Option<Arc<R>> {
        self.by_name.get(name).and_then(|sequence| self.by_sequence.get(sequence)).cloned()
    }

    /// The sequence number of a record that is to be made; given once.
    pub(super) fn next(&mut self) -> u64 {
        let next = self.next;
        self.next += 1;
        next
    }

    /// Those created after the one with sequence number `after` for which `counts` holds.
    pub(super) fn page(
        &self,
        after: Option<u64>,
        limit: usize,
        counts: impl Fn(&R) -> bool,
    ) -> Result<Page<R>, StateError> {
        if after.is_some_and(|after| after >= self.next) {
            return Err(StateError::NoSuchPage { kind: R::KIND });
        }
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.by_sequence.range((from, Bound::Unbounded)).map(|(_, record)| record);
        let mut rest = rest.filter(|record| counts(record)).map(Arc::clone);
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        let more = rest.next().is_some();
        let next = page.last().map(|record| record.sequence()).filter(|_| more);
        Ok((page, next))
    }

    pub(super) fn insert(&mut self, record: Arc<R>) {
        self.by_id.insert(record.id().clone(), record.sequence());
        self.by_name.insert(record.name().to_owned(), record.sequence());
        self.by_sequence.insert(record.sequence(), record);
    }

    /// Whether it was there.
    pub(super) fn remove(&mut self, record: &R) -> bool {
        let there = self.by_sequence.remove(&record.sequence()).is_some();
        self.by_id.remove(record.id());
        self.by_name.remove(record.name());
        there
    }
}
