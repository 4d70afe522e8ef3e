//! From bytes to events and objects, one object at a time, so that one the type does not fit cannot hide the others.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kube::Resource;
use kube::core::Status;
use memchr::memchr;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::failure::Failure;
use super::managed_fields::Cutter;

/// Marks the bookmark after the last object of a watch-list (KEP-3157).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A page of a list.
pub(super) struct Page<'a> {
    pub(super) version: u64,
    pub(super) more: Option<String>,
    pub(super) items: Vec<&'a RawValue>,
}

/// One line of a watch. Objects are the bytes between the right places; whether they are JSON shows when they are decoded.
pub(super) enum Event<'a> {
    Added(&'a [u8]),
    Modified(&'a [u8]),
    Deleted(&'a [u8]),
    Bookmark { version: u64, ends_list: bool },
    Error(Box<Status>),
}

/// Why bytes are no object of a type.
#[derive(Debug)]
pub(super) enum Undecodable<W> {
    /// They are not even JSON: what brought them is broken.
    NotJson(String),
    /// The wire type does not fit it.
    Malformed(Box<Malformed<W>>),
}

/// An object the wire type does not fit.
#[derive(Debug)]
pub(super) struct Malformed<W> {
    /// As far as the object says; empty otherwise.
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) version: u64,
    pub(super) cause: String,
    /// The object with its metadata alone, which is enough to find its key, if at least that fits.
    pub(super) metadata_only: Option<W>,
}

#[derive(Deserialize)]
struct WirePage<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default, borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    more: String,
}

#[derive(Deserialize)]
struct WireEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct WireBookmark {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// The parts of an object that name it, each on its own allowed to be missing.
#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    metadata: NamedMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedMetadata {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
}

#[derive(Deserialize)]
struct RawMetadata<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

/// resourceVersions are decimal numbers that grow (KEP-5504, part of conformance from 1.35).
pub(super) fn version(text: &str) -> Result<u64, Failure> {
    text.parse().map_err(|_| Failure::OpaqueVersion { version: text.to_owned() })
}

pub(super) fn page(body: &[u8]) -> Result<Page<'_>, Failure> {
    let page: WirePage<'_> = serde_json::from_slice(body).map_err(Failure::NotAList)?;
    Ok(Page {
        version: version(&page.metadata.resource_version)?,
        more: Some(page.metadata.more).filter(|token| !token.is_empty()),
        items: page.items.unwrap_or_default(),
    })
}

/// The type and the object of a line as the API server writes it, found without reading the object, which is nearly all
/// of the line and read later anyway.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = line.strip_prefix(br#"{"type":""#)?;
    let (kind, rest) = rest.split_at(memchr(b'"', rest)?);
    let object = rest.strip_prefix(br#"","object":"#)?.strip_suffix(b"}")?;
    (object.starts_with(b"{") && object.ends_with(b"}")).then_some((kind, object))
}

pub(super) fn event(line: &[u8]) -> Result<Event<'_>, Failure> {
    match split(line) {
        Some((b"ADDED", object)) => return Ok(Event::Added(object)),
        Some((b"MODIFIED", object)) => return Ok(Event::Modified(object)),
        Some((b"DELETED", object)) => return Ok(Event::Deleted(object)),
        _ => {}
    }
    let not_an_event = |cause: serde_json::Error| Failure::NotAnEvent { cause: cause.to_string() };
    let event: WireEvent<'_> = match serde_json::from_slice(line) {
        Ok(event) => event,
        // Some failures come as a bare Status in the middle of a stream.
        Err(cause) => {
            return match serde_json::from_slice::<Status>(line) {
                Ok(status) if status.is_failure() => Ok(Event::Error(Box::new(status))),
                Ok(_) | Err(_) => Err(not_an_event(cause)),
            };
        }
    };
    match &*event.kind {
        "ADDED" => Ok(Event::Added(event.object.get().as_bytes())),
        "MODIFIED" => Ok(Event::Modified(event.object.get().as_bytes())),
        "DELETED" => Ok(Event::Deleted(event.object.get().as_bytes())),
        "BOOKMARK" => {
            let bookmark: WireBookmark = serde_json::from_str(event.object.get()).map_err(not_an_event)?;
            Ok(Event::Bookmark {
                version: version(&bookmark.metadata.resource_version)?,
                ends_list: bookmark.metadata.annotations.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true"),
            })
        }
        "ERROR" => {
            serde_json::from_str(event.object.get()).map(|status| Event::Error(Box::new(status))).map_err(not_an_event)
        }
        other => Err(Failure::NotAnEvent { cause: format!("the event type {other:?} is unknown") }),
    }
}

/// An object and its version (zero when it has none).
pub(super) fn object<W>(raw: &[u8], cutter: &mut Cutter) -> Result<(W, u64), Undecodable<W>>
where
    W: Resource<DynamicType = ()> + DeserializeOwned,
{
    match decode::<W>(cutter.cut(raw)) {
        Ok(object) => {
            let version = object.meta().resource_version.as_deref().map_or(0, |text| text.parse().unwrap_or(0));
            Ok((object, version))
        }
        // One that does not fit the type may end before the place where it is no JSON.
        Err(cause) => match serde_json::from_slice::<IgnoredAny>(raw) {
            Ok(_) => Err(Undecodable::Malformed(Box::new(malformed(raw, &cause)))),
            Err(broken) => Err(Undecodable::NotJson(broken.to_string())),
        },
    }
}

