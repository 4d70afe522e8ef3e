//! Who holds which source, by source. One leader term's memory.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use storage_kube::names::{ClaimUid, Namespace};
use storage_kube::uid::Uid;
use tokio::time::Instant;

use crate::data_source::SourceKey;

/// How a try to provision a claim has ended, as far as its source is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The volume is made, and its PersistentVolume written.
    Made,
    /// The driver has given a final answer, and is asked again later.
    Answered,
    /// A call may still be at work.
    Uncertain,
    /// No call was made.
    Unsent,
    /// No call was made, and none will be while the claim is as it is.
    Refused,
}

/// How long a source is held for a claim that the driver has refused a volume: after its last answer, and after the source is
/// seen to be deleted. A claim that fails for ever must not keep its source for ever.
pub(crate) const AWAITING: Duration = Duration::from_hours(1);

/// Why a claim holds its source.
#[derive(Debug, Clone, Copy, Default)]
struct Hold {
    /// A try is going on, or its call may still be at work.
    trying: bool,
    /// An earlier term may have left a call at work, and this one has no answer of the driver yet.
    inherited: bool,
    /// With `--node-deployment`: the claim is another node's, whose process may have a call at work.
    elsewhere: bool,
    /// When the driver gave its last final answer to a claim that is tried again.
    answered: Option<Instant>,
}

impl Hold {
    /// A call is, or may be, at work.
    fn is_at_work(self) -> bool {
        self.trying || self.inherited || self.elsewhere
    }

    fn is_over(self) -> bool {
        !self.is_at_work() && self.answered.is_none()
    }

    /// How long the claim holds its source while no call is at work; `deleted` is since when the source is seen to be deleted.
    fn awaits(self, deleted: Option<Instant>) -> Option<Duration> {
        let since = self.answered.filter(|_| !self.is_at_work())?;
        let since = deleted.map_or(since, |deleted| since.min(deleted));
        Some((since + AWAITING).saturating_duration_since(Instant::now()))
    }
}

#[derive(Debug, Default)]
struct Source {
    /// Claims that wait for a volume from it, holding or not.
    waiting: HashSet<ClaimUid>,
    holds: HashMap<ClaimUid, Hold>,
    /// UID of the object that carries our finalizer, if this term has put it on or found it there.
    protected: Option<Uid>,
    /// Since when it is seen to be deleted.
    deleted: Option<Instant>,
    /// Somebody would have taken the finalizer off, but for the holds.
    asked: bool,
    /// Held by whoever changes the finalizer.
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug, Default)]
struct Table {
    sources: HashMap<SourceKey, Source>,
    /// The source of each claim in the table.
    of_claim: HashMap<ClaimUid, SourceKey>,
    told: bool,
    /// The claims that were there when the term began are in the table.
    all_known: bool,
}

impl Table {
    /// Forgets a source that nobody waits for and whose finalizer is off.
    fn tidy(&mut self, key: &SourceKey) {
        let idle = |source: &Source| {
            source.waiting.is_empty()
                && source.holds.is_empty()
                && source.protected.is_none()
                && Arc::strong_count(&source.turn) == 1
        };
        if self.sources.get(key).is_some_and(idle) {
            self.sources.remove(key);
        }
    }

    fn waits(&self, claim: &ClaimUid) -> bool {
        let source = self.of_claim.get(claim).and_then(|key| self.sources.get(key));
        source.is_some_and(|source| source.waiting.contains(claim))
    }

    /// Ends one claim's hold if nothing speaks for it, and returns the source when that was the last one and the finalizer
    /// may be on.
    fn let_go(&mut self, claim: &ClaimUid, change: impl FnOnce(&mut Hold)) -> Option<SourceKey> {
        let key = self.of_claim.get(claim)?.clone();
        let source = self.sources.get_mut(&key)?;
        let hold = source.holds.get_mut(claim)?;
        change(hold);
        if !hold.is_over() {
            return None;
        }
        source.holds.remove(claim);
        let release = source.holds.is_empty() && (source.protected.is_some() || source.asked);
        if !source.waiting.contains(claim) {
            self.of_claim.remove(claim);
        }
        if release {
            return Some(key);
        }
        self.tidy(&key);
        None
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    table: Mutex<Table>,
}

impl Holds {
    /// A claim waits for a volume from this source. That alone holds nothing.
    pub(crate) fn waits(&self, claim: &ClaimUid, key: &SourceKey) {
        let mut table = self.table.lock();
        table.sources.entry(key.clone()).or_default().waiting.insert(claim.clone());
        table.of_claim.insert(claim.clone(), key.clone());
    }

