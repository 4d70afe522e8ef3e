//! What an attachment needs, from records and memory alone. Pure.

use std::collections::BTreeMap;

use crate::reconcile::mismatches::Mismatch;
use crate::records::AttachmentRecord;
use crate::settings::Settings;

/// What the driver said when it published the volume (CSI `publish_context`).
pub(crate) type PublishContext = BTreeMap<String, String>;

/// All that is known of one attachment at one moment.
#[derive(Debug)]
pub(crate) struct AttachmentView<'a> {
    pub(crate) attachment: &'a AttachmentRecord,
    /// What the driver said when it published the volume, as long as the status is not known to say so.
    pub(crate) published: Option<PublishContext>,
    /// The driver has unpublished the volume, and our finalizer is still on.
    pub(crate) unpublished: bool,
    /// What two listings of the driver have found otherwise than the status says.
    pub(crate) mismatch: Option<Mismatch>,
    /// The `CSINode` says what the driver calls the node.
    pub(crate) node_is_registered: bool,
}

/// What to do with an attachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AttachmentDecision {
    /// Nothing now.
    Nothing,
    /// The driver does not publish: say that it is attached.
    MarkAttached,
    /// Publish the volume at the node.
    Attach,
    /// It is published: only say so.
    RecordAttached(PublishContext),
    /// The status says that it is published: see that it says how.
    RecordContext(PublishContext),
    /// It should be published and is not: once more, and say what has changed.
    PublishAgain,
    /// It should be published and is not, and its node is gone: only kube-controller-manager can tell whether it is still
    /// wanted there.
    AwaitDeletion,
    /// Unpublish the volume, then let the attachment go.
    Detach,
    /// It is unpublished: only let the attachment go.
    Release,
    /// It should not be published and is: once more.
    UnpublishAgain,
}

/// Whether something is to be done about an attachment when nothing is remembered of it.
pub(crate) fn is_to_do(settings: &Settings, attachment: &AttachmentRecord) -> bool {
    let view =
        AttachmentView { attachment, published: None, unpublished: false, mismatch: None, node_is_registered: true };
    decide(settings, &view) != AttachmentDecision::Nothing
}

/// Decides what an attachment needs. The finalizer says whether the volume may be published, not `status.attached`.
pub(crate) fn decide(settings: &Settings, view: &AttachmentView<'_>) -> AttachmentDecision {
    let attachment = view.attachment;
    if !settings.facts.publishes {
        return match (attachment.deleting && attachment.is_held(settings), attachment.attached) {
            // Of an earlier version of the driver, which published: nobody can be asked to unpublish the volume any more.
            (true, _) => AttachmentDecision::Release,
            (false, true) => AttachmentDecision::Nothing,
            (false, false) => AttachmentDecision::MarkAttached,
        };
    }
    if attachment.deleting {
        return match (attachment.is_held(settings), view.unpublished, view.mismatch) {
            (true, true, _) => AttachmentDecision::Release,
            (true, false, _) => AttachmentDecision::Detach,
            (false, _, Some(Mismatch::StillPublished)) => AttachmentDecision::UnpublishAgain,
            // Others hold it, and its status could not be saved.
            (false, true, _) if attachment.says_attached() => AttachmentDecision::Release,
            (false, _, _) => AttachmentDecision::Nothing,
        };
    }
    match (attachment.attached, &view.published, view.mismatch) {
        (false, Some(context), _) => AttachmentDecision::RecordAttached(context.clone()),
        (false, None, _) => AttachmentDecision::Attach,
        (true, _, Some(Mismatch::NotPublished)) if view.node_is_registered => AttachmentDecision::PublishAgain,
        (true, Some(context), _) => AttachmentDecision::RecordContext(context.clone()),
        (true, None, Some(Mismatch::NotPublished)) => AttachmentDecision::AwaitDeletion,
        (true, None, Some(Mismatch::StillPublished) | None) => AttachmentDecision::Nothing,
    }
}
