//! Which volumes are attached: while a VolumeAttachment names one, it is not deleted at the driver.
//!
//! For a driver with PUBLISH_UNPUBLISH_VOLUME attachments are watched from the start. Other drivers may have them too (a
//! CSIDriver with `attachRequired` and an attacher that only says yes), and nothing tells us whether this one does. The
//! API server cannot filter attachments by volume or driver, so a question per deletion would read all attachments of the
//! cluster each time. Hence one watch, begun by the first deletion: a driver that deletes nothing pays nothing, one
//! without attachments keeps nothing, and any number of deletions costs one list.
//!
//! Not guaranteed: where reading attachments is forbidden, such a driver's volumes are deleted without a look, as the Go
//! provisioner does. An attachment made after `DeleteVolume` was sent is too late to be seen.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use controller_runtime::{Change, Informer, Informers, Subscription};
use kube::Client;
use kube::api::ListParams;
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use storage_kube::names::{Interner, VolumeName};
use storage_kube::uid::Uid;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tracing::warn;

use crate::error::ReclaimError;
use crate::migration::ProvisionerNames;
use crate::records::AttachmentProjection;
use crate::settings::Settings;
use crate::term_context::TermContext;

/// How long a refusal to read attachments is believed before they are asked for again.
const BELIEVE_REFUSAL: Duration = Duration::from_mins(10);

/// The attachments of this driver's volumes.
pub(crate) struct Attachments {
    informers: Informers,
    names: ProvisionerNames,
    interner: Arc<Interner>,
    /// Unset while they are not watched.
    watched: OnceLock<Informer<AttachmentProjection>>,
    /// Who is told of each change, as soon as they are watched.
    listener: OnceLock<(Weak<TermContext>, React)>,
    subscription: OnceLock<Subscription>,
}

type React = fn(&TermContext, &Change<'_, AttachmentProjection>);

impl Attachments {
    /// `interner` is the one of the volumes.
    pub(crate) fn start(settings: &Settings, informers: &Informers, interner: Arc<Interner>) -> Self {
        let attachments = Self {
            informers: informers.clone(),
            names: settings.names.clone(),
            interner,
            watched: OnceLock::new(),
            listener: OnceLock::new(),
            subscription: OnceLock::new(),
        };
        if settings.driver.attaches {
            attachments.watch();
        }
        attachments
    }

    fn watch(&self) {
        self.watched.get_or_init(|| {
            let projection = AttachmentProjection { names: self.names.clone(), interner: Arc::clone(&self.interner) };
            self.informers.all(projection, None)
        });
        self.listen();
    }

    fn listen(&self) {
        if let (Some(cache), Some((term, react))) = (self.watched.get(), self.listener.get())
            && let Some(term) = term.upgrade()
        {
            self.subscription.get_or_init(|| cache.subscribe_for(&term, *react));
        }
    }

    /// Waits for the first list, if they are watched.
    pub(crate) async fn synced(&self) {
        if let Some(cache) = self.watched.get() {
            cache.synced().await;
        }
    }

    /// Tells the term of each change, from when they are watched on.
    pub(crate) fn subscribe(&self, term: &Arc<TermContext>, react: React) {
        self.listener.get_or_init(|| (Arc::downgrade(term), react));
        self.listen();
    }

    /// How many attachments name the volume, whatever their state. 0 also when that is not known, see [`known`].
    pub(crate) fn of(&self, volume: &VolumeName) -> usize {
        self.watched.get().map_or(0, |cache| cache.in_group(volume).len())
    }

    /// How many are kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.watched.get().map_or(0, Informer::len)
    }
}

/// What a term knows of attachments, besides the cache.
#[derive(Default)]
pub(crate) struct AttachmentKnowledge {
    /// Set after the first list. Only of use where the watch begins with a deletion.
    current: OnceCell<()>,
    /// Reading them was refused.
    refused: Mutex<Option<Instant>>,
    /// Volumes whose wait for the last detach has been told.
    told: Mutex<HashSet<Uid>>,
}

impl AttachmentKnowledge {
    /// The volume waits for its attachments to go; says whether that is news.
    pub(crate) fn waits(&self, volume: &Uid) -> bool {
        self.told.lock().insert(volume.clone())
    }

    /// The volume is gone.
    pub(crate) fn forget(&self, volume: &Uid) {
        self.told.lock().remove(volume);
    }

    fn is_refused(&self) -> bool {
        self.refused.lock().is_some_and(|since| since.elapsed() < BELIEVE_REFUSAL)
    }
}

/// Why the attachments cannot be looked at (yet).
enum NotKnown {
    Refused,
    Failed(ReclaimError),
}

/// Returns when it is known, as of this term, which volumes are attached, or that it cannot be known.
///
/// # Errors
/// The API server did not answer: nothing may be deleted then.
pub(crate) async fn known(term: &TermContext) -> Result<(), ReclaimError> {
    if term.settings.driver.attaches {
        return Ok(());
    }
    match term.attachments.current.get_or_try_init(|| become_known(term)).await {
        Ok(()) | Err(NotKnown::Refused) => Ok(()),
        Err(NotKnown::Failed(error)) => Err(error),
    }
}

/// A watch never ends for want of permission, so one request asks for it first.
async fn become_known(term: &TermContext) -> Result<(), NotKnown> {
    if term.attachments.is_refused() {
        return Err(NotKnown::Refused);
    }
    match permission(&term.api).await {
        Ok(()) => {}
        Err(kube::Error::Api(status)) if status.code == 403 => {
            warn!(
                err = %status,
                "VolumeAttachments cannot be read, so volumes are deleted at the driver without a look whether they are \
                 attached: allow this ServiceAccount to list and watch volumeattachments of storage.k8s.io"
            );
            *term.attachments.refused.lock() = Some(Instant::now());
            return Err(NotKnown::Refused);
        }
        Err(source) => return Err(NotKnown::Failed(ReclaimError::Attachments { source: Box::new(source) })),
    }
    let attachments = &term.caches.attachments;
    attachments.watch();
    tokio::select! {
        () = attachments.synced() => Ok(()),
        () = tokio::time::sleep(term.settings.timeout) => Err(NotKnown::Failed(ReclaimError::AttachmentsNotListed)),
        () = term.draining.cancelled() => Err(NotKnown::Failed(ReclaimError::AttachmentsNotListed)),
    }
}

async fn permission(client: &Client) -> Result<(), kube::Error> {
    let request = kube::core::Request::new("/apis/storage.k8s.io/v1/volumeattachments");
    let request = request.list(&ListParams::default().limit(1)).map_err(kube::Error::BuildRequest)?;
    client.request::<IgnoredAny>(request).await.map(drop)
}
