//! Bodies of the patches of a VolumeAttachment. Pure.
//!
//! All are JSON merge patches (RFC 7386), as the Go attacher sends them, and carry the UID: one made anew under the name is
//! not touched. Those that replace the list of finalizers also carry the resourceVersion the list was read at, so that
//! another's finalizer is not undone.

mod body;

use std::collections::BTreeMap;

use csi_client::Code;
use jiff::Timestamp;
use storage_kube::finalizers::{self, Edit};
use storage_kube::names::NodeId;

use super::decision::PublishContext;
use crate::records::AttachmentRecord;
pub(crate) use body::AttachmentPatch;
use body::{Field, MetadataPatch, PublishedNode, StatusPatch, Text, VolumeError};

/// The longest message the API server takes (validation of `VolumeError`), in bytes.
const LONGEST_MESSAGE: usize = 1024;

/// Puts our finalizer on and notes the node id; none when both are there.
pub(crate) fn hold(attachment: &AttachmentRecord, finalizer: &str, node: &NodeId) -> Option<AttachmentPatch<'static>> {
    let annotations = (attachment.published_node() != Some(node)).then(|| PublishedNode(node.clone()));
    let edit = finalizers::add(attachment.finalizers(), finalizer);
    if annotations.is_none() && edit == Edit::Unchanged {
        return None;
    }
    Some(of_metadata(MetadataPatch { annotations, ..with_finalizers(attachment, edit) }))
}

/// Takes our finalizer off; none when it is not there.
pub(crate) fn release(attachment: &AttachmentRecord, finalizer: &str) -> Option<AttachmentPatch<'static>> {
    let edit = finalizers::remove(attachment.finalizers(), finalizer);
    (edit != Edit::Unchanged).then(|| of_metadata(with_finalizers(attachment, edit)))
}

fn with_finalizers(attachment: &AttachmentRecord, edit: Edit) -> MetadataPatch {
    let finalizers = match edit {
        Edit::Unchanged => return MetadataPatch::of(&attachment.uid),
        Edit::Changed(None) => Field::Removed,
        Edit::Changed(Some(list)) => Field::Set(list),
    };
    let resource_version = (attachment.resource_version != 0).then_some(Text(attachment.resource_version));
    MetadataPatch { finalizers, resource_version, ..MetadataPatch::of(&attachment.uid) }
}

/// The volume is attached. `before`: the publish context that the status has; `error_to_clear`: the status has, or may have, an
/// attach error.
pub(crate) fn attached<'a>(
    attachment: &AttachmentRecord,
    before: &'a PublishContext,
    context: &'a PublishContext,
    error_to_clear: bool,
) -> AttachmentPatch<'a> {
    let said = context.iter().map(|(key, value)| (key.as_str(), Some(value.as_str())));
    let metadata: BTreeMap<_, _> = gone(before, context).chain(said).collect();
    let status = StatusPatch {
        attached: Some(true),
        attachment_metadata: match (metadata.is_empty(), context.is_empty()) {
            (true, _) => Field::Kept,
            (false, true) => Field::Removed,
            (false, false) => Field::Set(metadata),
        },
        attach_error: if error_to_clear { Field::Removed } else { Field::Kept },
        ..StatusPatch::default()
    };
    of_status(attachment, status)
}

/// The publish context is another than the status has; none when it is not.
pub(crate) fn changed_metadata<'a>(
    attachment: &AttachmentRecord,
    before: &'a BTreeMap<String, String>,
    context: &'a PublishContext,
) -> Option<AttachmentPatch<'a>> {
    let changed = context.iter().filter(|(key, value)| before.get(*key) != Some(value));
    let changed = changed.map(|(key, value)| (key.as_str(), Some(value.as_str())));
    let edits: BTreeMap<_, _> = gone(before, context).chain(changed).collect();
    let status = |edits| StatusPatch { attachment_metadata: Field::Set(edits), ..StatusPatch::default() };
    (!edits.is_empty()).then(|| of_status(attachment, status(edits)))
}

/// Takes out the keys that the driver does not say any more.
fn gone<'a>(
    before: &'a PublishContext,
    context: &'a PublishContext,
) -> impl Iterator<Item = (&'a str, Option<&'a str>)> {
    before.keys().filter(|key| !context.contains_key(*key)).map(|key| (key.as_str(), None))
}

/// The volume is detached.
pub(crate) fn detached(attachment: &AttachmentRecord) -> AttachmentPatch<'static> {
    let status = StatusPatch {
        attached: Some(false),
        attachment_metadata: Field::Removed,
        detach_error: Field::Removed,
        ..StatusPatch::default()
    };
    of_status(attachment, status)
}

/// The last try to attach failed; the code is that of gRPC, when there is one (KEP-4876). Kubelet's `isResourceExhaustError`
/// reads the code alone, so that of an earlier error must not stay.
pub(crate) fn attach_error<'a>(
    attachment: &AttachmentRecord,
    text: &'a str,
    code: Option<Code>,
    now: Timestamp,
) -> AttachmentPatch<'a> {
    let error_code = code.map_or(Field::Removed, |code| Field::Set(i32::from(code)));
    let error = VolumeError { error_code, ..volume_error(text, now) };
    of_status(attachment, StatusPatch { attach_error: Field::Set(error), ..StatusPatch::default() })
}

/// The last try to detach failed.
pub(crate) fn detach_error<'a>(attachment: &AttachmentRecord, text: &'a str, now: Timestamp) -> AttachmentPatch<'a> {
    let error = volume_error(text, now);
    of_status(attachment, StatusPatch { detach_error: Field::Set(error), ..StatusPatch::default() })
}

fn volume_error(text: &str, now: Timestamp) -> VolumeError<'_> {
    let message = &text[..text.floor_char_boundary(LONGEST_MESSAGE)];
    VolumeError { message, time: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(), error_code: Field::Kept }
}

fn of_metadata(metadata: MetadataPatch) -> AttachmentPatch<'static> {
    AttachmentPatch { metadata, status: None }
}

fn of_status<'a>(attachment: &AttachmentRecord, status: StatusPatch<'a>) -> AttachmentPatch<'a> {
    AttachmentPatch { metadata: MetadataPatch::of(&attachment.uid), status: Some(status) }
}
