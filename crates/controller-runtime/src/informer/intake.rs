//! From raw objects to changes of one cache, malformed ones included.

use std::sync::Arc;

use kube::Resource as _;
use parking_lot::Mutex;

use super::cache::Cache;
use super::decode::{self, Malformed};
use super::malformed::{MalformedObjects, object_name};
use super::managed_fields::Cutter;
use super::projection::Projection;
use super::store::Store;

/// A cache's side of a shared watch: it takes in the objects of lists and events.
pub(super) trait Sink: Send + Sync {
    /// A list begins.
    fn begin_list(&self);
    /// An object that the list has.
    fn list(&self, json: &[u8]);
    /// The list is complete: what it did not have is deleted. False when an object of it could not be identified, so that
    /// nothing could be deleted.
    fn end_list(&self) -> bool;
    /// An object was made or changed.
    fn apply(&self, json: &[u8]);
    /// An object was deleted, malformed or not. False when it could not be identified.
    fn delete(&self, json: &[u8]) -> bool;
}

pub(super) struct Intake<P: Projection> {
    cache: Arc<Cache<P>>,
    state: Mutex<State>,
}

struct State {
    cutter: Cutter,
    malformed: MalformedObjects,
    /// The cache was empty when the current list began: an object that does not concern it has no record to remove.
    afresh: bool,
    /// The current list has an object without a readable name: any record may be its own, so none may be swept.
    unidentified: bool,
}

impl<P: Projection> Intake<P> {
    pub(super) fn new(cache: Arc<Cache<P>>) -> Self {
        let state =
            State { cutter: Cutter::new(), malformed: MalformedObjects::default(), afresh: false, unidentified: false };
        Self { cache, state: Mutex::new(state) }
    }

    /// The object; `None` after telling that it is malformed and keeping what was known of it.
    fn decode(&self, json: &[u8]) -> Option<(P::Wire, u64)> {
        let mut state = self.state.lock();
        match decode::object::<P::Wire>(json, &mut state.cutter) {
            Ok((object, version)) => {
                let meta = object.meta();
                state.malformed.is_well(meta.namespace.as_deref(), meta.name.as_deref());
                Some((object, version))
            }
            Err(malformed) => {
                state.tell(&malformed);
                match &malformed.metadata_only {
                    Some(object) => self.cache.key(object).iter().for_each(|key| self.cache.mark(key)),
                    None => state.unidentified = true,
                }
                None
            }
        }
    }

    fn observe(&self, json: &[u8], listed: bool) {
        if let Some((object, version)) = self.decode(json) {
            self.cache.observe(object, version, listed);
        }
    }
}

impl<P: Projection> Sink for Intake<P> {
    fn begin_list(&self) {
        let mut state = self.state.lock();
        state.afresh = self.cache.read(Store::len) == 0;
        state.malformed.begin_list();
        state.unidentified = false;
        self.cache.begin_list();
    }

    fn list(&self, json: &[u8]) {
        if self.state.lock().afresh && !self.cache.may_concern(json) {
            return;
        }
        self.observe(json, true);
    }

    fn end_list(&self) -> bool {
        let mut state = self.state.lock();
        state.malformed.end_list();
        let complete = !state.unidentified;
        drop(state);
        if complete {
            self.cache.sweep();
        }
        complete
    }

    fn apply(&self, json: &[u8]) {
        self.observe(json, false);
    }

    fn delete(&self, json: &[u8]) -> bool {
        let mut state = self.state.lock();
        let object = match decode::object::<P::Wire>(json, &mut state.cutter) {
            Ok((object, _)) => Some(object),
            Err(malformed) => malformed.metadata_only,
        };
        let Some(object) = object else { return false };
        let meta = object.meta();
        state.malformed.is_well(meta.namespace.as_deref(), meta.name.as_deref());
        drop(state);
        if let Some(key) = self.cache.key(&object) {
            self.cache.remove(&key);
        }
        true
    }
}

impl State {
    fn tell<W: kube::Resource<DynamicType = ()>>(&mut self, malformed: &Malformed<W>) {
        let object = object_name(&malformed.namespace, &malformed.name);
        let text = format!(
            "{} {object} is malformed: {}; it is skipped, and what was known of it before is kept, until it is corrected",
            W::kind(&()),
            malformed.cause
        );
        if self.malformed.is_news(object, &malformed.cause) {
            tracing::warn!("{text}");
        }
    }
}
