//! Which write a note becomes, if any, by the rules of client-go's event correlator. No I/O.
//!
//! Three questions, in this order: is it one of many that differ in their message only; has the event it belongs to
//! happened before; may there be another write about this object so soon. A note that is not written because of the
//! third is counted all the same: the next write about it tells.
//!
//! Not guaranteed: that the event to be patched exists. It may never have been written, or the API server, which keeps
//! events for an hour by default, may have forgotten it. Then it has to be created with the count it has.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Note;
use super::event_object::{Source, Stamp, cut_message, event_at};
use super::recent::Recent;

/// The different message with which similar notes begin to share one event.
const MANY: usize = 10;
/// Similar notes that are further apart than this do not count together.
const SIMILAR_FOR: Duration = Duration::from_mins(10);
/// How the message of a shared event begins.
const COMBINED: &str = "(combined from similar events): ";
/// Writes about one object and of one type that may follow each other at once.
const BURST: u32 = 25;
/// How long it takes until there may be one more.
const REFILL: Duration = Duration::from_mins(5);
/// When an object has its full burst again. An event not repeated for that long is gone from the API server as well, unless
/// it keeps events for longer than an hour.
const FORGET_AFTER: Duration = Duration::from_mins(125);

/// One write to the API server.
#[derive(Debug)]
pub(super) enum Write {
    /// The event is new.
    Create(Box<Event>),
    /// The event was there before: `change` as a merge patch. `event` is what it is afterwards.
    Patch { event: Box<Event>, change: Value },
}

impl Write {
    pub(super) fn event(&self) -> &Event {
        match self {
            Self::Create(event) | Self::Patch { event, .. } => event,
        }
    }
}

/// What was recorded lately, in three views.
pub(super) struct Correlator {
    source: Source,
    hasher: RandomState,
    similar: Recent<Similar>,
    observed: Recent<Observed>,
    budgets: Recent<Budget>,
}

/// Notes on one object with one type and reason.
struct Similar {
    /// Hashes of the different messages, fewer than [`MANY`].
    messages: Vec<u64>,
    last: Instant,
}

/// One event.
struct Observed {
    first: Stamp,
    count: i32,
    last: Instant,
}

/// How often there may be a write about one object with one type.
struct Budget {
    /// When the full burst is available again.
    full: Instant,
}

/// Hashes instead of texts, which can be a kilobyte each. The source is the same for all.
struct Keys {
    budget: u64,
    similar: u64,
    identical: u64,
    message: u64,
}

impl Correlator {
    pub(super) fn new(source: Source) -> Self {
        Self {
            source,
            hasher: RandomState::new(),
            similar: Recent::new(),
            observed: Recent::new(),
            budgets: Recent::new(),
        }
    }

    /// The write that `note` becomes at `now`; none when there were too many about its object.
    pub(super) fn next(&mut self, note: &Note, now: Instant) -> Option<Write> {
        let keys = self.keys(note);
        let similar = self.similar.entry(keys.similar, || Similar { messages: Vec::new(), last: now });
        let combined = similar.is_one_of_many(keys.message, now);
        let event = if combined { keys.similar } else { keys.identical };
        let observed = self.observed.entry(event, || Observed { first: Stamp::unique(note.at), count: 0, last: now });
        observed.count = observed.count.saturating_add(1);
        observed.last = now;
        let budget = self.budgets.entry(keys.budget, || Budget { full: now });
        budget.spend(now).then(|| write(note, &self.source, observed, combined))
    }

    /// Drops what makes no difference any more.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.similar.retain(|similar| now.duration_since(similar.last) <= SIMILAR_FOR);
        self.observed.retain(|observed| now.duration_since(observed.last) <= FORGET_AFTER);
        self.budgets.retain(|budget| budget.full > now);
    }

    /// Whether nothing is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.similar.len() + self.observed.len() + self.budgets.len() == 0
    }

    fn keys(&self, note: &Note) -> Keys {
        let about = &note.about;
        let mut hasher = self.hasher.build_hasher();
        (&about.api_version, &about.kind, &about.namespace, &about.name, &about.uid, note.kind).hash(&mut hasher);
        let budget = hasher.finish();
        note.reason.hash(&mut hasher);
        let similar = hasher.finish();
        (&about.field_path, &note.message).hash(&mut hasher);
        Keys { budget, similar, identical: hasher.finish(), message: self.hasher.hash_one(&note.message) }
    }
}

impl Similar {
    /// Takes in one more message, and says whether its note shares an event with the others. Messages that were among the
    /// first keep events of their own.
    fn is_one_of_many(&mut self, message: u64, now: Instant) -> bool {
        if now.duration_since(self.last) > SIMILAR_FOR {
            self.messages.clear();
        }
        self.last = now;
        if self.messages.contains(&message) {
            return false;
        }
        if self.messages.len() + 1 >= MANY {
            return true;
        }
        self.messages.push(message);
        false
    }
}

impl Budget {
    fn spend(&mut self, now: Instant) -> bool {
        let full = self.full.max(now);
        if full.duration_since(now) > REFILL * (BURST - 1) {
            return false;
        }
        self.full = full + REFILL;
        true
    }
}

fn write(note: &Note, source: &Source, observed: &Observed, combined: bool) -> Write {
    let message = if combined { cut_message(format!("{COMBINED}{}", note.message)) } else { note.message.clone() };
    let mut event = Box::new(event_at(&note.about, note.kind, &note.reason, message, source, observed.first));
    if combined {
        // A shared event names its source there only, as client-go's does.
        event.reporting_component = None;
        event.reporting_instance = None;
    }
    if observed.count == 1 {
        return Write::Create(event);
    }
    event.count = Some(observed.count);
    event.last_timestamp = Some(Time(note.at));
    let mut change = json!({"count": observed.count, "lastTimestamp": Time(note.at)});
    if combined {
        change["message"] = json!(event.message);
    }
    Write::Patch { event, change }
}

#[cfg(test)]
mod tests;
