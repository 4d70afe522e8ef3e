//! The snapshots: copies of volumes that stay when the volume goes.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Error;
use crate::state::budget::Budget;
use crate::state::files::Lock;
use crate::state::index::Page;
use crate::state::kept::{FORMAT, Kept};
use crate::state::original::Original;
use crate::state::store::{Named, Store};
use crate::state::{Access, StateError, VolumeId, Volumes};

/// CSI `snapshot_id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct SnapshotId(String);

impl From<&str> for SnapshotId {
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A snapshot that exists. Secrets are no part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    format: u32,
    pub(crate) id: SnapshotId,
    /// CSI `CreateSnapshotRequest.name`.
    name: String,
    sequence: u64,
    /// The volume it was taken from, which may be gone.
    pub(crate) volume: VolumeId,
    /// Bytes of that volume; one made of the snapshot has at least as many.
    pub(crate) size_bytes: i64,
    access: Access,
    /// When the copy was begun, in nanoseconds since 1970.
    pub(crate) taken_unix_nanos: i64,
    #[serde(default)]
    deleting: bool,
}

impl Kept for Snapshot {
    type Id = SnapshotId;

    const KIND: &'static str = "snapshot";
    const RECORDS: &'static str = "snapshots";
    const DATA: &'static str = "snapshot-data";

    fn format(&self) -> u32 {
        self.format
    }

    fn id(&self) -> &SnapshotId {
        &self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn bytes(&self) -> i64 {
        self.size_bytes
    }

    fn access(&self) -> Access {
        self.access
    }

    fn is_deleting(&self) -> bool {
        self.deleting
    }

    fn deleting(&self) -> Self {
        Self { deleting: true, ..self.clone() }
    }
}

/// All snapshots of the driver.
#[derive(Debug)]
pub(crate) struct Snapshots(pub(super) Store<Snapshot>);

impl Snapshots {
    pub(super) fn open(dir: &Path, lock: Arc<Lock>, budget: Arc<Budget>) -> Result<Self, Error> {
        Store::open(dir, lock, budget).map(Self)
    }

    pub(crate) fn get(&self, id: &SnapshotId) -> Option<Arc<Snapshot>> {
        self.0.get(id)
    }

    /// Those taken after the one with sequence number `after`, oldest first, of one volume or of all.
    pub(crate) fn list(
        &self,
        after: Option<u64>,
        limit: usize,
        of: Option<&VolumeId>,
    ) -> Result<Page<Snapshot>, StateError> {
        let of = |snapshot: &Snapshot| of.is_none_or(|volume| snapshot.volume == *volume);
        self.0.index.lock().page(after, limit, of)
    }

    /// The snapshot of that name, taken if it is not there. The same call again gives the same snapshot, be its volume
    /// gone.
    pub(crate) async fn create(
        &self,
        name: &str,
        volume: &VolumeId,
        volumes: &Volumes,
    ) -> Result<Arc<Snapshot>, StateError> {
        let conflict = |snapshot: &Snapshot| {
            (snapshot.volume != *volume).then(|| format!("was taken of volume {}", snapshot.volume))
        };
        let begun = match self.0.begin(name, conflict)? {
            Named::Exists(snapshot) => return Ok(snapshot),
            Named::Free(begun) => begun,
        };
        let original = volumes.original(volume).await?;
        let reserved = self.0.budget.reserve(|_, free| match free {
            Some(free) if original.bytes > free => Err(StateError::Full { wanted: original.bytes, free: free.max(0) }),
            _ => Ok(original.bytes),
        })?;
        let snapshot = Snapshot {
            format: FORMAT,
            id: SnapshotId(Uuid::new_v4().to_string()),
            name: name.to_owned(),
            sequence: self.0.index.lock().next(),
            volume: volume.clone(),
            size_bytes: reserved.bytes(),
            access: original.access,
            taken_unix_nanos: unix_nanos(),
            deleting: false,
        };
        self.0.create(begun, snapshot, reserved, Some(original)).await
    }

    /// Removes the snapshot; nothing to do when there is none of that id. Volumes made of it are copies and stay.
    pub(crate) async fn delete(&self, id: &SnapshotId) -> Result<(), StateError> {
        self.0.delete(id, |_, _| Ok(())).await
    }

    /// Its content, to be copied.
    pub(super) async fn original(&self, id: &SnapshotId) -> Result<Original, StateError> {
        let (copying, snapshot) = self.0.hold_for_copy(id).await?;
        Ok(Original {
            content: self.0.shelf.content(&snapshot),
            access: snapshot.access,
            bytes: snapshot.size_bytes,
            devices: Vec::new(),
            mounted: None,
            _copying: copying,
        })
    }
}

fn unix_nanos() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
