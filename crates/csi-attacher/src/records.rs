//! What the attacher keeps of the objects it watches: packed records, not whole objects.
//!
//! Attachments and volumes of other drivers are dropped in the projection. What repeats over thousands of records (names
//! of nodes and volumes, attributes, lists of finalizers) is kept once ([`interned`]). A record is read-only.

pub(crate) mod attachment;
pub(crate) mod interned;
pub(crate) mod node;
pub(crate) mod volume;

pub(crate) use attachment::{AttachmentProjection, AttachmentRecord, AttachmentSource};
pub(crate) use interned::Interners;
pub(crate) use node::{NodeProjection, NodeRecord};
pub(crate) use volume::{VolumeProjection, VolumeRecord, VolumeSource};

/// The `resourceVersion` of an object as a number, 0 when it is none: versions of one kind are compared
/// (API concepts, "Resource versions").
fn version(metadata: &kube::core::ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
}
