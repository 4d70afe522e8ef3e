//! The Event object, as client-go's recorder fills it.

use std::sync::atomic::{AtomicI64, Ordering};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Longest message the API server accepts, in bytes.
const MESSAGE_LIMIT: usize = 1024;
/// Longest object name.
const NAME_LIMIT: usize = 253;

/// `Event.type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Things go as they should.
    Normal,
    /// A user or administrator may have to act.
    Warning,
}

impl EventKind {
    /// The value of `Event.type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Who reports.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    pub(crate) component: String,
    pub(crate) instance: String,
}

/// An event that happened for the first time, at this moment.
pub(crate) fn new_event(
    about: &ObjectReference,
    kind: EventKind,
    reason: &str,
    message: &str,
    source: &Source,
) -> Event {
    event_at(about, kind, reason, cut_message(message.to_owned()), source, Stamp::unique(Timestamp::now()))
}

pub(super) fn event_at(
    about: &ObjectReference,
    kind: EventKind,
    reason: &str,
    message: String,
    source: &Source,
    first: Stamp,
) -> Event {
    let at = first.time();
    let host = Some(source.instance.clone()).filter(|instance| !instance.is_empty());
    let mut event = Event {
        involved_object: about.clone(),
        type_: Some(kind.as_str().to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(message),
        count: Some(1),
        first_timestamp: Some(Time(at)),
        last_timestamp: Some(Time(at)),
        source: Some(EventSource { component: Some(source.component.clone()), host: host.clone() }),
        reporting_component: Some(source.component.clone()),
        reporting_instance: host,
        ..Event::default()
    };
    event.metadata.name = Some(event_name(about.name.as_deref().unwrap_or_default(), first));
    event.metadata.namespace = Some(namespace_of(about).to_owned());
    event
}

/// Events about objects without a namespace live in `default`; the API server insists on it.
fn namespace_of(about: &ObjectReference) -> &str {
    about.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

/// When an event happened first, in nanoseconds since 1970; no two are equal within the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp(i64);

impl Stamp {
    /// The stamp of something that happened `at`, or the nanoseconds after it that the last stamp has taken.
    pub(super) fn unique(at: Timestamp) -> Self {
        static LAST: AtomicI64 = AtomicI64::new(0);
        let nanos = i64::try_from(at.as_nanosecond()).unwrap_or(i64::MAX);
        let next = |last: i64| nanos.max(last.saturating_add(1));
        let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        Self(next(last.unwrap_or_else(|last| last)))
    }

    fn time(self) -> Timestamp {
        Timestamp::from_nanosecond(self.0.into()).unwrap_or(Timestamp::MAX)
    }
}

/// `<object>.<time in hexadecimal nanoseconds>`.
fn event_name(object: &str, first: Stamp) -> String {
    let suffix = format!(".{:x}", first.0);
    let mut name = object.to_owned();
    cut(&mut name, NAME_LIMIT - suffix.len());
    name.push_str(&suffix);
    name
}

pub(super) fn cut_message(mut message: String) -> String {
    cut(&mut message, MESSAGE_LIMIT);
    message
}

fn cut(text: &mut String, limit: usize) {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_at_a_character() {
        let table = [
            ("short".to_owned(), 5),
            ("x".repeat(1024), 1024),
            ("x".repeat(1025), 1024),
            (format!("{}ä", "x".repeat(1023)), 1023),
            ("語".repeat(400), 1023),
        ];
        for (message, expected) in table {
            assert_eq!(cut_message(message.clone()).len(), expected, "{message}");
        }
    }

    #[test]
    fn event_names_are_unique_and_fit() {
        let at = Timestamp::now();
        let names: Vec<_> = (0..3).map(|_| event_name("pvc-1", Stamp::unique(at))).collect();
        assert!(names.iter().all(|name| name.starts_with("pvc-1.") && name.len() == "pvc-1.".len() + 16), "{names:?}");
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2], "{names:?}");
        assert_eq!(event_name(&"n".repeat(253), Stamp::unique(at)).len(), 253);
    }
}
