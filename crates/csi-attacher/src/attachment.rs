//! One attachment, from its key to an attached or detached volume: load, decide, act, record.

pub(crate) mod attach;
pub(crate) mod decision;
pub(crate) mod detach;
pub(crate) mod left_behind;
pub(crate) mod node_detaches;
pub(crate) mod node_ids;
pub(crate) mod patch;
pub(crate) mod remembered;
pub(crate) mod request;
pub(crate) mod waiting_for_node;
pub(crate) mod write;

use std::sync::Arc;
use std::time::Duration;

use controller_runtime::{Lane, Outcome};
use storage_kube::names::{AttachmentName, NodeName};
use tracing::{debug, error, info};

use crate::error::AttachmentError;
use crate::records::{AttachmentRecord, NodeRecord};
use crate::term_context::TermContext;
use decision::{AttachmentDecision, AttachmentView};

/// An attachment as a run sees it.
#[derive(Debug, Clone)]
pub(crate) struct Attachment {
    pub(crate) name: AttachmentName,
    pub(crate) record: Arc<AttachmentRecord>,
}

/// How long a node may be without the driver before that is an error: kubelet registers drivers one by one when a node
/// starts.
pub(crate) const PATIENCE_WITH_A_NODE: Duration = Duration::from_secs(10);

/// Brings one attachment as far as it will go now.
pub(crate) async fn sync_attachment(term: Arc<TermContext>, name: AttachmentName, lane: Lane) -> Outcome {
    let Some(attachment) = term.attachment(&name) else { return left_behind::undo(&term, &name).await };
    if lane == Lane::Urgent && !is_first_attach(&term, &attachment) {
        // Back into the ordinary lane, with the failures it has.
        return Outcome::RetryAfter(Duration::ZERO);
    }
    let result = match decide(&term, &attachment) {
        AttachmentDecision::Nothing => Ok(()),
        AttachmentDecision::MarkAttached => attach::mark_attached(&term, &attachment).await,
        AttachmentDecision::Attach => attach::attach(&term, attachment.clone()).await,
        AttachmentDecision::RecordAttached(context) => attach::record_attached(&term, &attachment, context).await,
        AttachmentDecision::RecordContext(context) => attach::record_context(&term, &attachment, context).await,
        AttachmentDecision::PublishAgain => attach::publish_again(&term, &attachment).await,
        AttachmentDecision::AwaitDeletion => {
            detach::await_deletion(&term, &attachment);
            Ok(())
        }
        AttachmentDecision::Detach => detach::detach(&term, &attachment).await,
        AttachmentDecision::Release => detach::release(&term, &attachment).await,
        AttachmentDecision::UnpublishAgain => detach::unpublish_again(&term, &attachment).await,
    };
    let outcome = match result {
        Ok(()) => Outcome::Done,
        Err(error) => failed(&term, &attachment, &error).await,
    };
    match term.caches.attachments.get(&name) {
        Some(now) if now.uid == attachment.record.uid => outcome,
        now => {
            // The watch has told of its end before this run was through.
            term.forget(&name, &attachment.record);
            if now.is_none() && term.left_behind.contains(&name) {
                Outcome::RetryAfter(Duration::ZERO)
            } else {
                outcome
            }
        }
    }
}

/// Whether a pod waits for the volume and nothing has failed yet.
pub(crate) fn is_first_attach(term: &TermContext, attachment: &Attachment) -> bool {
    let record = &attachment.record;
    !record.deleting && !record.attached && term.queues.attachments.failures(&attachment.name) == 0
}

/// Reads the caches and the term's memory at one moment; nothing awaits in here.
fn decide(term: &TermContext, attachment: &Attachment) -> AttachmentDecision {
    let uid = &attachment.record.uid;
    decision::decide(
        &term.settings,
        &AttachmentView {
            attachment: &attachment.record,
            published: term.remembered.published(uid),
            unpublished: term.remembered.is_unpublished(uid),
            mismatch: term.mismatches.take(uid),
            node_is_registered: is_registered(term, attachment.record.node()),
        },
    )
}

/// Says why in the attachment's status and a log line; the queue decides when to try again.
async fn failed(term: &TermContext, attachment: &Attachment, error: &AttachmentError) -> Outcome {
    if error.is_withdrawn() {
        debug!(attachment = %attachment.name, err = %error, "not done");
        return Outcome::Retry;
    }
    if let AttachmentError::NodeChanged { .. } = error {
        info!(attachment = %attachment.name, err = %error, "begins anew with what the node is called now");
        return Outcome::RetryAfter(Duration::ZERO);
    }
    if let AttachmentError::NodeFull { wait, .. } = error {
        info!(attachment = %attachment.name, err = %error, "waits for a detach of the node");
        return Outcome::RetryAfter(*wait);
    }
    if let Some(node) = error.missing_node() {
        let waited = term.waiting_for_node.wait(node, &attachment.name);
        if is_registered(term, node) {
            return Outcome::RetryAfter(Duration::ZERO);
        }
        let left = PATIENCE_WITH_A_NODE.checked_sub(waited).filter(|_| term.caches.nodes_are_known());
        if let Some(patience) = left.filter(|left| !left.is_zero() && !attachment.record.deleting) {
            info!(attachment = %attachment.name, %node, "waits until the driver is registered on the node");
            return Outcome::RetryAfter(patience);
        }
    }
    error!(attachment = %attachment.name, err = %error, deleting = attachment.record.deleting, "attachment is not as wanted");
    if error.belongs_into_status() {
        tell(term, attachment, error).await;
    }
    if error.is_hopeless() { Outcome::RetryAfter(term.settings.backoff.max) } else { Outcome::Retry }
}

fn is_registered(term: &TermContext, node: &NodeName) -> bool {
    term.caches.node(node).is_some_and(|node| matches!(*node, NodeRecord::Registered { .. }))
}

/// Writes the error into the status. That this fails is only logged: the next try has an error of its own to tell.
async fn tell(term: &TermContext, attachment: &Attachment, error: &AttachmentError) {
    let Some(attachment) = term.attachment(&attachment.name).filter(|now| now.record.uid == attachment.record.uid)
    else {
        return;
    };
    let text = error.to_string();
    let deleting = attachment.record.deleting;
    // A repair that failed: the attachment is as it should be, and the next listings tell whether the volume is.
    let settled = if deleting { !attachment.record.is_held(&term.settings) } else { attachment.record.attached };
    if settled {
        return;
    }
    if error.is_told_once() && term.remembered.was_told(&attachment.record.uid, &text) {
        return;
    }
    let now = jiff::Timestamp::now();
    let body = if deleting {
        patch::detach_error(&attachment.record, &text, now)
    } else {
        let code = error.code().filter(|_| term.settings.error_codes);
        patch::attach_error(&attachment.record, &text, code, now)
    };
    if !deleting {
        term.remembered.attach_error_sent(&attachment.record.uid);
    }
    match write::status(term, &attachment, body).await {
        Ok(_) => term.remembered.told(&attachment.record.uid, error.is_told_once().then_some(text)),
        Err(why) => info!(attachment = %attachment.name, err = %why, "the error could not be saved in the status"),
    }
}
