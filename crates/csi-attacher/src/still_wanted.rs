//! What a call was decided for must still hold when it is sent, which may be a while later: it waits for a slot, a Secret is
//! read, or the driver is away. And a term that drains starts nothing new.

use std::pin::Pin;
use std::sync::Arc;

use csi_client::{Admission, Denied};
use tokio_util::sync::CancellationToken;

use crate::attachment::Attachment;
use crate::caches::Caches;
use crate::records::AttachmentRecord;
use crate::term_context::TermContext;

struct StillWanted {
    draining: CancellationToken,
    caches: Arc<Caches>,
    attachment: Attachment,
    condition: Condition,
}

/// Of the attachment.
enum Condition {
    /// It is there; and why the call is not wanted any more, if so.
    There(fn(&AttachmentRecord) -> Option<&'static str>),
    /// There is none of its name.
    Gone,
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
                (Condition::There(objection), Some(now)) => objection(&now),
            }
        };
        objection.map_or(Ok(()), |why| Err(Denied(why.to_owned())))
    }

    fn withdrawn(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.draining.cancelled())
    }
}

fn still_wanted(term: &TermContext, attachment: &Attachment, condition: Condition) -> Arc<dyn Admission> {
    Arc::new(StillWanted {
        draining: term.draining.clone(),
        caches: Arc::clone(&term.caches),
        attachment: attachment.clone(),
        condition,
    })
}

const DELETED: &str = "the attachment was deleted";

/// For a call that attaches: nobody has deleted the attachment meanwhile, or attached the volume.
pub(crate) fn while_attaching(term: &TermContext, attachment: &Attachment) -> Arc<dyn Admission> {
    let objection = |now: &AttachmentRecord| match (now.deleting, now.attached) {
        (true, _) => Some(DELETED),
        (false, true) => Some("the attachment is attached already"),
        (false, false) => None,
    };
    still_wanted(term, attachment, Condition::There(objection))
}

/// For one that attaches again what should be attached.
pub(crate) fn while_attached(term: &TermContext, attachment: &Attachment) -> Arc<dyn Admission> {
    let objection = |now: &AttachmentRecord| match (now.deleting, now.attached) {
        (true, _) => Some(DELETED),
        (false, false) => Some("the attachment is not attached any more"),
        (false, true) => None,
    };
    still_wanted(term, attachment, Condition::There(objection))
}

/// For a call that detaches: the attachment still is to go. One that is gone may have been made anew, and its volume
/// published at the same node.
pub(crate) fn while_detaching(term: &TermContext, attachment: &Attachment) -> Arc<dyn Admission> {
    let objection = |now: &AttachmentRecord| (!now.deleting).then_some("the attachment is not to be deleted");
    still_wanted(term, attachment, Condition::There(objection))
}

/// For a call that undoes what was done for an attachment that is gone. One made anew under the name may want it.
pub(crate) fn while_gone(term: &TermContext, attachment: &Attachment) -> Arc<dyn Admission> {
    still_wanted(term, attachment, Condition::Gone)
}
