//! Volumes that were published, or may have been, for an attachment that is gone before its status said so: nobody else
//! would detach them, and no pod uses them yet.
//!
//! By the attachment's name: one made anew under it is about the same volume and node, and its runs never overlap with those
//! of the first. Whatever settles the new one settles the old.

use std::sync::Arc;

use controller_runtime::Outcome;
use foldhash::HashMap;
use parking_lot::Mutex;
use storage_kube::names::AttachmentName;
use tracing::{debug, error};

use super::{Attachment, detach};
use crate::records::VolumeRecord;
use crate::still_wanted;
use crate::term_context::TermContext;

/// A call to publish that was sent, while neither a status tells of it nor a detach has undone it.
#[derive(Clone)]
pub(crate) struct Sent {
    /// As it was held, with the id of the node.
    pub(crate) attachment: Attachment,
    pub(crate) volume: Arc<VolumeRecord>,
}

/// Those of one term; lost with it.
#[derive(Default)]
pub(crate) struct LeftBehind {
    sent: Mutex<HashMap<AttachmentName, Sent>>,
}

impl LeftBehind {
    /// The volume may be published for the attachment.
    pub(crate) fn note(&self, sent: Sent) {
        self.sent.lock().insert(sent.attachment.name.clone(), sent);
    }

    /// Whether a volume may be published for an attachment of this name, and no status says so.
    pub(crate) fn contains(&self, name: &AttachmentName) -> bool {
        self.sent.lock().contains_key(name)
    }

    /// A status tells of it, or it is detached.
    pub(crate) fn settled(&self, name: &AttachmentName) {
        let mut sent = self.sent.lock();
        sent.remove(name);
        if sent.is_empty() {
            *sent = HashMap::default();
        }
    }

    fn get(&self, name: &AttachmentName) -> Option<Sent> {
        self.sent.lock().get(name).cloned()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.sent.lock().len()
    }
}

/// Unpublishes what was left behind under a name that no attachment has.
pub(crate) async fn undo(term: &TermContext, name: &AttachmentName) -> Outcome {
    let Some(Sent { attachment, volume }) = term.left_behind.get(name) else { return Outcome::Done };
    let wanted = still_wanted::while_gone(term, &attachment);
    match detach::unpublish_volume(term, &attachment, &volume, wanted).await {
        Ok(()) => {
            debug!(attachment = %name, "what was attached for an attachment that is gone is undone");
            term.left_behind.settled(name);
            Outcome::Done
        }
        Err(why) if why.is_withdrawn() => {
            // One made anew is in the queue on its own account.
            debug!(attachment = %name, err = %why, "not done");
            Outcome::Done
        }
        Err(why) => {
            error!(attachment = %name, err = %why, "the attachment is gone, and its volume may still be attached");
            Outcome::Retry
        }
    }
}
