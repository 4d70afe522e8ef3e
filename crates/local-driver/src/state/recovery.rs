//! What is done at the start with the state an earlier process left: half-made volumes are taken away, begun
//! deletions finished, everything else kept.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::error::Error;
use crate::state::files::{StateDir, failed};
use crate::state::record::{FORMAT, Record, VolumeId};

/// The volumes that exist, in no order.
pub(super) fn recover(files: &StateDir) -> Result<Vec<Record>, Error> {
    let mut records: Vec<Record> = Vec::new();
    for path in entries(files.records_dir())? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') {
            fs::remove_file(&path).map_err(failed("remove the unfinished record", &path))?;
            continue;
        }
        let record = read(&path)?;
        if record.deleting {
            tracing::info!(volume = %record.id, "finishing a deletion that was begun");
            files.finish_delete(&record.id)?;
        } else {
            if !files.data_of(&record.id).exists() {
                tracing::warn!(volume = %record.id, name = record.name, "the data of this volume is missing");
            }
            records.push(record);
        }
    }
    refuse_doubles(files, &records)?;
    drop_orphans(files, &records)?;
    Ok(records)
}

fn read(path: &Path) -> Result<Record, Error> {
    let unreadable = |reason: String| Error::Record { path: path.to_owned(), reason };
    let text = fs::read(path).map_err(failed("read the record", path))?;
    let record: Record = serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
    if record.format != FORMAT {
        return Err(unreadable(format!(
            "format {} is not {FORMAT}, another version of the driver wrote it",
            record.format
        )));
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    if record.id != VolumeId::from(stem.as_ref()) || Uuid::parse_str(&stem).is_err() {
        return Err(unreadable(format!("it is the record of volume {}", record.id)));
    }
    Ok(record)
}

/// Two records of one name or one sequence number cannot come from this driver.
fn refuse_doubles(files: &StateDir, records: &[Record]) -> Result<(), Error> {
    let mut names = HashMap::new();
    let mut sequences = HashMap::new();
    for record in records {
        let double = names.insert(&record.name, &record.id).or(sequences.insert(record.sequence, &record.id));
        if let Some(other) = double {
            return Err(Error::Record {
                path: files.records_dir().join(format!("{}.json", record.id)),
                reason: format!("volume {other} has the same name or sequence number"),
            });
        }
    }
    Ok(())
}

/// Data without a record is that of a creation that was cut off, which nobody has been told of. Should it hold
/// anything all the same, it is kept: a lost record is no reason to lose the data.
fn drop_orphans(files: &StateDir, records: &[Record]) -> Result<(), Error> {
    for path in entries(files.data_dir())? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let known = records.iter().any(|record| record.id == VolumeId::from(name.as_ref()));
        if known {
            continue;
        }
        if Uuid::parse_str(&name).is_ok() && is_unused(&path) {
            tracing::info!(path = %path.display(), "removing a volume that was never finished");
            fs::remove_dir_all(&path).map_err(failed("remove the unfinished volume", &path))?;
        } else {
            tracing::warn!(path = %path.display(), "belongs to no volume and is kept, since it is not empty");
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
