//! The state directory.
//!
//! ```text
//! lock                     held by the driver that uses the directory
//! volumes/<id>.json        one record each; a volume exists when its record does
//! data/<id>/mount/         the content of a mount volume
//! data/<id>/disk           the content of a block volume, sparse, or the image with the file system of a mount volume
//! data/<id>/fs             where that file system is mounted while it is in use (`node/file_system`)
//! snapshots/<id>.json      the same of snapshots
//! snapshot-data/<id>/…
//! ephemeral/               inline volumes of the node (`node/ephemeral`)
//! ```
//! Order on disk: data before record on creation; record marked, data removed, record removed on deletion. What is
//! copied or formatted begins as a deletion: the marked record, the data, the record without the mark. What grows does so
//! before its record. Every step is synced before
//! the next, so that whatever is cut off can be told apart and finished (`recovery`).

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, SeekFrom, flock, seek, statvfs};
use rustix::io::Errno;

use crate::error::Error;
use crate::image;
use crate::state::Access;
use crate::state::copy;
use crate::state::kept::Kept;
use crate::state::original::Original;

/// Owner only: what pods see of a volume is mounted elsewhere.
const PRIVATE: u32 = 0o700;
/// The top of a mount volume, for pods of any user.
const OPEN: u32 = 0o777;

/// Record and data are gone.
#[derive(Debug)]
pub(super) struct Deleted;

/// The lock of the state directory, held while it lives.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "closing the file gives the lock back")] File);

impl Lock {
    /// Makes the directory if it is missing, and takes its lock.
    pub(super) fn take(dir: &Path) -> Result<Self, Error> {
        make_dir(dir)?;
        let path = dir.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(failed("open the lock", &path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            if error == Errno::WOULDBLOCK {
                Error::StateInUse(dir.to_owned())
            } else {
                failed("lock", &path)(error.into())
            }
        })?;
        Ok(Self(lock))
    }
}

/// The records of one kind and the data that belongs to them.
#[derive(Debug)]
pub(super) struct Shelf<R> {
    records: PathBuf,
    data: PathBuf,
    _lock: Arc<Lock>,
    _of: PhantomData<fn() -> R>,
}

impl<R: Kept> Shelf<R> {
    pub(super) fn open(dir: &Path, lock: Arc<Lock>) -> Result<Self, Error> {
        let (records, data) = (dir.join(R::RECORDS), dir.join(R::DATA));
        make_dir(&records)?;
        make_dir(&data)?;
        sync_dir(dir)?;
        Ok(Self { records, data, _lock: lock, _of: PhantomData })
    }

    pub(super) fn records_dir(&self) -> &Path {
        &self.records
    }

    pub(super) fn data_dir(&self) -> &Path {
        &self.data
    }

    pub(super) fn data_of(&self, id: &R::Id) -> PathBuf {
        self.data.join(id.to_string())
    }

    /// The directory or file that holds the content.
    pub(super) fn content(&self, record: &R) -> PathBuf {
        self.data_of(record.id()).join(content_name(record.access()))
    }

    /// Bytes a new file could take.
    pub(super) fn free_bytes(&self) -> Result<i64, Error> {
        let stat =
            statvfs(&self.data).map_err(|error| failed("ask for the free space of", &self.data)(error.into()))?;
        Ok(i64::try_from(stat.f_bavail.saturating_mul(stat.f_frsize)).unwrap_or(i64::MAX))
    }

    /// Makes what the record says, as a copy or empty. After an error nothing of it is left, or what the next start
    /// takes away.
    pub(super) fn create(&self, record: &R, original: Option<&Original>) -> Result<(), Error> {
        if original.is_none() && record.access() != Access::Image {
            let data = self.data_of(record.id());
            let made = make_empty(&data, record).and_then(|()| self.write_record(record));
            if made.is_err() {
                // Best effort: what stays is empty and removed at the next start.
                let _ = fs::remove_dir_all(&data);
            }
            return made;
        }
        self.write_record(&record.deleting())?;
        let made = match original {
            Some(original) => self.make_copy(record, original),
            None => make_empty(&self.data_of(record.id()), record),
        };
        let made = made.and_then(|()| self.write_record(record));
        if made.is_err() {
            // Best effort: the record is marked.
            let _ = self.finish_delete(record.id());
        }
        made
    }

    fn make_copy(&self, record: &R, original: &Original) -> Result<(), Error> {
        original.settle()?;
        let data = self.data_of(record.id());
        new_dir(&data)?;
        let content = data.join(content_name(record.access()));
        let copied = match record.access() {
            Access::Mount => copy::directory(&original.content, &content),
            Access::Block | Access::Image => copy::file(&original.content, &content)
                .and_then(|disk| disk.set_len(size_of(record)).and_then(|()| disk.sync_all())),
        };
        copied.map_err(failed("make the copy", &content))?;
        sync_dir(&data)?;
        sync_dir(&self.data)
    }

