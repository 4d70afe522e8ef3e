//! Which change of which object puts which key into which queue.
//!
//! A change that may matter ends a backoff at once; one that cannot (a finalizer, a label, the periodic resync) leaves
//! it alone, so that a claim which keeps failing is not tried at the pace of its updates.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use crate::records::{
    AttachmentProjection, ClaimEntry, ClaimProjection, ClassProjection, CsiNodeProjection, GrantProjection,
    NodeProjection, VolumeProjection, VolumeRecord,
};
use crate::save_volume;
use crate::source_protection;
use crate::term_context::TermContext;
use crate::volume::decision::{VolumeDecision, decide};
use controller_runtime::{Change, Subscription, WorkQueue};
use storage_kube::names::{ClaimUid, NodeName};

/// Subscribes a term to the caches; dropped with the term.
pub(crate) fn subscribe(term: &Arc<TermContext>) -> Vec<Subscription> {
    let caches = &term.caches;
    let claims = caches.claims.subscribe_for(term, claim_changed);
    term.holds.complete();
    let mut all = vec![
        claims,
        caches.classes.subscribe_for(term, class_changed),
        caches.volumes.subscribe_for(term, volume_changed),
    ];
    caches.attachments.subscribe(term, attachment_changed);
    if let Some(grants) = &caches.grants {
        all.push(grants.subscribe_for(term, grant_changed));
    }
    if let (Some(nodes), Some(_)) = (&caches.nodes, &term.cluster) {
        all.push(nodes.nodes.subscribe_for(term, node_changed));
        all.push(nodes.csi_nodes.subscribe_for(term, csi_node_changed));
    }
    all
}

/// At once, and with the first delay if it fails again.
fn add_afresh<K: Clone + Eq + Hash + Debug + Send + 'static>(queue: &WorkQueue<K>, key: K) {
    queue.forget(&key);
    queue.add(key);
}

fn claim_changed(term: &TermContext, change: &Change<'_, ClaimProjection>) {
    source_protection::claim_changed(term, change);
    let queue = &term.queues.claims;
    let waiting = |entry: Option<&Arc<ClaimEntry>>| entry.and_then(|entry| entry.waiting()).cloned();
    let (old, new) = (waiting(change.old), waiting(change.new));
    if new.as_ref().is_some_and(|claim| claim.selected_node.is_some()) {
        term.competition.forget(change.key);
    }
    if let (Some(old), Some(new)) = (&old, &new)
        && old.node() != new.node()
    {
        term.infeasible.forget(change.key);
    }
    match (old, new) {
        (_, None) => {
            term.forget_claim(change.key);
            // A claim in progress waits out its backoff: its call is repeated with or without the claim.
            if term.in_progress.get(change.key).is_none() {
                queue.forget(change.key);
            }
        }
        // What is in progress is repeated with its first request: an update changes nothing about it.
        (Some(old), Some(new)) if old.asks_the_same(&new) || term.in_progress.get(change.key).is_some() => {
            queue.add_keeping_backoff(change.key.clone());
        }
        (_, Some(_)) => add_afresh(queue, change.key.clone()),
    }
}

/// A class that appears, or is replaced, may be what its claims wait for.
fn class_changed(term: &TermContext, change: &Change<'_, ClassProjection>) {
    if change.new.is_none() || change.old == change.new {
        return;
    }
    for claim in term.caches.claims.in_group(change.key) {
        // What is in progress is repeated with its first request: a new class changes nothing about it.
        if term.in_progress.get(&claim).is_none() {
            add_afresh(&term.queues.claims, claim);
        }
    }
}

/// A grant that appears, or is replaced, may be what claims with sources in its namespace wait for.
fn grant_changed(term: &TermContext, change: &Change<'_, GrantProjection>) {
    if change.new.is_none() || change.old == change.new {
        return;
    }
    let (namespace, _) = change.key;
    for uid in term.holds.waiting_for(namespace) {
        let foreign = term.caches.claims.get(&uid).is_some_and(|claim| claim.namespace != *namespace);
        if foreign && term.in_progress.get(&uid).is_none() {
            add_afresh(&term.queues.claims, uid);
        }
    }
}

