//! The helpers of the socket file, by the cases of the Go program's own tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};

use crate::error::Error;
use crate::registration_socket::{AtPath, RegistrationSocket, clear_stale, is_stale, look, path};

type Prepare = fn(&Path);

/// Whether the look fails or what it finds, whether the stale socket can be cleared, and what is there afterwards.
type Want = (AtPath, bool, bool);

fn listening(path: &Path) {
    std::mem::forget(UnixListener::bind(path).unwrap());
}

#[test]
fn the_cases_of_the_go_registrars_own_tests_and_some_more() {
    let cases: [(&str, Prepare, Want); 8] = [
        ("file missing", |_| {}, (AtPath::Nothing, true, false)),
        ("directory missing", |path| fs::remove_dir(path.parent().unwrap()).unwrap(), (AtPath::Nothing, true, false)),
        // A socket somebody listens on is replaced when ours is ready, not before.
        ("listening unix socket", listening, (AtPath::Socket, true, true)),
        ("stale unix socket", |path| drop(UnixListener::bind(path).unwrap()), (AtPath::Socket, true, false)),
        ("regular file", |path| fs::write(path, "x").unwrap(), (AtPath::Other("file"), false, true)),
        ("directory", |path| fs::create_dir(path).unwrap(), (AtPath::Other("directory"), false, true)),
        (
            "dangling symbolic link",
            |path| symlink("nowhere", path).unwrap(),
            (AtPath::Other("dangling symbolic link"), false, true),
        ),
        (
            "symbolic link to a stale socket",
            |path| {
                drop(UnixListener::bind(path.with_file_name("elsewhere")).unwrap());
                symlink("elsewhere", path).unwrap();
            },
            (AtPath::Socket, true, false),
        ),
    ];
    assert_eq!(cases.len(), 8, "the four rows for Linux, and four more");
    for (name, prepare, (found, cleared, remains)) in cases {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("registration");
        fs::create_dir(&inner).unwrap();
        let path = inner.join("reg.sock");
        prepare(&path);
        assert_eq!(look(&path).unwrap(), found, "{name}");
        let outcome = clear_stale(&path);
        assert_eq!(outcome.is_ok(), cleared, "{name}: {outcome:?}");
        if let Err(error) = outcome {
            assert!(error.to_string().contains("reg.sock: a "), "{error}");
        }
        assert_eq!(fs::symlink_metadata(&path).is_ok(), remains, "{name}");
    }
}

#[tokio::test]
async fn a_socket_is_private_from_the_first_moment_and_nothing_is_left_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d-reg.sock");
    let before = umask();
    let socket = RegistrationSocket::take(&path).unwrap();
    assert_eq!(umask(), before, "the process's umask is not touched");
    let found = fs::symlink_metadata(&path).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o7777, 0o700);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    UnixStream::connect(&path).unwrap();
    assert!(socket.is_in_place());
    socket.remove();
    assert!(!path.exists());
}

/// As the kernel says, without changing it.
fn umask() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status.lines().find(|line| line.starts_with("Umask:")).unwrap().to_owned()
}

#[tokio::test]
async fn f2_a_socket_is_removed_by_its_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d-reg.sock");
    let first = RegistrationSocket::take(&path).unwrap();
    let second = RegistrationSocket::take(&path).unwrap();
    assert!(!first.is_in_place());
    assert!(second.is_in_place());
    first.remove();
    UnixStream::connect(&path).expect("the second one's socket is still there");
    second.remove();
    assert!(!path.exists());
}

#[tokio::test]
async fn what_cannot_be_taken_is_said_with_its_path_and_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing").join("d-reg.sock");
    let error = RegistrationSocket::take(&missing).unwrap_err().to_string();
    assert!(error.contains("missing/d-reg.sock") && error.contains("--plugin-registration-path"), "{error}");
    let path = directory.path().join("d-reg.sock");
    fs::write(&path, "precious").unwrap();
    assert!(matches!(RegistrationSocket::take(&path), Err(Error::NotASocket { kind: "file", .. })));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn the_path_is_made_of_the_drivers_name() {
    let directory = Path::new("/registration");
    assert_eq!(path(directory, "d.example.com").unwrap(), directory.join("d.example.com-reg.sock"));
    let longest = "d".repeat(107 - "/registration/-reg.sock".len());
    assert_eq!(path(directory, &longest).unwrap().as_os_str().len(), 107);
    let error = path(directory, &format!("{longest}d")).unwrap_err();
    assert!(matches!(error, Error::PathTooLong { .. }) && error.to_string().contains("108 bytes"), "{error}");
    for name in ["a/b", "../d", "/d", "d\0", ".d"] {
        let error = path(directory, name).unwrap_err();
        assert!(matches!(error, Error::Name { .. }), "{name:?}: {error}");
    }
}

/// As by a registrar that is stopped (SIGSTOP): it listens, and its queue is full.
#[test]
fn o3_a_listener_that_accepts_nothing_is_not_stale_and_not_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("d-reg.sock");
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&socket, 0).unwrap();
    let mut waiting = Vec::new();
    loop {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let client = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        match connect(&client, &SocketAddrUnix::new(&path).unwrap()) {
            Ok(()) => waiting.push(client),
            Err(error) => break assert_eq!(error, Errno::AGAIN),
        }
    }
    let (looked, result) = std::sync::mpsc::channel();
    let at = path.clone();
    std::thread::spawn(move || looked.send((is_stale(&at), clear_stale(&at).is_ok())));
    assert_eq!(result.recv_timeout(Duration::from_secs(10)).unwrap(), (false, true));
    assert!(path.exists());
}