    /// The claims that were there when the term began have been told of.
    pub(crate) fn complete(&self) {
        self.table.lock().all_known = true;
    }

    /// Whether a claim that appears is new. Only claims of the time before can have calls that this term does not know of.
    pub(crate) fn all_known(&self) -> bool {
        self.table.lock().all_known
    }

    /// A claim from before this term.
    pub(crate) fn inherit(&self, claim: &ClaimUid, key: &SourceKey) {
        self.hold(claim, key, |hold| hold.inherited = true);
    }

    /// The driver gave a final answer in an earlier term, and the claim is tried again.
    pub(crate) fn answered_before(&self, claim: &ClaimUid, key: &SourceKey) {
        self.hold(claim, key, |hold| hold.answered = Some(Instant::now()));
    }

    /// A claim of another node: what its process does with it is not seen from here, so it holds as long as it waits there.
    pub(crate) fn elsewhere(&self, claim: &ClaimUid, key: &SourceKey) {
        self.hold(claim, key, |hold| hold.elsewhere = true);
    }

    /// The claim is of this node, or of none. Returns the source if nothing holds it any more.
    pub(crate) fn not_elsewhere(&self, claim: &ClaimUid) -> Option<SourceKey> {
        self.table.lock().let_go(claim, |hold| hold.elsewhere = false)
    }

    /// No call of an earlier term is at work on this source. To be called during a try, which holds it.
    pub(crate) fn nothing_inherited(&self, key: &SourceKey) {
        if let Some(source) = self.table.lock().sources.get_mut(key) {
            source.holds.values_mut().for_each(|hold| hold.inherited = false);
            source.holds.retain(|_, hold| !hold.is_over());
        }
    }

    /// A try begins; to be called before the source is read.
    pub(crate) fn begin(&self, claim: &ClaimUid, key: &SourceKey) {
        self.hold(claim, key, |hold| hold.trying = true);
    }

    fn hold(&self, claim: &ClaimUid, key: &SourceKey, change: impl FnOnce(&mut Hold)) {
        let mut table = self.table.lock();
        change(table.sources.entry(key.clone()).or_default().holds.entry(claim.clone()).or_default());
        table.of_claim.insert(claim.clone(), key.clone());
    }

    /// A try has ended. Returns the source if nothing holds it any more.
    pub(crate) fn end(&self, claim: &ClaimUid, end: End) -> Option<SourceKey> {
        let mut table = self.table.lock();
        let waits = table.waits(claim);
        table.let_go(claim, |hold| match end {
            End::Made => (hold.trying, hold.inherited, hold.answered) = (false, false, None),
            // A claim that is gone is not tried again.
            End::Answered => (hold.trying, hold.inherited, hold.answered) = (false, false, waits.then(Instant::now)),
            End::Uncertain => {}
            End::Unsent => hold.trying = false,
            End::Refused => (hold.trying, hold.answered) = (false, None),
        })
    }

    /// The source of a claim that the driver has refused a volume, and how long it is held for that claim.
    pub(crate) fn awaited(&self, claim: &ClaimUid) -> Option<(SourceKey, Duration)> {
        let table = self.table.lock();
        let key = table.of_claim.get(claim)?;
        let source = table.sources.get(key)?;
        Some((key.clone(), source.holds.get(claim)?.awaits(source.deleted)?))
    }

    /// Ends the holds whose time is over, and returns their claims.
    pub(crate) fn expire(&self, key: &SourceKey) -> Vec<ClaimUid> {
        let mut table = self.table.lock();
        let Some(source) = table.sources.get_mut(key) else { return Vec::new() };
        let deleted = source.deleted;
        let over = |hold: &Hold| hold.awaits(deleted) == Some(Duration::ZERO);
        source.holds.extract_if(|_, hold| over(hold)).map(|(claim, _)| claim).collect()
    }

