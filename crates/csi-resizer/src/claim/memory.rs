//! What a term remembers of its own work on claims, by UID: a claim made anew has the same name.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use storage_kube::names::{ClaimUid, ClassName};

use crate::expand::Grown;
use crate::records::ClaimRecord;

/// Of one claim.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Memory {
    /// The API server's answer to the last own write, until the cache has reached it.
    answer: Option<Arc<ClaimRecord>>,
    /// The volume is of another driver, which a volume stays for ever.
    pub(crate) is_foreign: bool,
    /// The last call to grow the volume was answered with an error that leaves nothing behind: the claim may ask for less.
    pub(crate) expand_failed_finally: bool,
    /// The driver has grown the volume, and not all that follows was written.
    pub(crate) grown: Option<Grown>,
    /// The driver has said that it cannot grow the volume while it is in use.
    pub(crate) was_in_use: bool,
    /// An event says that the claim waits for its node.
    pub(crate) told_of_node: bool,
    /// The last call to modify the volume was answered with an error that leaves nothing behind.
    pub(crate) modify_failed_finally: bool,
    /// The driver has given the volume this class, and not all that follows was written.
    pub(crate) modified: Option<ClassName>,
}

impl Memory {
    fn is_empty(&self) -> bool {
        let Self {
            answer,
            is_foreign,
            expand_failed_finally,
            grown,
            was_in_use,
            told_of_node,
            modify_failed_finally,
            modified,
        } = self;
        let flags = [is_foreign, expand_failed_finally, was_in_use, told_of_node, modify_failed_finally];
        answer.is_none() && grown.is_none() && modified.is_none() && !flags.into_iter().any(|flag| *flag)
    }
}

/// Holds only claims of which there is something to remember.
#[derive(Default)]
pub(crate) struct Memories {
    claims: Mutex<HashMap<ClaimUid, Memory>>,
}

impl Memories {
    /// What is remembered.
    pub(crate) fn get(&self, claim: &ClaimUid) -> Memory {
        self.claims.lock().get(claim).cloned().unwrap_or_default()
    }

    /// Changes what is remembered.
    pub(crate) fn change(&self, claim: &ClaimUid, change: impl FnOnce(&mut Memory)) {
        let mut claims = self.claims.lock();
        let memory = claims.entry(claim.clone()).or_default();
        change(memory);
        if memory.is_empty() {
            claims.remove(claim);
            if claims.is_empty() {
                *claims = HashMap::new();
            }
        }
    }

    /// The newer of the cached record and the API server's last answer.
    pub(crate) fn newest(&self, cached: Arc<ClaimRecord>) -> Arc<ClaimRecord> {
        let claims = self.claims.lock();
        let answer = claims.get(&cached.uid).and_then(|memory| memory.answer.as_ref());
        match answer {
            Some(answer) if version(answer) > version(&cached) => Arc::clone(answer),
            _ => cached,
        }
    }

    /// The API server has answered this to an own write; `cached` may have it already.
    pub(crate) fn answered(&self, answer: &Arc<ClaimRecord>, cached: &ClaimRecord) {
        let news = version(answer) > version(cached);
        self.change(&answer.uid, |memory| memory.answer = news.then(|| Arc::clone(answer)));
    }

    /// The cache shows this: an older answer is not needed any more. Whether it is how an own write has left the claim.
    pub(crate) fn seen(&self, cached: &ClaimRecord) -> bool {
        let mut own = false;
        if self.claims.lock().contains_key(&cached.uid) {
            self.change(&cached.uid, |memory| {
                let Some(answer) = &memory.answer else { return };
                own = version(answer) >= version(cached);
                if version(answer) <= version(cached) {
                    memory.answer = None;
                }
            });
        }
        own
    }

    /// The claim is gone.
    pub(crate) fn forget(&self, claim: &ClaimUid) {
        self.change(claim, |memory| *memory = Memory::default());
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.claims.lock().len()
    }
}

/// resourceVersions of one kind are ordered (KEP-5504).
fn version(claim: &ClaimRecord) -> u64 {
    claim.resource_version.parse().unwrap_or(0)
}
