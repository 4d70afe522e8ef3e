//! Publishing to a node and taking it back, recorded before it is answered.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::spawn_blocking;

use crate::state::publication::{Admission, admit};
use crate::state::{Access, NodeId, Publication, Record, VolumeError, VolumeId, Volumes};
use crate::turns::Turn;

impl Volumes {
    /// Publishes the volume, with at most `limit` volumes on the node. The same call again changes nothing.
    pub(crate) async fn publish(
        &self,
        id: &VolumeId,
        wanted: Publication,
        limit: Option<u32>,
    ) -> Result<(), VolumeError> {
        let (_turn, record) = self.hold(id).await.ok_or_else(|| VolumeError::NotFound(id.clone()))?;
        if admit(&record, &wanted)? == Admission::Published {
            return Ok(());
        }
        let node_id = wanted.node_id.clone();
        self.reserve(&node_id, limit)?;
        let mut published = record.published.clone();
        published.push(wanted);
        let result = self.update(Record { published, ..Record::clone(&record) }).await;
        self.index.lock().give_back(&node_id);
        result
    }

    /// Unpublishes the volume from the node, or from all without one. Nothing to do where it is not published.
    pub(crate) async fn unpublish(&self, id: &VolumeId, node: Option<&NodeId>) -> Result<(), VolumeError> {
        let Some((_turn, record)) = self.hold(id).await else { return Ok(()) };
        let stays = |one: &Publication| node.is_some_and(|node| one.node_id != *node);
        let published: Vec<_> = record.published.iter().filter(|one| stays(one)).cloned().collect();
        if published.len() == record.published.len() {
            return Ok(());
        }
        self.update(Record { published, ..Record::clone(&record) }).await
    }

    /// The volume with the right to work on it, as soon as nobody else does. None if there is no such volume, or
    /// only what an unfinished deletion has left of it.
    pub(crate) async fn hold(&self, id: &VolumeId) -> Option<(Turn, Arc<Record>)> {
        self.get(id)?;
        let turn = self.turn(id).await;
        let record = self.get(id).filter(|record| !record.deleting)?;
        Some((turn, record))
    }

    /// The right to work on a volume, be it one of these or an inline volume of the node, as soon as nobody else does.
    pub(crate) async fn turn(&self, id: &VolumeId) -> Turn {
        let key = self.get(id).map_or_else(|| id.to_string(), |record| record.name.clone());
        self.turns.take(&key).await
    }

    /// The directory or file that is the volume.
    pub(crate) fn content(&self, record: &Record) -> PathBuf {
        self.files.data_of(&record.id).join(match record.access {
            Access::Mount => "mount",
            Access::Block => "disk",
        })
    }

    fn reserve(&self, node_id: &NodeId, limit: Option<u32>) -> Result<(), VolumeError> {
        let mut index = self.index.lock();
        if let Some(limit) = limit {
            let published = index.by_sequence.values().flat_map(|record| &record.published);
            let there = published.map(|one| &one.node_id).chain(&index.publishing).filter(|id| *id == node_id).count();
            if u32::try_from(there).is_ok_and(|there| there >= limit) {
                return Err(VolumeError::NodeFull { node_id: node_id.clone(), limit });
            }
        }
        index.publishing.push(node_id.clone());
        Ok(())
    }

    /// The caller holds the volume.
    async fn update(&self, record: Record) -> Result<(), VolumeError> {
        let record = Arc::new(record);
        let (files, writing) = (Arc::clone(&self.files), Arc::clone(&record));
        spawn_blocking(move || files.update(&writing)).await.map_err(|_| VolumeError::Interrupted)??;
        self.index.lock().by_sequence.insert(record.sequence, record);
        Ok(())
    }
}
