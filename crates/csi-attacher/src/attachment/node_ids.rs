//! What a CSI driver calls the node of an attachment: the id that was noted before the call, and the id that the `CSINode`
//! has now.
//!
//! A new version of a driver may call a machine otherwise, or another machine may have the name: nobody can tell which. As
//! long as the `CSINode` is there, both ids are the node's. And one id may be that of two Node names.

use storage_kube::names::NodeId;

use super::Attachment;
use crate::records::NodeRecord;
use crate::term_context::TermContext;

/// The ids of the node of one attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeIds {
    noted: Option<NodeId>,
    registered: Option<NodeId>,
}

impl NodeIds {
    pub(crate) fn of(term: &TermContext, attachment: &Attachment) -> Self {
        let registered = match term.node(attachment).as_deref() {
            Some(NodeRecord::Registered { id, .. }) => Some(id.clone()),
            Some(NodeRecord::WithoutDriver) | None => None,
        };
        Self { noted: attachment.record.published_node().cloned(), registered }
    }

    /// The id the node has by now, if that is known.
    pub(crate) fn registered(&self) -> Option<&NodeId> {
        self.registered.as_ref()
    }

    /// Every id the volume may be published at, each once: the noted one first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &NodeId> {
        let registered = self.registered.as_ref().filter(|registered| Some(*registered) != self.noted.as_ref());
        self.noted.iter().chain(registered)
    }
}

/// Whether another attachment of the same volume is, or may be, published at this id. One that is being deleted does not
/// count: of two that go at the same time neither may leave the call to the other.
pub(crate) fn is_published_for_another(term: &TermContext, attachment: &Attachment, node: &NodeId) -> bool {
    let Some(volume) = attachment.record.volume() else { return false };
    let others = term.caches.attachments.in_group(volume);
    others.iter().filter(|other| **other != attachment.name).filter_map(|other| term.attachment(other)).any(|other| {
        let may_be_published = other.record.is_held(&term.settings) || other.record.attached;
        !other.record.deleting && may_be_published && NodeIds::of(term, &other).all().any(|id| id == node)
    })
}
