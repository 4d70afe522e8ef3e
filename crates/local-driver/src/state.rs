//! The volumes: which exist, which name and id lead to them, what may be done at the same time.
//!
//! The index is in memory and answers at once; the disk is written on blocking threads, and a change is in the
//! index only after it is on the disk. Per name one operation runs at a time; creation and deletion are told to come
//! again, publishing waits.

mod error;
mod files;
mod publication;
mod publish;
mod record;
mod recovery;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use crate::error::Error;
use crate::loop_device;
use crate::mount_table::MountTable;
use crate::turns::Turns;

pub(crate) use error::VolumeError;
pub(crate) use publication::{NodeId, Publication};
pub(crate) use record::{Access, Record, SizeRange, VolumeId, Wanted};

use files::{Deleted, StateDir};

/// All volumes of the driver.
#[derive(Debug)]
pub(crate) struct Volumes {
    files: Arc<StateDir>,
    /// Bytes all volumes may take together.
    capacity: Option<i64>,
    /// By name.
    turns: Turns,
    index: Mutex<Index>,
}

#[derive(Debug, Default)]
struct Index {
    by_sequence: BTreeMap<u64, Arc<Record>>,
    by_id: HashMap<VolumeId, u64>,
    by_name: HashMap<String, u64>,
    /// Sequence number of the next volume.
    next: u64,
    /// Bytes of all volumes, those being made included.
    reserved: i64,
    /// Nodes of publications that are being written.
    publishing: Vec<NodeId>,
}

enum Begun {
    Exists(Arc<Record>),
    New {
        record: Record,
        /// A volume of this name whose deletion was begun and not finished.
        leftover: Option<Arc<Record>>,
    },
}

impl Volumes {
    /// Loads the volumes and finishes what an earlier process left half done.
    pub(crate) fn open(dir: &Path, capacity: Option<i64>) -> Result<Self, Error> {
        let files = StateDir::open(dir)?;
        let mut index = Index::default();
        for record in recovery::recover(&files)? {
            index.reserved = index.reserved.saturating_add(record.capacity_bytes);
            index.next = index.next.max(record.sequence + 1);
            index.insert(Arc::new(record));
        }
        Ok(Self { files: Arc::new(files), capacity, turns: Turns::default(), index: Mutex::new(index) })
    }

    pub(crate) fn len(&self) -> usize {
        self.index.lock().by_sequence.len()
    }

    pub(crate) fn get(&self, id: &VolumeId) -> Option<Arc<Record>> {
        self.index.lock().get(id)
    }

    /// The volumes created after the one with sequence number `after`, oldest first, and the number to go on from
    /// if there are more.
    pub(crate) fn list(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<Arc<Record>>, Option<u64>), VolumeError> {
        let index = self.index.lock();
        if after.is_some_and(|after| after >= index.next) {
            return Err(VolumeError::NoSuchPage);
        }
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = index.by_sequence.range((from, Bound::Unbounded)).map(|(_, record)| Arc::clone(record));
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        let more = rest.next().is_some();
        let next = page.last().map(|record| record.sequence).filter(|_| more);
        Ok((page, next))
    }

    /// Bytes that can still be asked for.
    pub(crate) fn available(&self) -> Result<i64, VolumeError> {
        match self.capacity {
            Some(capacity) => Ok((capacity - self.index.lock().reserved).max(0)),
            None => Ok(self.files.free_bytes()?),
        }
    }

    /// The volume of that name, made if it is not there. The same call again gives the same volume.
    pub(crate) async fn create(&self, wanted: Wanted) -> Result<Arc<Record>, VolumeError> {
        let Some(_turn) = self.turns.try_take(&wanted.name) else { return Err(VolumeError::Pending(wanted.name)) };
        let (record, leftover) = match self.begin_create(wanted)? {
            Begun::Exists(record) => return Ok(record),
            Begun::New { record, leftover } => (Arc::new(record), leftover),
        };
        let files = Arc::clone(&self.files);
        let (making, removing) = (Arc::clone(&record), leftover.clone());
        let made = spawn_blocking(move || {
            removing.map_or(Ok(()), |leftover| files.delete(&leftover).map(drop).map_err(|(error, _)| error))?;
            files.create(&making)
        });
        let made = made.await.map_err(|_| VolumeError::Interrupted).and_then(|made| made.map_err(VolumeError::from));
        let mut index = self.index.lock();
        if let Err(error) = made {
            index.reserved -= record.capacity_bytes;
            return Err(error);
        }
        if let Some(leftover) = leftover {
            index.remove(&leftover);
        }
        index.insert(Arc::clone(&record));
        Ok(record)
    }

