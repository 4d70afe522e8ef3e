//! From the JSON of one object to its type.

use std::borrow::Cow;

use kube::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::managed_fields::Cutter;

/// An object the wire type does not fit.
#[derive(Debug)]
pub(super) struct Malformed<W> {
    /// As far as the object says; empty otherwise.
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) cause: String,
    /// The object with its metadata alone, which is enough to find its key, if at least that fits.
    pub(super) metadata_only: Option<W>,
}

/// The parts of an object that name it, each on its own allowed to be missing.
#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    metadata: NamedMetadata,
}

#[derive(Default, Deserialize)]
struct NamedMetadata {
    name: Option<String>,
    namespace: Option<String>,
}

#[derive(Deserialize)]
struct RawMetadata<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

/// An object and its version (zero when it has none that is a number).
pub(super) fn object<W>(json: &[u8], cutter: &mut Cutter) -> Result<(W, u64), Box<Malformed<W>>>
where
    W: Resource<DynamicType = ()> + DeserializeOwned,
{
    let object = decode::<W>(cutter.cut(json)).map_err(|cause| Box::new(malformed(json, &cause)))?;
    let version = object.meta().resource_version.as_deref().map_or(0, |text| text.parse().unwrap_or(0));
    Ok((object, version))
}

fn decode<W: DeserializeOwned>(json: &[u8]) -> Result<W, serde_json::Error> {
    // Looked through once as a whole, and not each string in it.
    let text = str::from_utf8(json).map_or_else(|_| String::from_utf8_lossy(json), Cow::Borrowed);
    serde_json::from_str(&text)
}

fn malformed<W: DeserializeOwned>(json: &[u8], cause: &serde_json::Error) -> Malformed<W> {
    let named = serde_json::from_slice::<Named>(json).map(|named| named.metadata).unwrap_or_default();
    let metadata_only = serde_json::from_slice::<RawMetadata<'_>>(json)
        .ok()
        .and_then(|raw| decode(format!("{{\"metadata\":{}}}", raw.metadata.get()).as_bytes()).ok());
    Malformed {
        namespace: named.namespace.unwrap_or_default(),
        name: named.name.unwrap_or_default(),
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

    #[test]
    fn a_malformed_object_is_named_as_far_as_it_goes() {
        let decode = |text: &str| object::<PersistentVolume>(text.as_bytes(), &mut Cutter::new()).unwrap_err();
        let bad =
            decode(r#"{"metadata":{"name":"pv-1","uid":"u","resourceVersion":"12"},"spec":{"accessModes":"all"}}"#);
        assert_eq!(bad.name, "pv-1");
        assert_eq!(bad.cause, "invalid type: string \"all\", expected a sequence");
        assert_eq!(bad.metadata_only.unwrap().metadata.uid.as_deref(), Some("u"));

        let worse = decode(r#"{"metadata":{"name":"pv-1","labels":[]}}"#);
        assert_eq!(worse.name, "pv-1");
        assert!(worse.metadata_only.is_none());

        let worst = decode(r#""text""#);
        assert_eq!(worst.name, "");
    }
}
