//! One operation per key at a time.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The keys with an operation under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<Taken>);

#[derive(Debug, Default)]
struct Taken {
    keys: Mutex<HashSet<String>>,
    freed: Notify,
}

/// The right to work on one key; given back when dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    taken: Arc<Taken>,
    key: String,
}

impl Turns {
    /// The turn, unless an operation on the key is under way.
    pub(crate) fn try_take(&self, key: &str) -> Option<Turn> {
        let free = self.0.keys.lock().insert(key.to_owned());
        free.then(|| Turn { taken: Arc::clone(&self.0), key: key.to_owned() })
    }

    /// Waits for the turn. Those who wait for one key get it in no particular order.
    pub(crate) async fn take(&self, key: &str) -> Turn {
        loop {
            // Made before the look at the keys: a turn given back in between wakes it.
            let freed = self.0.freed.notified();
            if let Some(turn) = self.try_take(key) {
                return turn;
            }
            freed.await;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.taken.keys.lock().remove(&self.key);
        self.taken.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[tokio::test]
    async fn a_key_is_worked_on_once_at_a_time_and_others_are_not_held_up() {
        let turns = Turns::default();
        let first = turns.take("a").await;
        assert!(turns.try_take("a").is_none());
        drop(turns.take("b").await);
        let next = async || drop(turns.take("a").await);
        let waiting = async { tokio::join!(next(), next(), async { drop(first) }) };
        tokio::time::timeout(std::time::Duration::from_secs(1), waiting).await.expect("both get their turn");
        assert!(turns.try_take("a").is_some());
    }
}
