//! Publishing to a node and taking it back, recorded before it is answered.

use crate::state::publication::{Admission, admit};
use crate::state::{Kept, NodeId, Publication, Record, StateError, VolumeId, Volumes};

impl Volumes {
    /// Publishes the volume, with at most `limit` volumes on the node. The same call again changes nothing.
    pub(crate) async fn publish(
        &self,
        id: &VolumeId,
        wanted: Publication,
        limit: Option<u32>,
    ) -> Result<(), StateError> {
        let (_turn, record) =
            self.hold(id).await.ok_or_else(|| StateError::NotFound { kind: Record::KIND, id: id.to_string() })?;
        if admit(&record, &wanted)? == Admission::Published {
            return Ok(());
        }
        let node_id = wanted.node_id.clone();
        self.reserve(&node_id, limit)?;
        let mut published = record.published.clone();
        published.push(wanted);
        let result = self.store.update(Record { published, ..Record::clone(&record) }).await;
        self.give_back(&node_id);
        result
    }

    /// Unpublishes the volume from the node, or from all without one. Nothing to do where it is not published.
    pub(crate) async fn unpublish(&self, id: &VolumeId, node: Option<&NodeId>) -> Result<(), StateError> {
        let Some((_turn, record)) = self.hold(id).await else { return Ok(()) };
        let stays = |one: &Publication| node.is_some_and(|node| one.node_id != *node);
        let published: Vec<_> = record.published.iter().filter(|one| stays(one)).cloned().collect();
        if published.len() == record.published.len() {
            return Ok(());
        }
        self.store.update(Record { published, ..Record::clone(&record) }).await
    }

    fn reserve(&self, node_id: &NodeId, limit: Option<u32>) -> Result<(), StateError> {
        let mut publishing = self.publishing.lock();
        if let Some(limit) = limit {
            let index = self.store.index.lock();
            let published = index.all().flat_map(|record| &record.published).map(|one| &one.node_id);
            let there = published.chain(publishing.iter()).filter(|id| *id == node_id).count();
            if u32::try_from(there).is_ok_and(|there| there >= limit) {
                return Err(StateError::NodeFull { node_id: node_id.clone(), limit });
            }
        }
        publishing.push(node_id.clone());
        Ok(())
    }

    /// The publication is in a record, or nowhere.
    fn give_back(&self, node_id: &NodeId) {
        let mut publishing = self.publishing.lock();
        if let Some(position) = publishing.iter().position(|one| one == node_id) {
            publishing.swap_remove(position);
        }
    }
}
