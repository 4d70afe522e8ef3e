//! What listings have shown otherwise than the statuses say, and whether that counts.

use std::collections::HashMap;

use parking_lot::Mutex;
use storage_kube::names::AttachmentName;
use storage_kube::uid::Uid;
use tokio::time::Instant;

/// How a listing differs from an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// It is attached, and the driver does not list it at its node.
    NotPublished,
    /// It was let go, and the driver still lists it at its node.
    StillPublished,
}

/// The memory of one term.
pub(crate) struct Mismatches {
    /// Whether there are listings at all.
    listed: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When the last complete listing began, and what it showed.
    last: Option<(Instant, HashMap<Uid, Mismatch>)>,
    /// When our last call for an attachment ended, unless that was before the last complete listing began. No more than there are
    /// attachments.
    calls: HashMap<Uid, Instant>,
    /// Shown by two listings; the first of them began then.
    confirmed: HashMap<Uid, (Mismatch, Instant)>,
}

impl State {
    fn called_since(&self, uid: &Uid, listing: Instant) -> bool {
        self.calls.get(uid).is_some_and(|ended| *ended >= listing)
    }
}

impl Mismatches {
    /// `listed`: the driver lists where volumes are published; else nothing is remembered.
    pub(crate) fn new(listed: bool) -> Self {
        Self { listed, state: Mutex::default() }
    }

    /// A call for this attachment has ended, whatever its outcome.
    pub(crate) fn call_ended(&self, uid: &Uid) {
        let mut state = self.state.lock();
        // What was found before is about an earlier state.
        state.confirmed.remove(uid);
        if self.listed {
            state.calls.insert(uid.clone(), Instant::now());
        }
    }

    /// A complete listing that began then has shown these. Returns those that the one before has shown as well.
    pub(crate) fn listed(
        &self,
        began: Instant,
        found: Vec<(Uid, AttachmentName, Mismatch)>,
    ) -> Vec<(AttachmentName, Mismatch)> {
        let mut state = self.state.lock();
        let before = state.last.take();
        let mut shown = HashMap::with_capacity(found.len());
        let mut counting = Vec::new();
        state.confirmed.clear();
        for (uid, name, mismatch) in found {
            if let Some((first, earlier)) = &before
                && earlier.get(&uid) == Some(&mismatch)
                && !state.called_since(&uid, *first)
            {
                state.confirmed.insert(uid.clone(), (mismatch, *first));
                counting.push((name, mismatch));
            }
            shown.insert(uid, mismatch);
        }
        state.calls.retain(|_, ended| *ended >= began);
        state.last = Some((began, shown));
        counting
    }

    /// What counts about an attachment at this moment; it is acted on once.
    pub(crate) fn take(&self, uid: &Uid) -> Option<Mismatch> {
        let mut state = self.state.lock();
        let (mismatch, first) = state.confirmed.remove(uid)?;
        (!state.called_since(uid, first)).then_some(mismatch)
    }

    /// The attachment is gone.
    pub(crate) fn forget(&self, uid: &Uid) {
        let mut state = self.state.lock();
        state.calls.remove(uid);
        state.confirmed.remove(uid);
        if let Some((_, shown)) = &mut state.last {
            shown.remove(uid);
        }
    }
}
