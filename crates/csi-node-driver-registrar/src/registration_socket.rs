//! The registration socket: at its path atomically, and removed only by its owner.
//!
//! A socket is bound under a name that kubelet ignores (it begins with a dot), made private, listened on, and renamed onto the path:
//! whoever sees the file can connect to it. The newest registrar has the path. A file is ours when device and inode are those of
//! our listener, which keep another file from getting the same numbers as long as it is open.

use std::fs::{self, Permissions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};
use tokio::net::{UnixListener, UnixStream};

use crate::error::Error;

/// Bytes of a path that fit the kernel's `sun_path` beside its closing NUL.
const LONGEST_PATH: usize = 107;
/// Connections the kernel holds for us between two accepts.
const BACKLOG: i32 = 128;

/// A socket that is listened on. Dropped, it leaves the file behind; see [`remove`](Self::remove).
#[derive(Debug)]
pub(crate) struct RegistrationSocket {
    path: PathBuf,
    file: FileId,
    listener: UnixListener,
}

/// Device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64);

/// What a look at the path finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtPath {
    /// Nothing.
    Nothing,
    /// A socket; follows links, as clients do.
    Socket,
    /// Something that is no socket.
    Other(&'static str),
}

/// `<directory>/<driver name>-reg.sock`, the name scripts rely on.
pub(crate) fn path(directory: &Path, driver: &str) -> Result<PathBuf, Error> {
    let problem = if driver.contains('/') {
        Some("it contains a slash")
    } else if driver.contains('\0') {
        Some("it contains a NUL byte")
    } else if driver.starts_with('.') {
        Some("it begins with a dot, and kubelet ignores such files")
    } else {
        None
    };
    if let Some(problem) = problem {
        return Err(Error::Name { name: driver.to_owned(), problem });
    }
    let path = directory.join(format!("{driver}-reg.sock"));
    if path.as_os_str().len() > LONGEST_PATH { Err(Error::PathTooLong { path }) } else { Ok(path) }
}

/// Looks at the path.
pub(crate) fn look(path: &Path) -> io::Result<AtPath> {
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let dangling = fs::symlink_metadata(path).is_ok();
            return Ok(if dangling { AtPath::Other("dangling symbolic link") } else { AtPath::Nothing });
        }
        Err(error) => return Err(error),
    };
    let kind = found.file_type();
    Ok(if kind.is_socket() {
        AtPath::Socket
    } else if kind.is_dir() {
        AtPath::Other("directory")
    } else {
        AtPath::Other("file")
    })
}

/// Whether the path holds a socket that nobody listens on: what a killed process leaves. A process that is stopped still listens; it
/// accepts nothing, so a connect must not wait for it.
pub(crate) fn is_stale(path: &Path) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let refused = SocketAddrUnix::new(path).and_then(|address| {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok(connect(&socket, &address) == Err(Errno::CONNREFUSED))
    });
    refused.unwrap_or(false)
}

/// Removes a socket that nobody listens on, so that kubelet does not run into it. Refuses what is no socket.
pub(crate) fn clear_stale(path: &Path) -> Result<(), Error> {
    let failed = |step| move |source| Error::Socket { path: path.to_owned(), step, source };
    match look(path).map_err(failed("look at it"))? {
        AtPath::Nothing => Ok(()),
        AtPath::Other(kind) => Err(Error::NotASocket { path: path.to_owned(), kind }),
        AtPath::Socket if !is_stale(path) => Ok(()),
        AtPath::Socket => match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove the stale socket")(error)),
            Ok(()) | Err(_) => {
                tracing::info!(path = %path.display(), "Removed a registration socket that nobody listened on");
                Ok(())
            }
        },
    }
}

impl RegistrationSocket {
    /// Listens at the path, in the place of any socket there. Refuses what is no socket. Must be called within a Tokio runtime.
    pub(crate) fn take(path: &Path) -> Result<Self, Error> {
        let failed = |step| move |source| Error::Socket { path: path.to_owned(), step, source };
        if let AtPath::Other(kind) = look(path).map_err(failed("look at it"))? {
            return Err(Error::NotASocket { path: path.to_owned(), kind });
        }
        let unfinished = path.with_file_name(dot_name());
        let made = listen_at(&unfinished).and_then(|made| {
            fs::rename(&unfinished, path)?;
            Ok(made)
        });
        let (listener, file) = made.map_err(|source| {
            // Whatever could not be finished is not left behind; that it may not be there is the usual case.
            let _ = fs::remove_file(&unfinished);
            failed("listen there")(source)
        })?;
        let listener = UnixListener::from_std(listener).map_err(failed("listen there"))?;
        Ok(Self { path: path.to_owned(), file, listener })
    }

    /// Where it is, or was.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file at the path is this socket's.
    pub(crate) fn is_in_place(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|found| FileId(found.dev(), found.ino()) == self.file)
    }

    /// The next connection.
    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(stream, _)| stream)
    }

    /// Stops listening and removes the file, if it is this socket's.
    pub(crate) fn remove(self) {
        // The listener is still open: the inode is not given to another file between the look and the removal.
        if self.is_in_place()
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "Cannot remove the registration socket");
        }
    }
}

/// Bound, private, and only then listened on: until then nobody can connect, and the process's umask is left alone.
fn listen_at(path: &Path) -> io::Result<(StdListener, FileId)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    fs::set_permissions(path, Permissions::from_mode(0o700))?;
    listen(&socket, BACKLOG)?;
    let file = fs::symlink_metadata(path)?;
    Ok((StdListener::from(socket), FileId(file.dev(), file.ino())))
}

/// Different at each call and in each container (where process ids are not), and shorter than any socket's name.
fn dot_name() -> String {
    format!(".{:08x}", RandomState::new().hash_one(0_u8) >> 32)
}