    /// Removes it. The flag beside an error tells whether the record is marked as being deleted.
    pub(super) fn delete(&self, record: &R) -> Result<Deleted, (Error, bool)> {
        if !record.is_deleting() {
            self.write_record(&record.deleting()).map_err(|error| (error, false))?;
        }
        self.finish_delete(record.id()).map_err(|error| (error, true))
    }

    /// Removes data and record of what is marked as being deleted.
    pub(super) fn finish_delete(&self, id: &R::Id) -> Result<Deleted, Error> {
        let data = self.data_of(id);
        absent_is_fine(fs::remove_dir_all(&data)).map_err(failed("remove", &data))?;
        sync_dir(&self.data)?;
        let record = self.record_path(id);
        absent_is_fine(fs::remove_file(&record)).map_err(failed("remove", &record))?;
        sync_dir(&self.records)?;
        Ok(Deleted)
    }

    /// Replaces the record of something that exists.
    pub(super) fn update(&self, record: &R) -> Result<(), Error> {
        self.write_record(record)
    }

    /// Gives something that exists more bytes. After an error it has as many as before, from the next start at the
    /// latest.
    pub(super) fn grow(&self, old: &R, new: &R) -> Result<(), Error> {
        if new.access() == Access::Mount {
            return self.write_record(new);
        }
        let disk = self.content(new);
        let resized = |bytes: u64| {
            let file = OpenOptions::new().write(true).open(&disk)?;
            file.set_len(bytes).and_then(|()| file.sync_all())
        };
        resized(size_of(new)).map_err(failed("enlarge", &disk))?;
        let written = self.write_record(new);
        if written.is_err() {
            // Best effort: what is there is a hole, and cut off at the next start.
            let _ = resized(size_of(old));
        }
        written
    }

    /// Takes back what a process has enlarged that died before it wrote the record. Nobody has seen that: it is a hole.
    pub(super) fn take_back_growth(&self, record: &R) -> Result<(), Error> {
        let disk = self.content(record);
        if record.access() == Access::Mount || fs::metadata(&disk).is_ok_and(|found| found.len() <= size_of(record)) {
            return Ok(());
        }
        let cut = || {
            let file = OpenOptions::new().read(true).write(true).open(&disk)?;
            match seek(&file, SeekFrom::Data(size_of(record))) {
                Err(Errno::NXIO) => file.set_len(size_of(record)).and_then(|()| file.sync_all()).map(|()| true),
                Err(error) => Err(error.into()),
                Ok(_) => Ok(false),
            }
        };
        match cut() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed("cut off what the record does not know of", &disk)(error)),
            Ok(true) => Ok(()),
            Ok(false) => {
                tracing::warn!(disk = %disk.display(), "is larger than its record says and is kept, since there are data");
                Ok(())
            }
        }
    }

    fn record_path(&self, id: &R::Id) -> PathBuf {
        self.records.join(format!("{id}.json"))
    }

    /// Old or new after a crash, never in between.
    fn write_record(&self, record: &R) -> Result<(), Error> {
        let path = self.record_path(record.id());
        let unfinished = self.records.join(format!(".{}.json", record.id()));
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

/// Synced together with the directory it is in.
fn make_empty<R: Kept>(data: &Path, record: &R) -> Result<(), Error> {
    new_dir(data)?;
    let content = data.join(content_name(record.access()));
    match record.access() {
        Access::Mount => {
            let open = || fs::set_permissions(&content, Permissions::from_mode(OPEN));
            fs::create_dir(&content).and_then(|()| open()).map_err(failed("create the directory", &content))?;
        }
        Access::Block => drop(sparse(&content, record)?),
        Access::Image => {
            let file = sparse(&content, record)?;
            image::format(&content).map_err(|source| Error::FileSystem { path: content.clone(), source })?;
            file.sync_all().map_err(failed("sync", &content))?;
        }
    }
    sync_dir(data)?;
    data.parent().map_or(Ok(()), sync_dir)
}

fn sparse<R: Kept>(path: &Path, record: &R) -> Result<File, Error> {
    let file = File::create_new(path);
    let made = file.and_then(|file| file.set_len(size_of(record)).and_then(|()| file.sync_all()).map(|()| file));
    made.map_err(failed("create the file", path))
}

const fn content_name(access: Access) -> &'static str {
    match access {
        Access::Mount => "mount",
        Access::Block | Access::Image => "disk",
    }
}

fn size_of<R: Kept>(record: &R) -> u64 {
    u64::try_from(record.bytes()).unwrap_or_default()
}

fn make_dir(dir: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(PRIVATE).create(dir).map_err(failed("create the directory", dir))
}

fn new_dir(dir: &Path) -> Result<(), Error> {
    DirBuilder::new().mode(PRIVATE).create(dir).map_err(failed("create the directory", dir))
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