fn volume_changed(term: &TermContext, change: &Change<'_, VolumeProjection>) {
    let queue = &term.queues.volumes;
    match (change.old, change.new) {
        (old, None) => {
            queue.forget(change.key);
            if let Some(old) = old {
                volume_gone(term, old);
            }
        }
        (old, Some(new)) => {
            save_volume::seen(term, new);
            term.finalizer_writes.seen(&new.uid, new.protected);
            if let Some(old) = old.filter(|old| old.uid != new.uid) {
                volume_gone(term, old);
            }
            if decide(new) == VolumeDecision::Nothing {
                queue.forget(change.key);
            } else if old.is_some_and(|old| old == new) {
                queue.add_keeping_backoff(change.key.clone());
            } else {
                queue.add(change.key.clone());
            }
        }
    }
}

fn volume_gone(term: &TermContext, volume: &VolumeRecord) {
    term.reclaimed.forget(&volume.uid);
    term.finalizer_writes.forget(&volume.uid);
    term.attachments.forget(&volume.uid);
    if term.unsaved.lock().contains_key(&volume.name) {
        // It was in the way of a volume that the driver has made already.
        term.queues.unsaved.add(volume.name.clone());
        return;
    }
    name_free(term, volume);
    if let Some(claim) = volume.claim_uid().filter(|claim| term.caches.claims.get(claim).is_some()) {
        term.provisioned.volume_gone(claim.clone());
        term.queues.claims.add(claim);
    }
}

/// The volume was perhaps in the way of a claim whose volume has this name. Names with a part of the UID do not tell whose
/// they are: such a claim waits for the resync.
fn name_free(term: &TermContext, volume: &VolumeRecord) {
    let name = volume.name.to_string();
    for prefix in [term.settings.flags.volume_name_prefix.as_str(), "pvc"] {
        let uid = name.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('-'));
        let claim = uid.map(ClaimUid::from).filter(|claim| term.caches.claims.get(claim).is_some());
        // What is in progress waits for the driver, not for a name.
        if let Some(claim) = claim.filter(|claim| term.in_progress.get(claim).is_none()) {
            if volume.claim_uid().is_none() {
                // The volume was reserved by the claim's name, so it may have been the claim's.
                term.provisioned.volume_gone(claim.clone());
            }
            term.queues.claims.add(claim);
        }
    }
}

fn node_changed(term: &TermContext, change: &Change<'_, NodeProjection>) {
    if change.old != change.new {
        place_changed(term, change.key);
    }
}

fn csi_node_changed(term: &TermContext, change: &Change<'_, CsiNodeProjection>) {
    if change.old != change.new {
        place_changed(term, change.key);
    }
}

/// Where a node is may be what claims wait for.
fn place_changed(term: &TermContext, node: &NodeName) {
    let Some(cluster) = &term.cluster else { return };
    cluster.changed();
    // Nodes that come up by the dozen change often before the first of them has the driver.
    let several = term.awaiting_nodes.for_several();
    let any_node = several && cluster.everywhere().is_ok();
    for claim in term.awaiting_nodes.take(node, any_node, any_node && cluster.has_no_topology()) {
        // What is in progress is repeated with its first request: the nodes change nothing about it.
        if term.in_progress.get(&claim).is_none() {
            term.queues.claims.add(claim);
        }
    }
}

/// The last attachment is gone, or the last that was not stale: the volume that waited for that is reclaimed.
fn attachment_changed(term: &TermContext, change: &Change<'_, AttachmentProjection>) {
    let (Some(attachment), None) = (change.old, change.new) else { return };
    let volume = attachment.volume();
    let reclaimable = term.caches.volumes.get(volume).is_some_and(|volume| decide(&volume) == VolumeDecision::Reclaim);
    let last = !term.settings.driver.attaches || term.caches.attachments.of(volume).is_empty();
    if reclaimable && last {
        add_afresh(&term.queues.volumes, volume.clone());
    }
}
