//! Which change of which object puts which key into which queue.
//!
//! A change that may matter ends a backoff at once; one that cannot (our own writes, the periodic resync) leaves it alone, so
//! that an attachment which keeps failing is not tried at the pace of its updates.

use std::sync::Arc;

use controller_runtime::{Change, Subscription};
use storage_kube::names::{AttachmentName, VolumeName};

use crate::attachment::decision::is_to_do;
use crate::attachment::node_detaches;
use crate::caches::PublishedCaches;
use crate::records::{AttachmentProjection, AttachmentRecord, NodeProjection, NodeRecord, VolumeProjection};
use crate::term_context::TermContext;
use crate::volume::decision::may_need_release;

/// Subscribes a term to the caches; dropped with the term.
pub(crate) fn subscribe(term: &Arc<TermContext>) -> Vec<Subscription> {
    let mut subscriptions = vec![term.caches.attachments.subscribe_for(term, attachment_changed)];
    if let Some(PublishedCaches { volumes, nodes }) = &term.caches.published {
        subscriptions.push(volumes.subscribe_for(term, volume_changed));
        subscriptions.push(nodes.subscribe_for(term, node_changed));
    }
    subscriptions
}

fn attachment_changed(term: &TermContext, change: &Change<'_, AttachmentProjection>) {
    let queue = &term.queues.attachments;
    if let Some(old) = change.old
        && change.new.is_none_or(|new| new.uid != old.uid)
    {
        attachment_gone(term, change.key, old);
    }
    let Some(new) = change.new else { return };
    term.remembered.seen(new);
    if term.attachment(change.key).is_some_and(|newest| newest.record.attached) {
        term.left_behind.settled(change.key);
    }
    follow_detaches(term, change.key, new);
    let old = change.old.filter(|old| old.uid == new.uid);
    if !is_to_do(&term.settings, new) {
        queue.forget(change.key);
    } else if old.is_some_and(|old| old.asks_the_same(new)) {
        queue.add_keeping_backoff(change.key.clone());
    } else {
        add_afresh(term, change.key, new);
    }
}

/// Notes whose volume is about to leave its node, or has left it.
fn follow_detaches(term: &TermContext, name: &AttachmentName, attachment: &AttachmentRecord) {
    let node = attachment.node();
    if !attachment.deleting {
        if attachment.attached {
            term.node_detaches.forget(node, name);
        }
    } else if attachment.is_held(&term.settings) && !term.remembered.is_unpublished(&attachment.uid) {
        term.node_detaches.detaches(node, name);
    } else {
        term.node_detaches.forget(node, name);
        node_detaches::left(term, name, node);
    }
}

/// At once, and with the first delay if it fails again. What is to be attached does not wait behind what is to be detached.
fn add_afresh(term: &TermContext, name: &AttachmentName, attachment: &AttachmentRecord) {
    let queue = &term.queues.attachments;
    queue.forget(name);
    if attachment.deleting { queue.add(name.clone()) } else { queue.add_urgent(name.clone()) }
}

fn attachment_gone(term: &TermContext, name: &AttachmentName, attachment: &AttachmentRecord) {
    term.queues.attachments.forget(name);
    term.forget(name, attachment);
    node_detaches::left(term, name, attachment.node());
    if term.left_behind.contains(name) {
        term.queues.attachments.add(name.clone());
    }
    if let Some(volume) = attachment.volume() {
        add_volume(term, volume);
    }
}

/// Puts a volume into its queue if our finalizer may have to go.
fn add_volume(term: &TermContext, name: &VolumeName) {
    if term.caches.volume(name).is_some_and(|volume| may_need_release(&term.settings, &volume)) {
        term.queues.volumes.forget(name);
        term.queues.volumes.add(name.clone());
    }
}

fn volume_changed(term: &TermContext, change: &Change<'_, VolumeProjection>) {
    let queue = &term.queues.volumes;
    term.own_patches.seen(change.key, change.new.map(|new| &**new));
    let Some(new) = change.new else {
        queue.forget(change.key);
        return;
    };
    if !may_need_release(&term.settings, new) {
        queue.forget(change.key);
    } else if change.old.is_some_and(|old| old == new) {
        queue.add_keeping_backoff(change.key.clone());
    } else {
        queue.add(change.key.clone());
    }
    if change.old.is_none() {
        // What an attachment may have waited for.
        for name in term.caches.attachments.in_group(change.key) {
            let waits = term.caches.attachments.get(&name).filter(|attachment| is_to_do(&term.settings, attachment));
            if let Some(attachment) = waits {
                add_afresh(term, &name, &attachment);
            }
        }
    }
}

/// The driver is registered on a node, or under another id.
fn node_changed(term: &TermContext, change: &Change<'_, NodeProjection>) {
    let Some(NodeRecord::Registered { .. }) = change.new.map(|new| &**new) else { return };
    if change.old == change.new {
        return;
    }
    for name in term.waiting_for_node.of_node(change.key) {
        if let Some(attachment) = term.caches.attachments.get(&name) {
            add_afresh(term, &name, &attachment);
        }
    }
}
