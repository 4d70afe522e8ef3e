//! One attempt to reach the driver's socket. Never blocks: connecting to a Unix socket succeeds or fails at once.

use std::io;
use std::path::{Path, PathBuf};

use tokio::net::UnixStream;

use super::socket_file::{NoSocket, SocketFile};
use crate::status_text::system_error;

/// Why no connection to the driver's socket came about. Says what is wrong and what helps.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The path leads to something that is no socket.
    #[error("{} is a {kind}, not a socket; make the CSI address name the socket the driver listens on", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
        /// What is there: "file" or "directory".
        kind: &'static str,
    },

    /// Nobody could be reached there.
    #[error("dial unix {}: connect: {} ({})", path.display(), system_error(source), advice(source))]
    Connect {
        /// The path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },

    /// The socket accepted, and was closed before HTTP/2 could begin.
    #[error("HTTP/2 could not start on {}: {source}; see that the driver runs", path.display())]
    Http2 {
        /// The path.
        path: PathBuf,
        /// What the HTTP/2 library says.
        source: hyper::Error,
    },
}

/// Looks at the path and connects.
pub(crate) async fn dial(path: &Path) -> Result<(UnixStream, SocketFile), DialError> {
    let connect = |source| DialError::Connect { path: path.to_owned(), source };
    let file = SocketFile::at(path).map_err(|problem| match problem {
        NoSocket::NotASocket(kind) => DialError::NotASocket { path: path.to_owned(), kind },
        NoSocket::Unreadable(error) => connect(error),
    })?;
    let stream = UnixStream::connect(path).await.map_err(connect)?;
    Ok((stream, file))
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "the driver has not created its socket; see that it runs and that both sides mount the same directory"
        }
        io::ErrorKind::ConnectionRefused => {
            "nobody listens there; the driver has not started or has left a stale socket file behind"
        }
        io::ErrorKind::PermissionDenied => {
            "this process may not use the path; give its user search permission on every directory of it and write permission on the socket"
        }
        io::ErrorKind::WouldBlock => "the driver does not accept connections; it seems to hang",
        _ => "see that the driver runs",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn each_failure_names_the_path_and_the_cure() {
        let table = [
            (2, "no such file or directory", "mount the same directory"),
            (111, "connection refused", "stale socket file"),
            (13, "permission denied", "search permission on every directory"),
            (11, "resource temporarily unavailable", "seems to hang"),
            (40, "too many levels of symbolic links", "see that the driver runs"),
        ];
        for (errno, text, cure) in table {
            let source = io::Error::from_raw_os_error(errno);
            let reason = DialError::Connect { path: "/csi/csi.sock".into(), source }.to_string();
            assert!(reason.starts_with(&format!("dial unix /csi/csi.sock: connect: {text}")), "{reason}");
            assert!(reason.contains(cure), "{reason}");
        }
    }

    #[tokio::test]
    async fn a_path_that_is_no_socket_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        let reason = dial(&file).await.unwrap_err().to_string();
        assert!(reason.contains(&format!("{} is a file, not a socket", file.display())), "{reason}");
        let reason = dial(directory.path()).await.unwrap_err().to_string();
        assert!(reason.contains("is a directory, not a socket"), "{reason}");
    }
}
