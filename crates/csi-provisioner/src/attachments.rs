//! Which volumes are attached: while a VolumeAttachment names one, it is not deleted at the driver.
//!
//! The API server cannot filter attachments by volume, driver or node, so a question per deletion would read all
//! attachments of the cluster each time. Hence one watch, and who pays for it depends on the driver:
//!
//! | driver | one provisioner for the cluster | `--node-deployment` |
//! |---|---|---|
//! | with PUBLISH_UNPUBLISH_VOLUME | watched from the start | watched from the first deletion on |
//! | without | watched from the first deletion on | not looked at |
//!
//! A driver with PUBLISH_UNPUBLISH_VOLUME has published the volume, and only its attacher can undo that, for which it needs
//! the PersistentVolume: every attachment holds the volume, also one whose node is gone.
//!
//! Another driver may have attachments too (a CSIDriver with `attachRequired` and an attacher that only says yes), and
//! nothing tells us whether this one does. Its attachments hold the volume as well, but not for ever: one that
//! kube-controller-manager has not taken away in good time is looked into ([`stale`]).
//!
//! Not guaranteed: where reading attachments is forbidden, volumes of a driver without PUBLISH_UNPUBLISH_VOLUME are deleted
//! without a look, as the Go provisioner does. An attachment made after `DeleteVolume` was sent is too late to be seen.

mod stale;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use controller_runtime::{Change, Informer, Informers, Subscription};
use kube::Client;
use kube::api::ListParams;
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use storage_kube::names::{Interner, NodeName, VolumeHandle, VolumeName};
use storage_kube::uid::Uid;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tracing::warn;

use crate::error::ReclaimError;
use crate::migration::ProvisionerNames;
use crate::records::{AttachmentProjection, AttachmentRecord, VolumeRecord};
use crate::settings::Settings;
use crate::term_context::{TELL_AGAIN, TermContext};

/// How long a refusal to read attachments is believed before they are asked for again.
const BELIEVE_REFUSAL: Duration = Duration::from_mins(10);

/// How long an attachment of a driver that does not attach is left to kube-controller-manager, and how often the node is
/// asked after that. Longer than its attach-detach controller waits for a lost node to unmount
/// (`ReconcilerMaxWaitForUnmountDuration`, 6 min).
pub(crate) const DETACH_TIME: Duration = Duration::from_mins(10);

/// The attachments of this driver's volumes.
pub(crate) struct Attachments {
    informers: Informers,
    names: ProvisionerNames,
    interner: Arc<Interner>,
    /// Whether the driver has PUBLISH_UNPUBLISH_VOLUME.
    driver_attaches: bool,
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
            driver_attaches: settings.driver.attaches,
            watched: OnceLock::new(),
            listener: OnceLock::new(),
            subscription: OnceLock::new(),
        };
        if Looked::at(settings) == Looked::FromTheStart {
            attachments.watch();
        }
        attachments
    }

    fn watch(&self) {
        self.watched.get_or_init(|| {
            let projection = AttachmentProjection {
                names: self.names.clone(),
                interner: Arc::clone(&self.interner),
                with_nodes: !self.driver_attaches,
            };
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

    /// The attachments that name the volume, whatever their state. None also when they are not known, see [`known`].
    pub(crate) fn of(&self, volume: &VolumeName) -> Vec<Uid> {
        self.watched.get().map(|cache| cache.in_group(volume)).unwrap_or_default()
    }

    /// Their nodes, where these are kept.
    fn nodes(&self, attachments: &[Uid]) -> Vec<(Uid, NodeName)> {
        let Some(cache) = self.watched.get() else { return Vec::new() };
        let node = |attachment: &Uid| match &*cache.get(attachment)? {
            AttachmentRecord::OnNode(both) => Some((attachment.clone(), both.1.clone())),
            AttachmentRecord::Of(_) => None,
        };
        attachments.iter().filter_map(node).collect()
    }

    /// How many are kept.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.watched.get().map_or(0, Informer::len)
    }
}

/// When attachments are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looked {
    FromTheStart,
    FromTheFirstDeletion,
    Never,
}

impl Looked {
    fn at(settings: &Settings) -> Self {
        match (settings.driver.attaches, &settings.node) {
            (true, None) => Self::FromTheStart,
            (true, Some(_)) | (false, None) => Self::FromTheFirstDeletion,
            // A thousand nodes would each watch the attachments of all, for a driver that most likely has none.
            (false, Some(_)) => Self::Never,
        }
    }
}

/// What a term knows of attachments, besides the cache.
#[derive(Default)]
pub(crate) struct AttachmentKnowledge {
    /// Set after the first list. Only of use where the watch begins with a deletion.
    current: OnceCell<()>,
    /// Reading them was refused.
    refused: Mutex<Option<Instant>>,
    /// Volumes whose wait for the last detach has been told, and when.
    told: Mutex<HashMap<Uid, Instant>>,
    /// Since when volumes of a driver that does not attach have waited for their attachments to go.
    waiting: Mutex<HashMap<Uid, Instant>>,
}

impl AttachmentKnowledge {
    /// The volume waits for its attachments to go; says whether that is to be told, as news or again.
    pub(crate) fn waits(&self, volume: &Uid) -> bool {
        let mut told = self.told.lock();
        if told.get(volume).is_some_and(|since| since.elapsed() < TELL_AGAIN) {
            return false;
        }
        told.insert(volume.clone(), Instant::now());
        true
    }

    /// How long kube-controller-manager is still given to take away the volume's attachments.
    fn time_left(&self, volume: &Uid) -> Duration {
        let since = *self.waiting.lock().entry(volume.clone()).or_insert_with(Instant::now);
        DETACH_TIME.saturating_sub(since.elapsed())
    }

    /// The volume is gone.
    pub(crate) fn forget(&self, volume: &Uid) {
        self.told.lock().remove(volume);
        self.waiting.lock().remove(volume);
    }

    fn is_refused(&self) -> bool {
        self.refused.lock().is_some_and(|since| since.elapsed() < BELIEVE_REFUSAL)
    }
}

/// Which attachments name the volume, and which of them hold nothing up. Asked after [`known`].
///
/// # Errors
/// The volume is attached, or whether it is cannot be found out: it must not be deleted.
pub(crate) async fn passed_over(
    term: &TermContext,
    volume: &VolumeRecord,
    handle: &VolumeHandle,
) -> Result<HashSet<Uid>, ReclaimError> {
    let named = term.caches.attachments.of(&volume.name);
    let attached = |attachments: usize, look_again: Option<Duration>| ReclaimError::Attached {
        volume: volume.name.to_string(),
        attachments,
        look_again,
    };
    if named.is_empty() {
        term.attachments.waiting.lock().remove(&volume.uid);
        return Ok(HashSet::new());
    }
    if term.settings.driver.attaches {
        return Err(attached(named.len(), None));
    }
    let time_left = term.attachments.time_left(&volume.uid);
    if !time_left.is_zero() {
        return Err(attached(named.len(), Some(time_left)));
    }
    let stale = stale::stale(term, volume, handle, &term.caches.attachments.nodes(&named)).await?;
    match named.len() - stale.len() {
        0 => Ok(stale),
        held => Err(attached(held, Some(DETACH_TIME))),
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
    match Looked::at(&term.settings) {
        Looked::FromTheStart | Looked::Never => return Ok(()),
        Looked::FromTheFirstDeletion => {}
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
        Err(kube::Error::Api(status)) if status.code == 403 && !term.settings.driver.attaches => {
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
