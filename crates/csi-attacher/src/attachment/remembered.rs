//! What a term remembers of its own work on attachments, by UID: an attachment made anew has the same name.

use std::sync::Arc;

use foldhash::HashMap;
use parking_lot::Mutex;
use storage_kube::uid::Uid;

use super::decision::PublishContext;
use crate::records::AttachmentRecord;

/// Holds only attachments that the cache does not show yet as this term has left them.
#[derive(Default)]
pub(crate) struct Remembered {
    attachments: Mutex<HashMap<Uid, Memory>>,
}

#[derive(Default)]
struct Memory {
    /// The API server's answer to the last own patch, until the cache has reached it.
    answer: Option<Arc<AttachmentRecord>>,
    /// `ControllerPublishVolume` has succeeded, and the status is not known to say so.
    published: Option<PublishContext>,
    /// `ControllerUnpublishVolume` has succeeded, our finalizer is still on.
    unpublished: bool,
    /// An attach error was sent, and may have been saved although there was no answer.
    attach_error_sent: bool,
    /// The text of the last error that was told, if it is one that is told once.
    told: Option<Box<str>>,
}

impl Memory {
    fn is_empty(&self) -> bool {
        let Self { answer, published, unpublished, attach_error_sent, told } = self;
        answer.is_none() && published.is_none() && !unpublished && !attach_error_sent && told.is_none()
    }
}

impl Remembered {
    /// The newer of the cached record and the API server's last answer.
    pub(crate) fn newest(&self, cached: Arc<AttachmentRecord>) -> Arc<AttachmentRecord> {
        let known = self.attachments.lock();
        let answer = known.get(&cached.uid).and_then(|memory| memory.answer.as_ref());
        match answer {
            Some(answer) if answer.resource_version > cached.resource_version => Arc::clone(answer),
            _ => cached,
        }
    }

    /// The API server has answered this to an own patch.
    pub(crate) fn answered(&self, answer: &Arc<AttachmentRecord>) {
        self.change(&answer.uid, |memory| memory.answer = Some(Arc::clone(answer)));
    }

    /// The cache shows this: an older answer is not needed any more.
    pub(crate) fn seen(&self, cached: &AttachmentRecord) {
        if self.attachments.lock().contains_key(&cached.uid) {
            self.change(&cached.uid, |memory| {
                memory.answer.take_if(|answer| answer.resource_version <= cached.resource_version);
                if cached.attached && !cached.deleting {
                    memory.attach_error_sent = cached.attach_error;
                    memory.told = None;
                }
            });
        }
    }

    pub(crate) fn published(&self, uid: &Uid) -> Option<PublishContext> {
        self.attachments.lock().get(uid).and_then(|memory| memory.published.clone())
    }

    /// The driver has published the volume; `None` once the status says so.
    pub(crate) fn set_published(&self, uid: &Uid, context: Option<PublishContext>) {
        self.change(uid, |memory| memory.published = context);
    }

    pub(crate) fn is_unpublished(&self, uid: &Uid) -> bool {
        self.attachments.lock().get(uid).is_some_and(|memory| memory.unpublished)
    }

    /// The driver has unpublished the volume.
    pub(crate) fn set_unpublished(&self, uid: &Uid) {
        self.change(uid, |memory| memory.unpublished = true);
    }

    pub(crate) fn attach_error_sent(&self, uid: &Uid) {
        self.change(uid, |memory| memory.attach_error_sent = true);
    }

    /// Whether the status may have an attach error that the record does not show.
    pub(crate) fn may_have_attach_error(&self, uid: &Uid) -> bool {
        self.attachments.lock().get(uid).is_some_and(|memory| memory.attach_error_sent)
    }

    /// Whether this was the last that was told of the attachment.
    pub(crate) fn was_told(&self, uid: &Uid, text: &str) -> bool {
        self.attachments.lock().get(uid).is_some_and(|memory| memory.told.as_deref() == Some(text))
    }

    /// An error was told; with its text if it need not be told again.
    pub(crate) fn told(&self, uid: &Uid, once: Option<String>) {
        self.change(uid, |memory| memory.told = once.map(Into::into));
    }

    /// The attachment is gone.
    pub(crate) fn forget(&self, uid: &Uid) {
        let mut all = self.attachments.lock();
        all.remove(uid);
        if all.is_empty() {
            *all = HashMap::default();
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.attachments.lock().len()
    }

    fn change(&self, uid: &Uid, change: impl FnOnce(&mut Memory)) {
        let mut all = self.attachments.lock();
        let memory = all.entry(uid.clone()).or_default();
        change(memory);
        if memory.is_empty() {
            all.remove(uid);
            if all.is_empty() {
                *all = HashMap::default();
            }
        }
    }
}
