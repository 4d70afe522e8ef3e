//! Nodes that have as many volumes as they may: who waits there for a detach.
//!
//! A driver answers RESOURCE_EXHAUSTED when an attach overtakes the detach that makes room for it, and kubelet rejects a pod
//! with that code (`isResourceExhaustError`). So a first attach to a node that is full by its `CSINode` waits as long as a
//! detach of the node is under way, but not for ever: whether there is room the driver knows. Nothing waits for a detach of
//! another node.

use std::time::Duration;

use foldhash::{HashMap, HashSet};
use parking_lot::Mutex;
use storage_kube::names::{AttachmentName, NodeName};
use tokio::time::Instant;

use super::Attachment;
use crate::records::NodeRecord;
use crate::term_context::TermContext;

/// How long a first attach waits for detaches at most.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_mins(2);

/// Those of one term, by node. Holds only nodes that are left or waited for.
#[derive(Default)]
pub(crate) struct NodeDetaches {
    nodes: Mutex<HashMap<NodeName, OfNode>>,
}

#[derive(Default)]
struct OfNode {
    /// Deleted, and may still be published.
    detaching: HashSet<AttachmentName>,
    /// Sure of their room, and not noted as held yet.
    admitted: HashSet<AttachmentName>,
    waiting: HashMap<AttachmentName, Waiting>,
}

struct Waiting {
    since: Instant,
    /// The driver has refused it. Else it waits for room before its first call.
    refused: bool,
    woken: bool,
}

/// Room for one more volume at a node, until it is dropped. By then the attachment is held, or nothing was published.
pub(crate) struct Room<'a> {
    detaches: &'a NodeDetaches,
    node: NodeName,
    attachment: AttachmentName,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.detaches.change_known(&self.node, |of_node| of_node.admitted.remove(&self.attachment));
    }
}

impl NodeDetaches {
    /// The attachment is deleted, and its volume may still be at the node.
    pub(crate) fn detaches(&self, node: &NodeName, attachment: &AttachmentName) {
        self.change(node, |of_node| {
            of_node.waiting.remove(attachment);
            of_node.detaching.insert(attachment.clone());
        });
    }

    /// The volume is not at the node any more. Returns whom to wake: who has waited longest, and with the last detach
    /// everybody who has not asked the driver yet.
    pub(crate) fn ended(&self, node: &NodeName, attachment: &AttachmentName) -> Vec<AttachmentName> {
        let woken = self.change_known(node, |of_node| {
            if !of_node.detaching.remove(attachment) {
                return Vec::new();
            }
            let is_last = of_node.detaching.is_empty();
            let mut asleep: Vec<_> = of_node.waiting.iter_mut().filter(|(_, waiting)| !waiting.woken).collect();
            asleep.sort_by_key(|(_, waiting)| waiting.since);
            let to_wake = asleep.into_iter().enumerate();
            let to_wake = to_wake.filter(|(place, (_, waiting))| *place == 0 || is_last && !waiting.refused);
            let wake = |(_, (name, waiting)): (usize, (&AttachmentName, &mut Waiting))| {
                waiting.woken = true;
                name.clone()
            };
            to_wake.map(wake).collect()
        });
        woken.unwrap_or_default()
    }

    /// The driver has no room for the volume: the next detach of the node is worth another try.
    pub(crate) fn refused(&self, node: &NodeName, attachment: &AttachmentName) {
        self.change(node, |of_node| {
            let now = Instant::now();
            let waiting = of_node.waiting.entry(attachment.clone());
            let waiting = waiting.or_insert(Waiting { since: now, refused: true, woken: false });
            (waiting.refused, waiting.woken) = (true, false);
        });
    }

    /// Room for one more volume, unless the node is full and a detach is under way; then for how long to wait at most.
    /// `count` says how many volumes the node has beside those that are admitted.
    fn room(
        &self,
        node: &NodeName,
        attachment: &AttachmentName,
        limit: u32,
        count: impl FnOnce(&HashSet<AttachmentName>) -> usize,
    ) -> Result<Room<'_>, Duration> {
        self.change(node, |of_node| {
            let waited = of_node.waiting.get(attachment).map(|waiting| waiting.since.elapsed()).unwrap_or_default();
            let left = LONGEST_WAIT.saturating_sub(waited);
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let is_full = |of_node: &OfNode| count(&of_node.admitted) + of_node.admitted.len() >= limit;
            if !of_node.detaching.is_empty() && !left.is_zero() && is_full(of_node) {
                let since = Instant::now();
                let waiting = of_node.waiting.entry(attachment.clone());
                waiting.or_insert(Waiting { since, refused: false, woken: false }).woken = false;
                return Err(left);
            }
            of_node.waiting.remove(attachment);
            of_node.admitted.insert(attachment.clone());
            Ok(Room { detaches: self, node: node.clone(), attachment: attachment.clone() })
        })
    }

    /// The attachment is attached or gone.
    pub(crate) fn forget(&self, node: &NodeName, attachment: &AttachmentName) {
        self.change_known(node, |of_node| of_node.waiting.remove(attachment));
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.nodes.lock().len()
    }

    /// Adds something to a node.
    fn change<T>(&self, node: &NodeName, change: impl FnOnce(&mut OfNode) -> T) -> T {
        change(self.nodes.lock().entry(node.clone()).or_default())
    }

    /// Takes something from a node, if there is anything.
    fn change_known<T>(&self, node: &NodeName, change: impl FnOnce(&mut OfNode) -> T) -> Option<T> {
        let mut nodes = self.nodes.lock();
        let of_node = nodes.get_mut(node)?;
        let out = change(of_node);
        let OfNode { detaching, admitted, waiting } = of_node;
        if detaching.is_empty() && admitted.is_empty() && waiting.is_empty() {
            nodes.remove(node);
            if nodes.is_empty() {
                *nodes = HashMap::default();
            }
        }
        Some(out)
    }
}

/// Room at the node for a volume that is to be attached for the first time. None is needed where the node has no limit or
/// the volume may be there already.
pub(crate) fn room<'a>(term: &'a TermContext, attachment: &Attachment) -> Result<Option<Room<'a>>, Duration> {
    let node = attachment.record.node();
    let limit = match term.caches.node(node).as_deref() {
        Some(NodeRecord::Registered { limit, .. }) => *limit,
        Some(NodeRecord::WithoutDriver) | None => None,
    };
    let Some(limit) = limit.filter(|_| !attachment.record.is_held(&term.settings)) else { return Ok(None) };
    let count = |admitted: &HashSet<AttachmentName>| volumes_at(term, node, admitted);
    term.node_detaches.room(node, &attachment.name, limit, count).map(Some)
}

/// How many volumes are, or may be, published at the node, but for those.
fn volumes_at(term: &TermContext, node: &NodeName, without: &HashSet<AttachmentName>) -> usize {
    let names = term.caches.attachments.keys().into_iter().filter(|name| !without.contains(name));
    let found = names.filter_map(|name| term.attachment(&name)).filter(|found| {
        let record = &found.record;
        record.node() == node && record.is_held(&term.settings) && !term.remembered.is_unpublished(&record.uid)
    });
    found.count()
}

/// A volume has left the node: whoever waits for that is tried at once.
pub(crate) fn left(term: &TermContext, attachment: &AttachmentName, node: &NodeName) {
    for name in term.node_detaches.ended(node, attachment) {
        term.queues.attachments.add_urgent(name);
    }
}
