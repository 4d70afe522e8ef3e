//! From raw objects to changes of the cache, malformed ones included.

use std::sync::Arc;

use super::cache::Cache;
use super::decode::{self, Malformed, Undecodable};
use super::failure::Failure;
use super::malformed::{MalformedObjects, object_name};
use super::managed_fields::Cutter;
use super::projection::Projection;
use super::store::Store;
use kube::Resource;

pub(super) struct Intake<P: Projection> {
    cache: Arc<Cache<P>>,
    cutter: Cutter,
    malformed: MalformedObjects,
    /// Nothing was kept when the current list began, so that an object of others in it cannot have been ours before.
    afresh: bool,
    /// The current list has an object whose record cannot be told from one that is gone.
    unidentified: bool,
}

impl<P: Projection> Intake<P> {
    pub(super) fn new(cache: Arc<Cache<P>>) -> Self {
        Self {
            cache,
            cutter: Cutter::new(),
            malformed: MalformedObjects::default(),
            afresh: false,
            unidentified: false,
        }
    }

    pub(super) fn cache(&self) -> Arc<Cache<P>> {
        self.cache.clone()
    }

    pub(super) fn begin_list(&mut self) {
        self.afresh = self.cache.read(Store::len) == 0;
        self.cache.begin_list();
        self.malformed.begin_list();
        self.unidentified = false;
    }

    /// Ends a complete list: what it did not have is deleted.
    pub(super) fn end_list(&mut self) {
        if self.unidentified {
            tracing::warn!(
                "a malformed {} cannot be identified; deletions that only this list would have shown are not acted on \
                 before a list without it",
                P::Wire::kind(&())
            );
        } else {
            self.cache.sweep();
        }
        self.malformed.end_list();
    }

    /// Takes in one object that the current list has, and has for the first time.
    pub(super) fn list(&mut self, raw: &[u8]) -> Result<(), Failure> {
        if self.afresh && !self.cache.may_concern(raw) {
            return Ok(());
        }
        self.apply(raw, true).map(drop)
    }

    /// Takes in one object; returns its version, zero when it has none. An error is not about the object: what brought it
    /// is broken.
    pub(super) fn apply(&mut self, raw: &[u8], listing: bool) -> Result<u64, Failure> {
        match decode::object::<P::Wire>(raw, &mut self.cutter) {
            Ok((object, version)) => {
                let meta = object.meta();
                self.malformed.is_well(meta.namespace.as_deref(), meta.name.as_deref());
                self.cache.observe(object, version, listing);
                Ok(version)
            }
            Err(Undecodable::NotJson(cause)) => Err(Failure::NotAnEvent { cause }),
            Err(Undecodable::Malformed(malformed)) => {
                self.tell(&malformed);
                match malformed.metadata_only {
                    Some(object) => {
                        if let Some(key) = self.cache.key(&object) {
                            self.cache.mark(&key);
                        }
                    }
                    None => self.unidentified = true,
                }
                Ok(malformed.version)
            }
        }
    }

    /// Takes out one object, malformed or not.
    pub(super) fn delete(&mut self, raw: &[u8]) -> Result<u64, Failure> {
        let (object, version) = match decode::object::<P::Wire>(raw, &mut self.cutter) {
            Ok(decoded) => decoded,
            Err(Undecodable::NotJson(cause)) => return Err(Failure::NotAnEvent { cause }),
            Err(Undecodable::Malformed(malformed)) => {
                let object = malformed.metadata_only.ok_or_else(|| Failure::NotAnEvent {
                    cause: format!("the deleted object cannot be identified: {}", malformed.cause),
                })?;
                (object, malformed.version)
            }
        };
        let meta = object.meta();
        self.malformed.is_well(meta.namespace.as_deref(), meta.name.as_deref());
        if let Some(key) = self.cache.key(&object) {
            self.cache.remove(&key);
        }
        Ok(version)
    }

    fn tell(&mut self, malformed: &Malformed<P::Wire>) {
        let object = object_name(&malformed.namespace, &malformed.name);
        let text = format!(
            "{} {object} is malformed: {}; it is skipped, and what was known of it before is kept, until it is corrected",
            P::Wire::kind(&()),
            malformed.cause
        );
        if self.malformed.is_news(object, &malformed.cause) {
            tracing::warn!("{text}");
        }
    }
}
