//! One attempt to reach the driver's socket. Never blocks: connecting to a Unix socket succeeds or fails at once.

use std::io;
use std::path::Path;

use tokio::net::UnixStream;

use super::socket_file::{NoSocket, SocketFile};
use crate::status_text::system_error;

/// Looks at the path and connects. The error says what is wrong and what helps, without ending in a full stop.
pub(crate) async fn dial(path: &Path) -> Result<(UnixStream, SocketFile), String> {
    let file = SocketFile::at(path).map_err(|problem| explain_file(path, &problem))?;
    let stream = UnixStream::connect(path).await.map_err(|error| explain(path, &error))?;
    Ok((stream, file))
}

fn explain_file(path: &Path, problem: &NoSocket) -> String {
    match problem {
        NoSocket::NotASocket(kind) => {
            format!(
                "{} is a {kind}, not a socket; make the CSI address name the socket the driver listens on",
                path.display()
            )
        }
        NoSocket::Unreadable(error) => explain(path, error),
    }
}

fn explain(path: &Path, error: &io::Error) -> String {
    let advice = match error.kind() {
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
    };
    format!("dial unix {}: connect: {} ({advice})", path.display(), system_error(error))
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
            let reason = explain(Path::new("/csi/csi.sock"), &io::Error::from_raw_os_error(errno));
            assert!(reason.starts_with(&format!("dial unix /csi/csi.sock: connect: {text}")), "{reason}");
            assert!(reason.contains(cure), "{reason}");
        }
    }

    #[tokio::test]
    async fn a_path_that_is_no_socket_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        let reason = dial(&file).await.unwrap_err();
        assert!(reason.contains(&format!("{} is a file, not a socket", file.display())), "{reason}");
        let reason = dial(directory.path()).await.unwrap_err();
        assert!(reason.contains("is a directory, not a socket"), "{reason}");
    }
}
