//! The fields of a VolumeAttachment that patches can have.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};
use storage_kube::annotations::PUBLISHED_NODE_ID;
use storage_kube::names::NodeId;
use storage_kube::uid::Uid;

/// A JSON merge patch of a VolumeAttachment.
#[derive(Debug, Serialize)]
pub(crate) struct AttachmentPatch<'a> {
    pub(super) metadata: MetadataPatch,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<StatusPatch<'a>>,
}

/// What a merge patch says about a field.
#[derive(Debug, Default)]
pub(super) enum Field<T> {
    /// Nothing: the field is left out.
    #[default]
    Kept,
    Removed,
    Set(T),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetadataPatch {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) annotations: Option<PublishedNode>,
    #[serde(skip_serializing_if = "Field::is_kept")]
    pub(super) finalizers: Field<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resource_version: Option<Text<u64>>,
    pub(super) uid: Text<Uid>,
}

/// The annotation that notes what the driver calls the node.
#[derive(Debug)]
pub(super) struct PublishedNode(pub(super) NodeId);

/// What is a text to the API.
#[derive(Debug)]
pub(super) struct Text<T>(pub(super) T);

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusPatch<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attached: Option<bool>,
    /// Null takes a key out.
    #[serde(skip_serializing_if = "Field::is_kept")]
    pub(super) attachment_metadata: Field<BTreeMap<&'a str, Option<&'a str>>>,
    #[serde(skip_serializing_if = "Field::is_kept")]
    pub(super) attach_error: Field<VolumeError<'a>>,
    #[serde(skip_serializing_if = "Field::is_kept")]
    pub(super) detach_error: Field<VolumeError<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VolumeError<'a> {
    pub(super) message: &'a str,
    /// RFC 3339, to the second.
    pub(super) time: String,
    /// Removed where there is none: the error before may have had one.
    #[serde(skip_serializing_if = "Field::is_kept")]
    pub(super) error_code: Field<i32>,
}

impl MetadataPatch {
    /// Says which attachment is meant, and changes nothing.
    pub(super) fn of(uid: &Uid) -> Self {
        Self { annotations: None, finalizers: Field::Kept, resource_version: None, uid: Text(uid.clone()) }
    }
}

impl<T> Field<T> {
    fn is_kept(&self) -> bool {
        matches!(self, Self::Kept)
    }
}

impl<T: Serialize> Serialize for Field<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Kept | Self::Removed => serializer.serialize_none(),
            Self::Set(value) => value.serialize(serializer),
        }
    }
}

impl Serialize for PublishedNode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(PUBLISHED_NODE_ID, self.0.as_str())])
    }
}

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}
