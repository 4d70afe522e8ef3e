//! One attachment beside one listing.

use std::sync::Arc;

use storage_kube::names::NodeId;
use tracing::debug;

use super::list_volumes::Listing;
use super::mismatches::Mismatch;
use crate::attachment::Attachment;
use crate::attachment::node_ids::{NodeIds, is_published_for_another};
use crate::migration;
use crate::records::{AttachmentSource, VolumeRecord};
use crate::term_context::TermContext;

/// How the listing differs from the attachment, if it does.
///
/// The volume is at its node if it is listed at any id of the node.
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
    // Where another attachment has the volume, the driver rightly lists it.
    let counts =
        |node: &&NodeId| expected == Mismatch::NotPublished || !is_published_for_another(term, attachment, node);
    let mut published = None;
    for node in NodeIds::of(term, attachment).all().filter(counts) {
        match migration::listed_handle(&term.settings, &volume, inline, node) {
            Ok(handle) => {
                let here = listing.is_published(handle?.as_str(), node.as_str())?;
                published = Some(here || published == Some(true));
            }
            Err(why) => {
                debug!(attachment = %attachment.name, err = %why, "not compared with what the driver lists");
                return None;
            }
        }
    }
    (published? == (expected == Mismatch::StillPublished)).then_some(expected)
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