    fn begin_create(&self, wanted: Wanted) -> Result<Begun, VolumeError> {
        let mut index = self.index.lock();
        let existing = index.by_name.get(&wanted.name).and_then(|sequence| index.by_sequence.get(sequence)).cloned();
        let leftover = match existing {
            Some(record) if record.deleting => Some(record),
            Some(record) => {
                return match wanted.conflict_with(&record) {
                    None => Ok(Begun::Exists(record)),
                    Some(conflict) => Err(VolumeError::Exists { name: wanted.name, conflict }),
                };
            }
            None => None,
        };
        let free = self.capacity.map(|capacity| capacity - index.reserved);
        let capacity_bytes = wanted.size.choose(wanted.access, self.capacity, free)?;
        let record = Record::new(wanted, index.next, capacity_bytes);
        index.next += 1;
        index.reserved += capacity_bytes;
        Ok(Begun::New { record, leftover })
    }

    /// Removes the volume; nothing to do when there is none of that id.
    pub(crate) async fn delete(&self, id: &VolumeId) -> Result<(), VolumeError> {
        let Some(name) = self.get(id).map(|record| record.name.clone()) else { return Ok(()) };
        let Some(_turn) = self.turns.try_take(&name) else { return Err(VolumeError::Pending(name)) };
        let Some(record) = self.get(id) else { return Ok(()) };
        if !record.published.is_empty() {
            let nodes = record.published_nodes().join(", ");
            return Err(VolumeError::StillPublished { id: id.clone(), nodes });
        }
        let files = Arc::clone(&self.files);
        let removing = Arc::clone(&record);
        let deleted = spawn_blocking(move || {
            let id = &removing.id;
            match in_use(id, &files.data_of(id)).map_err(|error| (error.into(), false))? {
                Some(at) => Err((VolumeError::InUse { id: id.clone(), at }, false)),
                None => files.delete(&removing).map_err(|(error, marked)| (error.into(), marked)),
            }
        });
        let deleted = deleted.await;
        let mut index = self.index.lock();
        match deleted {
            Ok(Ok(Deleted)) => index.remove(&record),
            Ok(Err((error, marked))) => {
                if marked {
                    let half = Record { deleting: true, ..Record::clone(&record) };
                    index.by_sequence.insert(record.sequence, Arc::new(half));
                }
                return Err(error);
            }
            Err(_) => return Err(VolumeError::Interrupted),
        }
        Ok(())
    }
}

impl Index {
    fn get(&self, id: &VolumeId) -> Option<Arc<Record>> {
        self.by_id.get(id).and_then(|sequence| self.by_sequence.get(sequence)).cloned()
    }

    /// The bytes of the record are counted by the caller: they are reserved before the volume is made.
    fn insert(&mut self, record: Arc<Record>) {
        self.by_id.insert(record.id.clone(), record.sequence);
        self.by_name.insert(record.name.clone(), record.sequence);
        self.by_sequence.insert(record.sequence, record);
    }

    /// The publication is in a record, or nowhere.
    fn give_back(&mut self, node_id: &NodeId) {
        if let Some(position) = self.publishing.iter().position(|one| one == node_id) {
            self.publishing.swap_remove(position);
        }
    }

    fn remove(&mut self, record: &Record) {
        if self.by_sequence.remove(&record.sequence).is_some() {
            self.reserved -= record.capacity_bytes;
        }
        self.by_id.remove(&record.id);
        self.by_name.remove(&record.name);
    }
}

/// Where this node uses a volume: what is mounted would be emptied, or what is attached would never be freed.
fn in_use(id: &VolumeId, data: &Path) -> Result<Option<String>, Error> {
    let mounts = MountTable::read().map_err(files::failed("read the mounts for", data))?;
    if let Some(mount) = mounts.of_volume(id).next().or_else(|| mounts.below(data)) {
        return Ok(Some(mount.point.display().to_string()));
    }
    let devices = loop_device::attached(id).map_err(files::failed("look for loop devices of", data))?;
    // One that is on its way out keeps the removed file for its last user.
    Ok(devices.iter().find(|device| device.stays()).map(|device| device.path().display().to_string()))
}

#[cfg(test)]
mod tests;
