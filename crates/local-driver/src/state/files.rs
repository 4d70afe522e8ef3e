//! The state directory.
//!
//! ```text
//! lock                 held by the driver that uses the directory
//! volumes/<id>.json    one record each; a volume exists when its record does
//! data/<id>/mount/     the content of a mount volume
//! data/<id>/disk       the content of a block volume, sparse
//! ephemeral/           inline volumes of the node (`node/ephemeral`)
//! ```
//! Order on disk: data before record on creation; record marked, data removed, record removed on deletion. Every
//! step is synced before the next, so that whatever is cut off can be told apart and finished (`recovery`).

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, statvfs};

use crate::error::Error;
use crate::state::record::{Access, Record, VolumeId};

/// Owner only: what pods see of a volume is mounted elsewhere.
const PRIVATE: u32 = 0o700;
/// The top of a mount volume, for pods of any user.
const OPEN: u32 = 0o777;

/// The volume and its record are gone.
#[derive(Debug)]
pub(super) struct Deleted;

#[derive(Debug)]
pub(super) struct StateDir {
    records: PathBuf,
    data: PathBuf,
    _lock: File,
}

impl StateDir {
    /// Makes the directory if it is missing, and takes its lock for the life of the value.
    pub(super) fn open(dir: &Path) -> Result<Self, Error> {
        let (records, data) = (dir.join("volumes"), dir.join("data"));
        for dir in [dir, &records, &data] {
            let made = DirBuilder::new().recursive(true).mode(PRIVATE).create(dir);
            made.map_err(failed("create the directory", dir))?;
        }
        let path = dir.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(failed("open the lock", &path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            if error == rustix::io::Errno::WOULDBLOCK {
                Error::StateInUse(dir.to_owned())
            } else {
                failed("lock", &path)(error.into())
            }
        })?;
        sync_dir(dir)?;
        Ok(Self { records, data, _lock: lock })
    }

    pub(super) fn records_dir(&self) -> &Path {
        &self.records
    }

    pub(super) fn data_dir(&self) -> &Path {
        &self.data
    }

    pub(super) fn data_of(&self, id: &VolumeId) -> PathBuf {
        self.data.join(id.to_string())
    }

    /// Bytes a new file could take.
    pub(super) fn free_bytes(&self) -> Result<i64, Error> {
        let stat =
            statvfs(&self.data).map_err(|error| failed("ask for the free space of", &self.data)(error.into()))?;
        Ok(i64::try_from(stat.f_bavail.saturating_mul(stat.f_frsize)).unwrap_or(i64::MAX))
    }

    /// Makes the volume. After an error there is no record, and data at most where space or rights were missing.
    pub(super) fn create(&self, record: &Record) -> Result<(), Error> {
        let data = self.data_of(&record.id);
        let made =
            make_data(&data, record).and_then(|()| sync_dir(&self.data)).and_then(|()| self.write_record(record));
        if made.is_err() {
            // Best effort: what stays is empty and removed at the next start.
            let _ = fs::remove_dir_all(&data);
        }
        made
    }

    /// Removes the volume. The flag beside an error tells whether the record is marked as being deleted.
    pub(super) fn delete(&self, record: &Record) -> Result<Deleted, (Error, bool)> {
        if !record.deleting {
            let marked = Record { deleting: true, ..record.clone() };
            self.write_record(&marked).map_err(|error| (error, false))?;
        }
        self.finish_delete(&record.id).map_err(|error| (error, true))
    }

    /// Removes data and record of a volume marked as being deleted.
    pub(super) fn finish_delete(&self, id: &VolumeId) -> Result<Deleted, Error> {
        let data = self.data_of(id);
        absent_is_fine(fs::remove_dir_all(&data)).map_err(failed("remove", &data))?;
        sync_dir(&self.data)?;
        let record = self.record_path(id);
        absent_is_fine(fs::remove_file(&record)).map_err(failed("remove", &record))?;
        sync_dir(&self.records)?;
        Ok(Deleted)
    }

    /// Replaces the record of a volume that exists.
    pub(super) fn update(&self, record: &Record) -> Result<(), Error> {
        self.write_record(record)
    }

    fn record_path(&self, id: &VolumeId) -> PathBuf {
        self.records.join(format!("{id}.json"))
    }

    /// Old or new after a crash, never in between.
    fn write_record(&self, record: &Record) -> Result<(), Error> {
        let path = self.record_path(&record.id);
        let unfinished = self.records.join(format!(".{}.json", record.id));
        let written = serde_json::to_vec_pretty(record).map_err(io::Error::from).and_then(|text| {
            let mut file = File::create(&unfinished)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)
        });
        if written.is_err() {
            // Removed at the next start otherwise.
            let _ = fs::remove_file(&unfinished);
        }
        written.map_err(failed("write the record", &path))?;
        sync_dir(&self.records)
    }
}

fn make_data(data: &Path, record: &Record) -> Result<(), Error> {
    DirBuilder::new().mode(PRIVATE).create(data).map_err(failed("create the directory", data))?;
    match record.access {
        Access::Mount => {
            let mount = data.join("mount");
            let made = fs::create_dir(&mount).and_then(|()| fs::set_permissions(&mount, Permissions::from_mode(OPEN)));
            made.map_err(failed("create the directory", &mount))?;
        }
        Access::Block => {
            let disk = data.join("disk");
            let size = u64::try_from(record.capacity_bytes).unwrap_or_default();
            let made = File::create_new(&disk).and_then(|file| file.set_len(size).and_then(|()| file.sync_all()));
            made.map_err(failed("create the file", &disk))?;
        }
    }
    sync_dir(data)
}

fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed("sync", dir))
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

pub(super) fn failed(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::State { action, path: path.to_owned(), source }
}