fn decode<W: DeserializeOwned>(json: &[u8]) -> Result<W, serde_json::Error> {
    // Looked through once as a whole, and not each string in it.
    let text = str::from_utf8(json).map_or_else(|_| String::from_utf8_lossy(json), Cow::Borrowed);
    serde_json::from_str(&text)
}

fn malformed<W: DeserializeOwned>(raw: &[u8], cause: &serde_json::Error) -> Malformed<W> {
    let named = serde_json::from_slice::<Named>(raw).map(|named| named.metadata).unwrap_or_default();
    let metadata_only = serde_json::from_slice::<RawMetadata<'_>>(raw)
        .ok()
        .and_then(|raw| decode(format!("{{\"metadata\":{}}}", raw.metadata.get()).as_bytes()).ok());
    Malformed {
        namespace: named.namespace.unwrap_or_default(),
        name: named.name.unwrap_or_default(),
        version: named.resource_version.and_then(|text| text.parse().ok()).unwrap_or(0),
        cause: without_place(&cause.to_string()).to_owned(),
        metadata_only,
    }
}

/// Without line and column: nobody sees the JSON they count in, and they differ between a list and a watch.
fn without_place(cause: &str) -> &str {
    cause.split_once(" at line ").map_or(cause, |(cause, _)| cause)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use k8s_openapi::api::core::v1::PersistentVolume;

    use super::*;

    fn volume(raw: &str) -> Result<(PersistentVolume, u64), Undecodable<PersistentVolume>> {
        object(raw.as_bytes(), &mut Cutter::new())
    }

    #[test]
    fn a_page_without_items_is_empty() {
        for body in [
            r#"{"metadata":{"resourceVersion":"7"}}"#,
            r#"{"items":null,"metadata":{"resourceVersion":"7","continue":""}}"#,
        ] {
            let page = page(body.as_bytes()).unwrap();
            assert_eq!((page.version, page.more, page.items.len()), (7, None, 0));
        }
    }

    #[test]
    fn a_list_whose_version_is_no_number_is_refused() {
        let error = page(br#"{"metadata":{"resourceVersion":"abc"}}"#).err().unwrap();
        assert!(error.to_string().contains("\"abc\""), "{error}");
        assert!(page(b"<html>").is_err());
    }

    #[test]
    fn lines_become_events() {
        let table = [
            (r#"{"type":"ADDED","object":{}}"#, "added"),
            (r#"{"object":{},"type":"ADDED"}"#, "added"),
            (r#"{"type":"MODIFIED","object":{}}"#, "modified"),
            (r#"{"object":{},"type":"MODIFIED"}"#, "modified"),
            (r#"{"type":"DELETED","object":{}}"#, "deleted"),
            (r#"{"type":"BOOKMARK","object":{"kind":"X","metadata":{"resourceVersion":"5"}}}"#, "bookmark 5 false"),
            (
                r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"6","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
                "bookmark 6 true",
            ),
            (
                r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","status":"Failure"}}"#,
                "error 410",
            ),
            (r#"{"kind":"Status","status":"Failure","code":500,"message":"x"}"#, "error 500"),
            (r#"{"type":"NEW","object":{}}"#, "failure"),
            (r#"{"type":"BOOKMARK","object":{"metadata":{}}}"#, "failure"),
            (r#"{"type":"ADDED"}"#, "failure"),
            ("{}", "failure"),
            ("<html>", "failure"),
        ];
        for (line, expected) in table {
            let found = match event(line.as_bytes()) {
                Ok(Event::Added(_)) => "added".to_owned(),
                Ok(Event::Modified(_)) => "modified".to_owned(),
                Ok(Event::Deleted(_)) => "deleted".to_owned(),
                Ok(Event::Bookmark { version, ends_list }) => format!("bookmark {version} {ends_list}"),
                Ok(Event::Error(status)) => format!("error {}", status.code),
                Err(_) => "failure".to_owned(),
            };
            assert_eq!(found, expected, "{line}");
        }
    }

    /// An object that is cut off or garbled must not be taken for one that is merely odd, and skipped.
    #[test]
    fn what_is_no_json_is_told_apart_from_what_does_not_fit() {
        for text in [r#"{"metadata":{"name":"pv-1"}"#, r#"{"spec":{"accessModes":"all"},x}"#, "{}}", ""] {
            let error = volume(text).unwrap_err();
            assert!(matches!(error, Undecodable::NotJson(_)), "{text}: {error:?}");
        }
    }

    #[test]
    fn a_malformed_object_is_named_as_far_as_it_goes() {
        let decode = |text: &str| match volume(text).unwrap_err() {
            Undecodable::Malformed(malformed) => *malformed,
            Undecodable::NotJson(cause) => panic!("{cause}"),
        };
        let bad =
            decode(r#"{"metadata":{"name":"pv-1","uid":"u","resourceVersion":"12"},"spec":{"accessModes":"all"}}"#);
        assert_eq!((bad.name.as_str(), bad.version), ("pv-1", 12));
        assert_eq!(bad.cause, "invalid type: string \"all\", expected a sequence");
        assert_eq!(bad.metadata_only.unwrap().metadata.uid.as_deref(), Some("u"));

        let worse = decode(r#"{"metadata":{"name":"pv-1","labels":[]}}"#);
        assert_eq!(worse.name, "pv-1");
        assert!(worse.metadata_only.is_none());

        let worst = decode(r#""text""#);
        assert_eq!((worst.name.as_str(), worst.version), ("", 0));
    }
}