    /// When the next hold of the source ends if nothing happens.
    pub(crate) fn next_expiry(&self, key: &SourceKey) -> Option<Duration> {
        let table = self.table.lock();
        let source = table.sources.get(key)?;
        source.holds.values().filter_map(|hold| hold.awaits(source.deleted)).min()
    }

    /// Notes whether the source is being deleted; says whether that is news, and there are holds it has to wait for.
    pub(crate) fn is_deleted(&self, key: &SourceKey, deleted: bool) -> bool {
        let mut table = self.table.lock();
        let Some(source) = table.sources.get_mut(key) else { return false };
        let known = source.deleted;
        source.deleted = deleted.then(|| known.unwrap_or_else(Instant::now));
        deleted && known.is_none() && !source.holds.is_empty()
    }

    /// A claim waits no more: it is bound or gone. A try of it that goes on, or is uncertain, holds on.
    pub(crate) fn claim_gone(&self, claim: &ClaimUid) -> Option<SourceKey> {
        let mut table = self.table.lock();
        let key = table.of_claim.get(claim)?.clone();
        if let Some(source) = table.sources.get_mut(&key) {
            source.waiting.remove(claim);
            if !source.holds.contains_key(claim) {
                table.of_claim.remove(claim);
                table.tidy(&key);
                return None;
            }
        }
        table.let_go(claim, |hold| (hold.inherited, hold.elsewhere, hold.answered) = (false, false, None))
    }

    /// A claim that holds the source, asked by who would take the finalizer off. When there is one, the end of the last hold
    /// returns the source.
    pub(crate) fn holder(&self, key: &SourceKey) -> Option<ClaimUid> {
        let mut table = self.table.lock();
        let source = table.sources.get_mut(key)?;
        let holder = source.holds.keys().next().cloned();
        source.asked = holder.is_some();
        holder
    }

    /// The claims that hold the source.
    pub(crate) fn holders(&self, key: &SourceKey) -> Vec<ClaimUid> {
        let table = self.table.lock();
        table.sources.get(key).into_iter().flat_map(|source| source.holds.keys().cloned()).collect()
    }

    /// Claims that wait for volumes from sources in this namespace.
    pub(crate) fn waiting_for(&self, namespace: &Namespace) -> Vec<ClaimUid> {
        let table = self.table.lock();
        let sources = table.sources.iter().filter(|(key, _)| key.namespace() == namespace);
        sources.flat_map(|(_, source)| source.waiting.iter().cloned()).collect()
    }

    /// The right to change the finalizer of a source.
    pub(crate) fn turn(&self, key: &SourceKey) -> Arc<tokio::sync::Mutex<()>> {
        Arc::clone(&self.table.lock().sources.entry(key.clone()).or_default().turn)
    }

    /// Whether this term knows the finalizer to be on this very object.
    pub(crate) fn is_protected(&self, key: &SourceKey, uid: &Uid) -> bool {
        self.table.lock().sources.get(key).is_some_and(|source| source.protected.as_ref() == Some(uid))
    }

    pub(crate) fn protected(&self, key: &SourceKey, uid: &Uid) {
        if let Some(source) = self.table.lock().sources.get_mut(key) {
            source.protected = Some(uid.clone());
        }
    }

    /// The finalizer is off, or is not ours. To be called by the holder of the turn, which is given back by this.
    pub(crate) fn released(&self, key: &SourceKey) {
        let mut table = self.table.lock();
        if let Some(source) = table.sources.get_mut(key) {
            source.protected = None;
            source.deleted = None;
        }
    }

    /// Drops what is remembered of a source that nobody is interested in.
    pub(crate) fn tidy(&self, key: &SourceKey) {
        self.table.lock().tidy(key);
    }

    /// True once.
    pub(crate) fn tell_once(&self) -> bool {
        !std::mem::replace(&mut self.table.lock().told, true)
    }
}
