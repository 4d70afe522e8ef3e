//! A map that forgets what was not used for longest.

use std::collections::HashMap;

/// Entries that are never forgotten for lack of room.
pub(super) const REMEMBERED: usize = 4096;
/// How many are forgotten at once: the order of use is looked for once in so many insertions.
const BATCH: usize = 512;

/// Values by 64 bits of hash, the last [`REMEMBERED`] used and up to `BATCH` more.
pub(super) struct Recent<V> {
    entries: HashMap<u64, Entry<V>>,
    uses: u64,
}

struct Entry<V> {
    value: V,
    /// The use it was last needed for.
    used: u64,
}

impl<V> Recent<V> {
    pub(super) fn new() -> Self {
        Self { entries: HashMap::new(), uses: 0 }
    }

    /// The value of `key`, made when it is not there. It counts as used.
    pub(super) fn entry(&mut self, key: u64, new: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        if self.entries.len() >= REMEMBERED + BATCH && !self.entries.contains_key(&key) {
            self.make_room();
        }
        let used = self.uses;
        let entry = self.entries.entry(key).or_insert_with(|| Entry { value: new(), used });
        entry.used = used;
        &mut entry.value
    }

    /// Forgets what does not matter any more, and gives the memory back.
    pub(super) fn retain(&mut self, matters: impl Fn(&V) -> bool) {
        self.entries.retain(|_, entry| matters(&entry.value));
        self.entries.shrink_to_fit();
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn make_room(&mut self) {
        let mut uses: Vec<u64> = self.entries.values().map(|entry| entry.used).collect();
        let surplus = uses.len().saturating_sub(REMEMBERED);
        let (_, oldest_kept, _) = uses.select_nth_unstable(surplus);
        let oldest_kept = *oldest_kept;
        self.entries.retain(|_, entry| entry.used >= oldest_kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_is_forgotten_first() {
        let mut recent = Recent::new();
        let room = u64::try_from(REMEMBERED + BATCH).unwrap_or_default();
        for key in 0..room {
            recent.entry(key, || "first");
        }
        assert_eq!(recent.len(), REMEMBERED + BATCH);
        recent.entry(0, || "not needed");
        recent.entry(room, || "one more");
        assert_eq!(recent.len(), REMEMBERED + 1);
        assert_eq!(*recent.entry(0, || "again"), "first", "it was used since");
        assert_eq!(*recent.entry(1, || "again"), "again");
        assert_eq!(*recent.entry(room - 1, || "again"), "first");
        for key in 0..3 * room {
            recent.entry(key, || "");
            assert!(recent.len() <= REMEMBERED + BATCH);
        }
    }

    #[test]
    fn nothing_is_kept_of_what_does_not_matter() {
        let mut recent = Recent::new();
        for key in 0..1000_u64 {
            recent.entry(key, || key);
        }
        recent.retain(|key| *key < 2);
        assert_eq!(recent.len(), 2);
        assert!(recent.entries.capacity() < 16);
        recent.retain(|_| false);
        assert_eq!(recent.entries.capacity(), 0);
    }
}
