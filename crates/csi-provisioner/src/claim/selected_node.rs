//! The annotation `volume.kubernetes.io/selected-node` of a claim.

use kube::{Client, Error};
use serde_json::{Value, json};
use storage_kube::annotations::SELECTED_NODE;
use storage_kube::names::{ClaimUid, NodeName};
use storage_kube::uid::Uid;
use storage_kube::wire::PersistentVolumeClaim;
use thiserror::Error as ThisError;

use crate::records::ClaimRecord;
use crate::whole_object::{TRIES, WholeObject, is_conflict};

/// Why the annotation is not written.
#[derive(Debug, ThisError)]
pub(crate) enum WriteError {
    #[error("persistentvolumeclaim {claim} could not be read: {source}")]
    Read { claim: String, source: Box<Error> },
    #[error("annotation {SELECTED_NODE} of persistentvolumeclaim {claim} could not be written: {source}")]
    Write { claim: String, source: Box<Error> },
    #[error(
        "persistentvolumeclaim {claim} was changed by others {TRIES} times while its annotation {SELECTED_NODE} was to be written"
    )]
    Conflicts { claim: String },
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Written {
    /// The claim is as asked for, in this version.
    Version(String),
    /// Nothing was written: the claim is gone, bound, made anew, or has another node than `claim` says.
    Overtaken,
}

/// Sets the selected node, or with `None` removes it, if the claim still is as the record says: the same UID, unbound,
/// and with the same node selected.
pub(crate) async fn write(api: &Client, claim: &ClaimRecord, node: Option<&NodeName>) -> Result<Written, WriteError> {
    let whole = WholeObject::of::<PersistentVolumeClaim>(api, claim.namespace.as_str(), claim.name.as_str());
    let unread = |source: Error| WriteError::Read { claim: claim.full_name(), source: Box::new(source) };
    let unwritten = |source: Error| WriteError::Write { claim: claim.full_name(), source: Box::new(source) };
    for _ in 0..TRIES {
        let Some(mut object) = whole.read().await.map_err(unread)? else { return Ok(Written::Overtaken) };
        if !is_as_decided(claim, &object) {
            return Ok(Written::Overtaken);
        }
        annotate(&mut object, node);
        match whole.replace(&object).await {
            Ok(answer) => {
                let object: Value =
                    serde_json::from_str(&answer).map_err(|error| unwritten(Error::SerdeError(error)))?;
                return Ok(Written::Version(text(&object, "/metadata/resourceVersion").to_owned()));
            }
            Err(Error::Api(status)) if status.code == 404 => return Ok(Written::Overtaken),
            Err(error) if is_conflict(&error) => {}
            Err(error) => return Err(unwritten(error)),
        }
    }
    Err(WriteError::Conflicts { claim: claim.full_name() })
}

fn is_as_decided(claim: &ClaimRecord, object: &Value) -> bool {
    let selected = object.pointer("/metadata/annotations").and_then(|annotations| annotations.get(SELECTED_NODE));
    let selected = selected.and_then(Value::as_str).filter(|node| !node.is_empty());
    ClaimUid(Uid::from(text(object, "/metadata/uid"))) == claim.uid
        && text(object, "/spec/volumeName").is_empty()
        && selected == claim.selected_node.as_ref().map(NodeName::as_str)
}

fn annotate(object: &mut Value, node: Option<&NodeName>) {
    let annotations = &mut object["metadata"]["annotations"];
    match node {
        Some(node) => annotations[SELECTED_NODE] = json!(node.as_str()),
        None => {
            if let Some(annotations) = annotations.as_object_mut() {
                annotations.remove(SELECTED_NODE);
            }
        }
    }
}

fn text<'o>(object: &'o Value, pointer: &str) -> &'o str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
