//! Which change of which object brings which items into the queue.

use std::sync::Arc;

use controller_runtime::{Change, Subscription};

use super::Capacity;
use super::desired::is_wanted;
use super::segments::SegmentSource;
use crate::records::{CapacityProjection, ClassProjection, CsiNodeProjection, NodeProjection};
use crate::term_context::TermContext;

/// Subscribes a term to what capacities depend on; every object there is comes as a new one first.
pub(crate) fn subscribe(term: &Arc<TermContext>, capacity: &Capacity) -> Vec<Subscription> {
    let mut all = vec![
        capacity.objects.subscribe_for(term, object_changed),
        term.caches.classes.subscribe_for(term, class_changed),
    ];
    if let (SegmentSource::Nodes, Some(nodes)) = (&capacity.process.source, &term.caches.nodes) {
        all.push(nodes.nodes.subscribe_for(term, node_changed));
        all.push(nodes.csi_nodes.subscribe_for(term, csi_node_changed));
    }
    all
}

fn object_changed(term: &TermContext, change: &Change<'_, CapacityProjection>) {
    let Some(capacity) = &term.capacity else { return };
    let (old, new) = (change.old.map(|old| &old.item), change.new.map(|new| &new.item));
    if let Some(item) = new
        && capacity.own_writes.is_news(item, change.key, change.new.map(|new| &**new))
    {
        capacity.queue.add(item.clone());
    }
    if let Some(item) = old.filter(|old| Some(*old) != new)
        && capacity.own_writes.is_news(item, change.key, None)
    {
        capacity.queue.add(item.clone());
    }
}

/// Everything in a class is immutable, so one that differs was made anew.
fn class_changed(term: &TermContext, change: &Change<'_, ClassProjection>) {
    let Some(capacity) = &term.capacity else { return };
    let wanted = change.new.is_some_and(|class| is_wanted(class, capacity.process.flags.immediate_binding));
    let changed = capacity.desired.lock().set_class(change.key, wanted);
    if changed || (wanted && change.old != change.new) {
        let items = capacity.desired.lock().of_class(change.key);
        capacity.add_afresh(items);
    }
}

fn node_changed(term: &TermContext, change: &Change<'_, NodeProjection>) {
    if change.old != change.new {
        topology_changed(term);
    }
}

fn csi_node_changed(term: &TermContext, change: &Change<'_, CsiNodeProjection>) {
    if change.old != change.new {
        topology_changed(term);
    }
}

fn topology_changed(term: &TermContext) {
    if let Some(topology) = term.capacity.as_ref().and_then(|capacity| capacity.topology.as_ref()) {
        topology.add(Topology);
    }
}

/// The one key of its queue: all segments are found anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Topology;
