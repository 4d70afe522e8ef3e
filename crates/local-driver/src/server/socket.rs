//! The socket file: there only while calls are answered, and never taken from another process.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use tokio::net::UnixListener;

use crate::error::Error;

/// Connections the kernel holds for us between two accepts.
const BACKLOG: i32 = 128;

/// The socket file; dropped, it removes the file if that is still ours.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
    /// Device and inode.
    file: (u64, u64),
}

impl Socket {
    /// Listens under a dot-name and renames it: whoever sees the file can connect to it, and only its owner can.
    pub(super) fn bind(path: &Path) -> Result<(Self, UnixListener), Error> {
        let failed = |source| Error::Bind { path: path.to_owned(), source };
        refuse_live(path)?;
        let unfinished = dot_name(path);
        let _ = fs::remove_file(&unfinished);
        let (listener, file) = listen_at(&unfinished).map_err(failed)?;
        fs::rename(&unfinished, path).map_err(failed)?;
        let listener = UnixListener::from_std(listener).map_err(failed)?;
        Ok((Self { path: path.to_owned(), file }, listener))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.file);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(socket = %self.path.display(), "cannot remove the socket: {error}");
        }
    }
}

fn listen_at(path: &Path) -> io::Result<(StdListener, (u64, u64))> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listen(&socket, BACKLOG)?;
    let file = fs::symlink_metadata(path)?;
    Ok((StdListener::from(socket), (file.dev(), file.ino())))
}

/// A file nobody listens on is what a killed process leaves, and is replaced.
fn refuse_live(path: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(Error::Bind { path: path.to_owned(), source }),
        Ok(found) if !found.file_type().is_socket() => Err(Error::NotASocket(path.to_owned())),
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => Ok(()),
            Err(source) => Err(Error::Bind { path: path.to_owned(), source }),
            Ok(_) => Err(Error::SocketInUse(path.to_owned())),
        },
    }
}

fn dot_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[tokio::test]
    async fn the_socket_is_private_and_gone_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("csi.sock");
        let (socket, _listener) = Socket::bind(&path).unwrap();
        assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o777, 0o600);
        UnixStream::connect(&path).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_foreign_one_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("csi.sock");
        drop(StdListener::bind(&path).unwrap());
        let (socket, _listener) = Socket::bind(&path).unwrap();
        assert!(matches!(Socket::bind(&path), Err(Error::SocketInUse(_))));
        fs::remove_file(&path).unwrap();
        let _foreign = StdListener::bind(&path).unwrap();
        drop(socket);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn what_is_no_socket_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("csi.sock");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(Socket::bind(&path), Err(Error::NotASocket(_))));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        let missing = dir.path().join("no-such-dir/csi.sock");
        assert!(Socket::bind(&missing).unwrap_err().to_string().contains("no-such-dir/csi.sock"));
        let long = dir.path().join("x".repeat(120));
        assert!(Socket::bind(&long).unwrap_err().to_string().contains("at most 100 bytes"));
    }
}
