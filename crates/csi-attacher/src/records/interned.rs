//! Values that repeat in many records, kept once.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use foldhash::HashSet;
use parking_lot::Mutex;
use storage_kube::names::Interner;

use super::attachment::AttachmentShape;
use super::volume::VolumeShape;

/// Stores each distinct value once. One that nobody holds is dropped whenever the table has doubled.
#[derive(Debug)]
pub(crate) struct Interned<T> {
    table: Mutex<Table<T>>,
}

#[derive(Debug)]
struct Table<T> {
    values: HashSet<Arc<T>>,
    sweep_at: usize,
}

/// Below this many values a sweep is not worth the walk.
const SMALLEST_SWEEP: usize = 64;

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { table: Mutex::new(Table { values: HashSet::default(), sweep_at: SMALLEST_SWEEP }) }
    }
}

impl<T: Eq + Hash> Interned<T> {
    /// The one shared copy of `value`.
    pub(crate) fn intern(&self, value: T) -> Arc<T> {
        let mut table = self.table.lock();
        if let Some(known) = table.values.get(&value) {
            return Arc::clone(known);
        }
        if table.values.len() >= table.sweep_at {
            table.values.retain(|value| Arc::strong_count(value) > 1);
            table.values.shrink_to_fit();
            table.sweep_at = (table.values.len() * 2).max(SMALLEST_SWEEP);
        }
        let shared = Arc::new(value);
        table.values.insert(Arc::clone(&shared));
        shared
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.table.lock().values.len()
    }
}

/// The tables of one process.
#[derive(Debug, Default)]
pub(crate) struct Interners {
    /// Names of nodes, node ids, and names of volumes that are not of the usual form.
    pub(crate) names: Interner,
    /// `metadata.finalizers`.
    pub(crate) finalizers: Interned<Vec<String>>,
    /// All of an attachment that many have in common.
    pub(crate) attachment_shapes: Interned<AttachmentShape>,
    /// All of a volume that many have in common.
    pub(crate) volume_shapes: Interned<VolumeShape>,
    /// `volumeAttributes`.
    pub(crate) attributes: Interned<BTreeMap<String, String>>,
}
