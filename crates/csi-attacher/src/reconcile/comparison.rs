//! One attachment beside one listing.

use super::list_volumes::Listing;
use super::mismatches::Mismatch;
use crate::attachment::Attachment;
use crate::records::{AttachmentSource, NodeRecord, VolumeSource};
use crate::term_context::TermContext;

/// How the listing differs from the attachment, if it does.
///
/// An attachment that is not attached yet, or is being detached, is the queue's anyway. Inline volumes are left alone, as
/// the Go attacher does unless their driver took over a plugin.
pub(crate) fn compare(term: &TermContext, attachment: &Attachment, listing: &Listing) -> Option<Mismatch> {
    let record = &attachment.record;
    let AttachmentSource::Volume(name) = &record.source else { return None };
    let held = record.is_held(&term.settings);
    let expected = match (record.deleting, record.attached, held) {
        (false, true, _) => Mismatch::NotPublished,
        (true, _, false) => Mismatch::StillPublished,
        (false, false, _) | (true, _, true) => return None,
    };
    let volume = term.caches.kept_volumes.get(&record.uid).or_else(|| term.volume(name))?;
    let VolumeSource::Driver(handle) = &volume.source else { return None };
    let node = match (&record.published_node, term.node(attachment).as_deref()) {
        (Some(node), _) | (None, Some(NodeRecord::Registered(node))) => node.clone(),
        (None, _) => return None,
    };
    let published = listing.is_published(handle.as_str(), node.as_str())?;
    (published == (expected == Mismatch::StillPublished)).then_some(expected)
}
