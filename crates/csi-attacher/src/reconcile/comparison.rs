//! One attachment beside one listing.

use std::sync::Arc;

use tracing::debug;

use super::list_volumes::Listing;
use super::mismatches::Mismatch;
use crate::attachment::Attachment;
use crate::migration;
use crate::records::{AttachmentSource, NodeRecord, VolumeRecord};
use crate::term_context::TermContext;

/// How the listing differs from the attachment, if it does.
///
/// An attachment that is not attached yet, or is being detached, is the queue's anyway. Inline volumes are left alone unless
/// the driver takes over a plugin, as the Go attacher does.
pub(crate) fn compare(term: &TermContext, attachment: &Attachment, listing: &Listing) -> Option<Mismatch> {
    let record = &attachment.record;
    let held = record.is_held(&term.settings);
    let expected = match (record.deleting, record.attached, held) {
        (false, true, _) => Mismatch::NotPublished,
        (true, _, false) => Mismatch::StillPublished,
        (false, false, _) | (true, _, true) => return None,
    };
    let (volume, inline) = volume(term, attachment)?;
    let node = match (record.published_node(), term.node(attachment).as_deref()) {
        (Some(node), _) | (None, Some(NodeRecord::Registered(node))) => node.clone(),
        (None, _) => return None,
    };
    let handle = match migration::listed_handle(&term.settings, &volume, inline, &node) {
        Ok(handle) => handle?,
        Err(why) => {
            debug!(attachment = %attachment.name, err = %why, "not compared with what the driver lists");
            return None;
        }
    };
    let published = listing.is_published(handle.as_str(), node.as_str())?;
    (published == (expected == Mismatch::StillPublished)).then_some(expected)
}

/// The volume, unless it is left alone, and whether it is an inline one.
fn volume(term: &TermContext, attachment: &Attachment) -> Option<(Arc<VolumeRecord>, bool)> {
    let record = &attachment.record;
    match &record.source {
        AttachmentSource::Volume(name) => {
            Some((term.caches.kept_volumes.get(&record.uid).or_else(|| term.volume(name))?, false))
        }
        AttachmentSource::Inline(volume) if term.settings.in_tree.is_some() => {
            Some((Arc::new((**volume).clone()), true))
        }
        AttachmentSource::Inline(_) | AttachmentSource::Both | AttachmentSource::Neither => None,
    }
}
