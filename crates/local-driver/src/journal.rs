//! The journal of finished calls: one line of JSON each, secrets hidden.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tonic::Code;

use crate::error::Error;
use crate::fault::code_name;

/// A point in time on two clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    unix_nanos: i64,
    monotonic_nanos: i64,
}

impl Moment {
    pub(crate) fn now() -> Self {
        let nanos = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
        };
        Self { unix_nanos: nanos(ClockId::Realtime), monotonic_nanos: nanos(ClockId::Monotonic) }
    }
}

/// One line of the journal. Times are nanoseconds; the code is named as in the gRPC specification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalLine {
    /// The RPC by its name in the CSI specification.
    pub rpc: String,
    /// The request with the field names of the protocol, secrets hidden.
    pub request: serde_json::Value,
    /// Process id of the caller.
    pub peer_pid: Option<i32>,
    /// Begin of the call, since 1970.
    pub started_unix_nanos: i64,
    /// End of the call, since 1970.
    pub ended_unix_nanos: i64,
    /// Begin of the call on `CLOCK_MONOTONIC`, comparable between all processes of one boot.
    pub started_monotonic_nanos: i64,
    /// End of the call on `CLOCK_MONOTONIC`.
    pub ended_monotonic_nanos: i64,
    /// `OK`, `ABORTED` and so on.
    pub code: String,
    /// The error's message; empty with `OK`.
    pub message: String,
}

impl JournalLine {
    /// Reads a journal, oldest call first. What follows the last line break, cut off by a kill, is left out.
    pub fn read_all(path: &Path) -> Result<Vec<Self>, Error> {
        let failed = |source| Error::Journal { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).map_err(|error| failed(error.into()))).collect()
    }
}

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) rpc: &'a str,
    /// JSON, already without secrets.
    pub(crate) request: &'a str,
    pub(crate) peer_pid: Option<i32>,
    pub(crate) started: Moment,
    pub(crate) code: Code,
    pub(crate) message: &'a str,
}

/// The open journal file.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

impl Journal {
    /// Appends to what an earlier run has written.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(|source| Error::Journal { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// Writes one whole line. A journal that cannot be written does not stop the driver; the log says so.
    pub(crate) fn write(&self, entry: &Entry<'_>) {
        let ended = Moment::now();
        let line = JournalLine {
            rpc: entry.rpc.to_owned(),
            request: serde_json::from_str(entry.request).unwrap_or_default(),
            peer_pid: entry.peer_pid,
            started_unix_nanos: entry.started.unix_nanos,
            ended_unix_nanos: ended.unix_nanos,
            started_monotonic_nanos: entry.started.monotonic_nanos,
            ended_monotonic_nanos: ended.monotonic_nanos,
            code: code_name(entry.code).to_owned(),
            message: entry.message.to_owned(),
        };
        let written = serde_json::to_vec(&line).map_err(std::io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            self.file.lock().write_all(&line)
        });
        if let Err(error) = written {
            tracing::error!(journal = %self.path.display(), rpc = entry.rpc, "a call is missing from the journal: {error}");
        }
    }
}
