//! The volumes and snapshots: which exist, which name and id lead to them, what may be done at the same time.
//!
//! `store` is what both have in common; publishing (`publish`) waits for what else is done with the volume.

mod budget;
mod copy;
mod error;
mod files;
mod index;
mod kept;
mod original;
mod publication;
mod publish;
mod record;
mod recovery;
mod snapshots;
mod store;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use crate::error::Error;
use crate::loop_device;
use crate::mount_table::MountTable;
use crate::turns::Turn;

pub(crate) use error::StateError;
pub(crate) use publication::{NodeId, Publication};
pub(crate) use record::{Access, ContentSource, Record, SizeRange, VolumeId, Wanted};
pub(crate) use snapshots::{Snapshot, SnapshotId, Snapshots};

use budget::Budget;
use files::{Lock, failed};
use index::Page;
use kept::Kept;
use original::Original;
use store::{Named, Store};

/// Loads what there is in the directory, which belongs to this process from here on, and finishes what an earlier one
/// left half done. `capacity` is in bytes, for volumes and snapshots together.
pub(crate) fn open(dir: &Path, capacity: Option<i64>) -> Result<(Volumes, Snapshots), Error> {
    let lock = Arc::new(Lock::take(dir)?);
    let budget = Arc::new(Budget::new(capacity));
    let volumes = Store::open(dir, Arc::clone(&lock), Arc::clone(&budget))?;
    Ok((Volumes { store: volumes, publishing: Mutex::default() }, Snapshots::open(dir, lock, budget)?))
}

/// All volumes of the driver.
#[derive(Debug)]
pub(crate) struct Volumes {
    store: Store<Record>,
    /// Nodes of publications that are being written.
    publishing: Mutex<Vec<NodeId>>,
}

impl Volumes {
    pub(crate) fn len(&self) -> usize {
        self.store.index.lock().len()
    }

    pub(crate) fn get(&self, id: &VolumeId) -> Option<Arc<Record>> {
        self.store.get(id)
    }

    /// The volumes created after the one with sequence number `after`, oldest first, and the number to go on from
    /// if there are more.
    pub(crate) fn list(&self, after: Option<u64>, limit: usize) -> Result<Page<Record>, StateError> {
        self.store.index.lock().page(after, limit, |_| true)
    }

    /// Bytes that can still be asked for.
    pub(crate) fn available(&self) -> Result<i64, StateError> {
        match self.store.budget.free() {
            Some(free) => Ok(free),
            None => Ok(self.store.shelf.free_bytes()?),
        }
    }

    /// The volume of that name, made if it is not there. The same call again gives the same volume, be its source gone.
    pub(crate) async fn create(&self, wanted: Wanted, snapshots: &Snapshots) -> Result<Arc<Record>, StateError> {
        let begun = match self.store.begin(&wanted.name, |record| wanted.conflict_with(record))? {
            Named::Exists(record) => return Ok(record),
            Named::Free(begun) => begun,
        };
        let original = match &wanted.source {
            None => None,
            Some(ContentSource::Snapshot(id)) => Some(snapshots.original(id).await?),
            Some(ContentSource::Volume(id)) => Some(self.original(id).await?),
        };
        if let Some(original) = original.as_ref().filter(|original| original.access != wanted.access) {
            return Err(StateError::SourceAccess { is: original.access, wanted: wanted.access });
        }
        let source_bytes = original.as_ref().map_or(0, |original| original.bytes);
        let size = wanted.size.of_at_least(source_bytes)?;
        let reserved = self.store.budget.reserve(|capacity, free| size.choose(wanted.access, capacity, free))?;
        let record = Record::new(wanted, self.store.index.lock().next(), reserved.bytes());
        self.store.create(begun, record, reserved, original).await
    }

    /// Removes the volume; nothing to do when there is none of that id. Its snapshots and clones are copies and stay.
    pub(crate) async fn delete(&self, id: &VolumeId) -> Result<(), StateError> {
        self.store.delete(id, refuse_in_use).await
    }

