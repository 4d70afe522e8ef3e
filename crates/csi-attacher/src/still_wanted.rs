//! What a call was decided for must still hold when it is sent, which may be a while later: it waits for a slot, a Secret is
//! read, or the driver is away. And a term that drains starts nothing new.

use std::pin::Pin;
use std::sync::Arc;

use csi_client::{Admission, Denied};
use storage_kube::names::NodeId;
use tokio_util::sync::CancellationToken;

use crate::attachment::Attachment;
use crate::caches::Caches;
use crate::records::{AttachmentRecord, NodeRecord};
use crate::term_context::TermContext;

struct StillWanted {
    draining: CancellationToken,
    caches: Arc<Caches>,
    attachment: Attachment,
    condition: Condition,
    /// What the node must still be called.
    node: Option<NodeId>,
}

/// Of the attachment.
enum Condition {
    /// It is there; and why the call is not wanted any more, if so.
    There(fn(&AttachmentRecord) -> Option<&'static str>),
    /// There is none of its name.
    Gone,
}

impl StillWanted {
    fn node_objection(&self) -> Option<&'static str> {
        let wanted = self.node.as_ref()?;
        match self.caches.node(self.attachment.record.node()).as_deref() {
            Some(NodeRecord::Registered { id, .. }) if id == wanted => None,
            Some(_) => Some("the node has another id by now, or none"),
            None => Some("the node is gone"),
        }
    }
}

impl Admission for StillWanted {
    fn admit(&self) -> Result<(), Denied> {
        let objection = if self.draining.is_cancelled() {
            Some("this process is ending")
        } else {
            match (&self.condition, self.caches.attachments.get(&self.attachment.name)) {
                (Condition::Gone, None) => None,
                (Condition::Gone, Some(_)) => Some("the attachment was made anew"),
                (Condition::There(_), None) => Some("the attachment is gone"),
                (Condition::There(_), Some(now)) if now.uid != self.attachment.record.uid => {
                    Some("the attachment was made anew")
                }
                (Condition::There(objection), Some(now)) => objection(&now).or_else(|| self.node_objection()),
            }
        };
        objection.map_or(Ok(()), |why| Err(Denied(why.to_owned())))
    }

    fn withdrawn(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.draining.cancelled())
    }
}

fn still_wanted(term: &TermContext, attachment: &Attachment, condition: Condition) -> StillWanted {
    StillWanted {
        draining: term.draining.clone(),
        caches: Arc::clone(&term.caches),
        attachment: attachment.clone(),
        condition,
        node: None,
    }
}

const DELETED: &str = "the attachment was deleted";

/// For a call that publishes the volume at this id of the node: the node still has the id, and the attachment needs the call.
pub(crate) fn to_publish(term: &TermContext, attachment: &Attachment, node: &NodeId) -> Arc<dyn Admission> {
    let condition = if attachment.record.attached { attached() } else { attaching() };
    Arc::new(StillWanted { node: Some(node.clone()), ..still_wanted(term, attachment, condition) })
}

/// For a call before one that attaches.
pub(crate) fn while_attaching(term: &TermContext, attachment: &Attachment) -> Arc<dyn Admission> {
    Arc::new(still_wanted(term, attachment, attaching()))
}

/// Nobody has deleted the attachment meanwhile, or attached the volume.
fn attaching() -> Condition {
    Condition::There(|now| match (now.deleting, now.attached) {
        (true, _) => Some(DELETED),
        (false, true) => Some("the attachment is attached already"),
        (false, false) => None,
    })
}

/// The volume is to be attached again.
fn attached() -> Condition {
    Condition::There(|now| match (now.deleting, now.attached) {
        (true, _) => Some(DELETED),
        (false, false) => Some("the attachment is not attached any more"),
        (false, true) => None,
    })
}

/// For a call that detaches: the attachment still is to go. One that is gone may have been made anew, and its volume
/// published at the same node.
pub(crate) fn while_detaching(term: &TermContext, attachment: &Attachment) -> Arc<dyn Admission> {
    let objection = |now: &AttachmentRecord| (!now.deleting).then_some("the attachment is not to be deleted");
    Arc::new(still_wanted(term, attachment, Condition::There(objection)))
}

/// For a call that undoes what was done for an attachment that is gone. One made anew under the name may want it.
pub(crate) fn while_gone(term: &TermContext, attachment: &Attachment) -> Arc<dyn Admission> {
    Arc::new(still_wanted(term, attachment, Condition::Gone))
}
