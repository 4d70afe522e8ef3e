//! The bytes all volumes and snapshots may take together.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::state::StateError;

#[derive(Debug)]
pub(crate) struct Budget {
    /// None means that nothing is counted against a limit.
    capacity: Option<i64>,
    /// Of all there is, what is being made included.
    taken: Mutex<i64>,
}

impl Budget {
    pub(super) fn new(capacity: Option<i64>) -> Self {
        Self { capacity, taken: Mutex::new(0) }
    }

    /// What the records of an earlier process take, be it more than the capacity.
    pub(super) fn count(&self, bytes: i64) {
        let mut taken = self.taken.lock();
        *taken = taken.saturating_add(bytes);
    }

    pub(super) fn give_back(&self, bytes: i64) {
        *self.taken.lock() -= bytes;
    }

    /// None without a capacity.
    pub(super) fn free(&self) -> Option<i64> {
        self.capacity.map(|capacity| (capacity - *self.taken.lock()).max(0))
    }

    /// Takes what `choose` makes of the capacity and of what is free of it, with nobody else choosing meanwhile.
    pub(super) fn reserve(
        self: &Arc<Self>,
        choose: impl FnOnce(Option<i64>, Option<i64>) -> Result<i64, StateError>,
    ) -> Result<Reserved, StateError> {
        let mut taken = self.taken.lock();
        let free = self.capacity.map(|capacity| capacity - *taken);
        let bytes = choose(self.capacity, free)?;
        *taken = taken.saturating_add(bytes);
        Ok(Reserved { budget: Arc::clone(self), bytes })
    }

    #[cfg(test)]
    pub(super) fn taken(&self) -> i64 {
        *self.taken.lock()
    }
}

/// Bytes for what is being made; given back when dropped, unless it was made.
#[derive(Debug)]
pub(super) struct Reserved {
    budget: Arc<Budget>,
    bytes: i64,
}

impl Reserved {
    pub(super) fn bytes(&self) -> i64 {
        self.bytes
    }

    /// It was made: its record counts from here on.
    pub(super) fn keep(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}
