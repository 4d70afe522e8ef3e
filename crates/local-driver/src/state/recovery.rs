//! What is done at the start with the state an earlier process left: what is half made is taken away, begun deletions
//! are finished, everything else is kept.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::error::Error;
use crate::state::files::{Shelf, failed};
use crate::state::kept::{FORMAT, Kept};

/// The records of what exists, in no order.
pub(super) fn recover<R: Kept>(files: &Shelf<R>) -> Result<Vec<R>, Error> {
    let mut records: Vec<R> = Vec::new();
    for path in entries(files.records_dir())? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') {
            fs::remove_file(&path).map_err(failed("remove the unfinished record", &path))?;
            continue;
        }
        let record: R = read(&path)?;
        let id = record.id();
        if record.is_deleting() {
            tracing::info!(%id, "removing a {} whose deletion was begun or whose copy was not finished", R::KIND);
            files.finish_delete(id)?;
        } else {
            if !files.data_of(id).exists() {
                tracing::warn!(%id, name = record.name(), "the data of this {} is missing", R::KIND);
            }
            files.take_back_growth(&record)?;
            records.push(record);
        }
    }
    refuse_doubles(files, &records)?;
    drop_orphans(files, &records)?;
    Ok(records)
}

fn read<R: Kept>(path: &Path) -> Result<R, Error> {
    let unreadable = |reason: String| Error::Record { path: path.to_owned(), reason };
    let text = fs::read(path).map_err(failed("read the record", path))?;
    let record: R = serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
    if record.format() != FORMAT {
        return Err(unreadable(format!(
            "format {} is not {FORMAT}, another version of the driver wrote it",
            record.format()
        )));
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    if *record.id() != R::Id::from(&stem) || Uuid::parse_str(&stem).is_err() {
        return Err(unreadable(format!("it is the record of {} {}", R::KIND, record.id())));
    }
    Ok(record)
}

/// Two records of one name or one sequence number cannot come from this driver.
fn refuse_doubles<R: Kept>(files: &Shelf<R>, records: &[R]) -> Result<(), Error> {
    let mut names = HashMap::new();
    let mut sequences = HashMap::new();
    for record in records {
        let id = record.id();
        if let Some(other) = names.insert(record.name(), id).or(sequences.insert(record.sequence(), id)) {
            return Err(Error::Record {
                path: files.records_dir().join(format!("{id}.json")),
                reason: format!("{} {other} has the same name or sequence number", R::KIND),
            });
        }
    }
    Ok(())
}

/// Data without a record is that of a creation that was cut off, which nobody has been told of. Should it hold
/// anything all the same, it is kept: a lost record is no reason to lose the data.
fn drop_orphans<R: Kept>(files: &Shelf<R>, records: &[R]) -> Result<(), Error> {
    for path in entries(files.data_dir())? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let known = records.iter().any(|record| *record.id() == R::Id::from(&name));
        if known {
            continue;
        }
        if Uuid::parse_str(&name).is_ok() && is_unused(&path) {
            tracing::info!(path = %path.display(), "removing a {} that was never finished", R::KIND);
            fs::remove_dir_all(&path).map_err(failed("remove what is unfinished", &path))?;
        } else {
            tracing::warn!(path = %path.display(), "belongs to no {} and is kept, since it is not empty", R::KIND);
        }
    }
    Ok(())
}

fn is_unused(data: &Path) -> bool {
    let empty = |dir: &Path| fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
    fs::read_dir(data).is_ok_and(|mut entries| {
        entries.all(|entry| {
            entry.is_ok_and(|entry| match entry.file_name().as_encoded_bytes() {
                b"mount" => empty(&entry.path()),
                b"disk" => entry.metadata().is_ok_and(|disk| disk.blocks() == 0),
                _ => false,
            })
        })
    })
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let listed = fs::read_dir(dir).and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    listed.map_err(failed("list", dir))
}