    /// Gives the volume new values of mutable parameters; those that are not named stay.
    pub(crate) async fn modify(&self, id: &VolumeId, changes: BTreeMap<String, String>) -> Result<(), StateError> {
        let missing = || StateError::NotFound { kind: Record::KIND, id: id.to_string() };
        let (_turn, record) = self.hold(id).await.ok_or_else(missing)?;
        let mut modified = Record::clone(&record);
        modified.mutable_parameters.extend(changes);
        if modified == *record {
            return Ok(());
        }
        self.store.update(modified).await
    }

    /// Makes the volume as large as `size` says, never smaller; `offline` refuses while it is used somewhere. Nothing to do
    /// when it is as large (CSI "ControllerExpandVolume").
    pub(crate) async fn expand(
        &self,
        id: &VolumeId,
        size: SizeRange,
        offline: bool,
    ) -> Result<Arc<Record>, StateError> {
        let missing = || StateError::NotFound { kind: Record::KIND, id: id.to_string() };
        let (_turn, record) = self.hold(id).await.ok_or_else(missing)?;
        let bytes = record.capacity_bytes;
        if let Some(limit) = size.limit.filter(|limit| *limit < bytes) {
            return Err(StateError::Size(format!("volume {id} has {bytes} bytes, the limit is {limit}")));
        }
        if size.required <= bytes {
            return Ok(record);
        }
        if offline {
            let (used, data) = (Arc::clone(&record), self.store.shelf.data_of(id));
            spawn_blocking(move || refuse_in_use(&used, &data)).await.map_err(|_| StateError::Interrupted)??;
        }
        let grown = self.store.budget.reserve(|capacity, free| {
            let free = free.map(|free| free.saturating_add(bytes));
            Ok(size.choose(record.access, capacity, free)? - bytes)
        })?;
        let larger = Record { capacity_bytes: bytes + grown.bytes(), ..Record::clone(&record) };
        self.store.grow(record, larger, grown).await
    }

    /// The volume with the right to work on it, as soon as nobody else does. None if there is no such volume, or
    /// only what an unfinished deletion has left of it.
    pub(crate) async fn hold(&self, id: &VolumeId) -> Option<(Turn, Arc<Record>)> {
        self.store.hold(id).await
    }

    /// The right to work on a volume, be it one of these or an inline volume of the node, as soon as nobody else does.
    pub(crate) async fn turn(&self, id: &VolumeId) -> Turn {
        self.store.turn(id).await
    }

    /// The directory or file that is the volume.
    pub(crate) fn content(&self, record: &Record) -> PathBuf {
        self.store.shelf.content(record)
    }

    /// Its content, to be copied.
    async fn original(&self, id: &VolumeId) -> Result<Original, StateError> {
        let (copying, record) = self.store.hold_for_copy(id).await?;
        let content = self.content(&record);
        let (volume, path) = (id.clone(), content.clone());
        let used = spawn_blocking(move || {
            let mounts = MountTable::read().map_err(failed("read the mounts for", &path))?;
            let devices = loop_device::attached(&volume).map_err(failed("look for loop devices of", &path))?;
            Ok::<_, Error>((mounts.file_system_of(&volume).map(|mount| mount.point.clone()), devices))
        });
        let (mounted, devices) = used.await.map_err(|_| StateError::Interrupted)??;
        let bytes = record.capacity_bytes;
        Ok(Original { content, access: record.access, bytes, devices, mounted, _copying: copying })
    }
}

fn refuse_in_use(record: &Record, data: &Path) -> Result<(), StateError> {
    let id = record.id.clone();
    if !record.published.is_empty() {
        return Err(StateError::StillPublished { id, nodes: record.published_nodes().join(", ") });
    }
    in_use(&id, data)?.map_or(Ok(()), |at| Err(StateError::InUse { id, at }))
}

/// Where this node uses a volume: what is mounted would be emptied, or what is attached would never be freed.
fn in_use(id: &VolumeId, data: &Path) -> Result<Option<String>, Error> {
    let mounts = MountTable::read().map_err(failed("read the mounts for", data))?;
    if let Some(mount) = mounts.of_volume(id).next().or_else(|| mounts.below(data)) {
        return Ok(Some(mount.point.display().to_string()));
    }
    let devices = loop_device::attached(id).map_err(failed("look for loop devices of", data))?;
    // One that is on its way out keeps the removed file for its last user.
    Ok(devices.iter().find(|device| device.stays()).map(|device| device.path().display().to_string()))
}

#[cfg(test)]
mod tests;
