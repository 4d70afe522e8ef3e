//! Which write a note becomes: a new event, or one more of an event that was written before. No I/O.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::Note;
use super::event_object::{Source, event_at};

/// Events whose repetitions are recognised. One that was forgotten begins anew.
const REMEMBERED: usize = 512;

/// One write to the API server.
#[derive(Debug)]
pub(super) enum Write {
    /// The event is new.
    Create(Box<Event>),
    /// The event exists: `change` as a merge patch. `event` is what it is afterwards.
    Patch { event: Box<Event>, change: Value },
}

impl Write {
    pub(super) fn event(&self) -> &Event {
        match self {
            Self::Create(event) | Self::Patch { event, .. } => event,
        }
    }
}

/// The events written lately, by what makes two of them identical.
pub(super) struct Repeats {
    source: Source,
    hashers: [RandomState; 2],
    written: HashMap<Identity, Written>,
    uses: u64,
}

/// 128 bits of hash instead of the texts, which can be a kilobyte each.
type Identity = [u64; 2];

struct Written {
    name: String,
    count: i32,
    first: Option<Time>,
    last_use: u64,
}

impl Repeats {
    pub(super) fn new(source: Source) -> Self {
        Self { source, hashers: [RandomState::new(), RandomState::new()], written: HashMap::new(), uses: 0 }
    }

    /// The write that `note` becomes.
    pub(super) fn next(&self, note: &Note) -> Write {
        let mut event =
            Box::new(event_at(&note.about, note.kind, &note.reason, note.message.clone(), &self.source, note.at));
        let Some(written) = self.written.get(&self.identity(note)) else { return Write::Create(event) };
        let count = written.count.saturating_add(1);
        event.metadata.name = Some(written.name.clone());
        event.first_timestamp.clone_from(&written.first);
        event.count = Some(count);
        let change = json!({"count": count, "lastTimestamp": Time(note.at)});
        Write::Patch { event, change }
    }

    /// Remembers that the write of `note` left `event`.
    pub(super) fn written(&mut self, note: &Note, event: &Event) {
        self.uses += 1;
        let identity = self.identity(note);
        if self.written.len() >= REMEMBERED && !self.written.contains_key(&identity) {
            let oldest = self.written.iter().min_by_key(|(_, written)| written.last_use).map(|(identity, _)| *identity);
            oldest.and_then(|oldest| self.written.remove(&oldest));
        }
        let written = Written {
            name: event.metadata.name.clone().unwrap_or_default(),
            count: event.count.unwrap_or(1),
            first: event.first_timestamp.clone(),
            last_use: self.uses,
        };
        self.written.insert(identity, written);
    }

    /// Same object, type, reason and message; the source is the same for all.
    fn identity(&self, note: &Note) -> Identity {
        let about = &note.about;
        self.hashers.each_ref().map(|state| {
            let mut hasher = state.build_hasher();
            (&about.api_version, &about.kind, &about.namespace, &about.name, &about.uid).hash(&mut hasher);
            (&about.field_path, note.kind, &note.reason, &note.message).hash(&mut hasher);
            hasher.finish()
        })
    }
}

#[cfg(test)]
mod tests;
