//! The message the kubelet shows as the reason a container ended.

use std::io::Write as _;
use std::path::Path;

/// Where the kubelet reads the message by default.
pub const PATH: &str = "/dev/termination-log";

/// Writes `message` to the file at `path`, which the kubelet has put there. Outside a container there is none, and none
/// is left behind. A failure is only logged: the process ends anyway.
pub fn write(path: &Path, message: &str) {
    let written = std::fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .and_then(|mut file| file.write_all(message.as_bytes()));
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::error!(%error, path = %path.display(), "Cannot write the termination message");
        }
        Ok(()) | Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_message_replaces_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("termination-log");
        std::fs::write(&path, "a first and longer message").unwrap();
        write(&path, "second");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
    }

    #[test]
    fn no_file_is_made_where_the_kubelet_made_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("termination-log");
        write(&path, "x");
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_cannot_be_written_is_no_failure() {
        write(Path::new("/proc/version"), "x");
    }
}
