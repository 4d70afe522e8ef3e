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
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::{Informer, InformerError, Tasks};
use kube::api::ListParams;
use kube::{Api, Client};
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use sidecar::FirstLists;
use storage_kube::names::{Interner, VolumeName};
use storage_kube::uid::Uid;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::error::ReclaimError;
use crate::records::AttachmentProjection;
use crate::settings::Settings;
use crate::term_context::TermContext;

/// How long a refusal to read attachments is believed before they are asked for again.
const BELIEVE_REFUSAL: Duration = Duration::from_mins(10);

/// The attachments of this driver's volumes; kept over terms.
pub(crate) struct Attachments {
    pub(crate) cache: Informer<AttachmentProjection>,
    /// Begins the watch; `None` when it begins by itself.
    begin: Option<CancellationToken>,
}

impl Attachments {
    /// `interner` is the one of the volumes.
    pub(crate) fn start(
        settings: &Settings,
        client: &Client,
        tasks: &Tasks,
        first_lists: &FirstLists,
        interner: Arc<Interner>,
    ) -> Self {
        let projection = AttachmentProjection { names: settings.names.clone(), interner };
        let (cache, task) = Informer::new(Api::all(client.clone()), projection, None);
        if settings.driver.attaches {
            first_lists.spawn(tasks, "attachments", task.run());
            return Self { cache, begin: None };
        }
        let begin = CancellationToken::new();
        let begun = begin.clone();
        tasks.spawn("attachments", async move {
            begun.cancelled().await;
            task.run().await;
        });
        Self { cache, begin: Some(begin) }
    }

    /// Waits for the first list, if it begins by itself.
    pub(crate) async fn synced(&self) {
        if self.begin.is_none() {
            self.cache.synced().await;
        }
    }

    /// Waits until the cache is not older than this call, if it is kept from the start.
    pub(crate) async fn caught_up(&self) -> Result<(), InformerError> {
        if self.begin.is_none() { self.cache.caught_up().await } else { Ok(()) }
    }

    /// How many attachments name the volume, whatever their state. 0 also when that is not known, see [`known`].
    pub(crate) fn of(&self, volume: &VolumeName) -> usize {
        self.cache.in_group(volume).len()
    }
}

/// What a term knows of attachments, besides the cache.
#[derive(Default)]
pub(crate) struct AttachmentKnowledge {
    /// Set when the cache is as new as the term. Only of use where the watch begins with a deletion.
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
    let Some(begin) = &term.caches.attachments.begin else { return Ok(()) };
    match term.attachments.current.get_or_try_init(|| become_known(term, begin)).await {
        Ok(()) | Err(NotKnown::Refused) => Ok(()),
        Err(NotKnown::Failed(error)) => Err(error),
    }
}

/// A watch never ends for want of permission, so one request asks for it first.
async fn become_known(term: &TermContext, begin: &CancellationToken) -> Result<(), NotKnown> {
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
    begin.cancel();
    tokio::select! {
        caught_up = term.caches.attachments.cache.caught_up() => {
            // Its task has ended, which ends the process.
            caught_up.map_err(|_| NotKnown::Failed(ReclaimError::AttachmentsNotListed))
        }
        () = tokio::time::sleep(term.settings.timeout) => Err(NotKnown::Failed(ReclaimError::AttachmentsNotListed)),
        () = term.draining.cancelled() => Err(NotKnown::Failed(ReclaimError::AttachmentsNotListed)),
    }
}

async fn permission(client: &Client) -> Result<(), kube::Error> {
    let request = kube::core::Request::new("/apis/storage.k8s.io/v1/volumeattachments");
    let request = request.list(&ListParams::default().limit(1)).map_err(kube::Error::BuildRequest)?;
    client.request::<IgnoredAny>(request).await.map(drop)
}
