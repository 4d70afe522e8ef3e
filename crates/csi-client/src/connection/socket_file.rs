//! The file behind the driver's address.

use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Which socket a path leads to. A new socket under the same path differs: the modification time tells it from the old one
/// where the file system gives an inode number again, and unlike the change time it survives a chmod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketFile {
    device: u64,
    inode: u64,
    modified: (i64, i64),
}

/// Why a path cannot be dialled.
#[derive(Debug)]
pub(crate) enum NoSocket {
    /// The path leads to something else.
    NotASocket(&'static str),
    /// It cannot be looked at.
    Unreadable(io::Error),
}

impl SocketFile {
    /// Looks at the path again; follows links.
    pub(crate) fn at(path: &Path) -> Result<Self, NoSocket> {
        let file = std::fs::metadata(path).map_err(NoSocket::Unreadable)?;
        if !file.file_type().is_socket() {
            let kind = if file.is_dir() { "directory" } else { "file" };
            return Err(NoSocket::NotASocket(kind));
        }
        Ok(Self { device: file.dev(), inode: file.ino(), modified: (file.mtime(), file.mtime_nsec()) })
    }

    /// Whether the path leads to this very socket.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        Self::at(path).is_ok_and(|found| found == *self)
    }

    /// Whether another socket is there. A path that leads nowhere replaces nothing: the connection outlives its file.
    pub(crate) fn was_replaced_at(&self, path: &Path) -> bool {
        Self::at(path).is_ok_and(|found| found != *self)
    }
}
