//! Who has the path, and what happens when that changes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::net::UnixListener;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::scene::{Scene, inode, until};
use crate::error::Error;
use crate::registrar::PATH_INTERVAL;

#[tokio::test(start_paused = true)]
async fn f2_a_deleted_socket_is_back_within_seconds() {
    let scene = Scene::new().await;
    let running = scene.start();
    scene.kubelet().await.register().await;
    for _ in 0..3 {
        let before = inode(&scene.socket());
        std::fs::remove_file(scene.socket()).unwrap();
        let deleted = Instant::now();
        scene.socket_other_than(before).await;
        assert!(deleted.elapsed() <= 2 * PATH_INTERVAL, "{:?}", deleted.elapsed());
        scene.kubelet().await.register().await;
    }
    running.stop().await;
    assert_eq!(scene.files(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn f2_the_newest_registrar_has_the_path_and_the_old_ones_exit_leaves_it() {
    let scene = Scene::new().await;
    let old = scene.start();
    scene.kubelet().await.register().await;
    let first = inode(&scene.socket());
    let new = scene.start();
    let second = scene.socket_other_than(first).await;
    scene.kubelet().await.register().await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(inode(&scene.socket()), Some(second), "the old one stands by");
    old.stop().await;
    assert_eq!(inode(&scene.socket()), Some(second), "the new pod's socket is not removed");
    scene.kubelet().await.register().await;
    new.stop().await;
    assert_eq!(scene.files(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn one_that_stands_by_takes_the_path_when_the_other_has_left_it() {
    let scene = Scene::new().await;
    let standing_by = scene.start();
    scene.kubelet().await.register().await;
    let first = inode(&scene.socket());
    let other = scene.start();
    let second = scene.socket_other_than(first).await;
    sleep(Duration::from_mins(1)).await;
    other.stop().await;
    scene.socket_other_than(Some(second)).await;
    scene.kubelet().await.register().await;
    standing_by.stop().await;
    assert_eq!(scene.files(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn one_that_stands_by_takes_the_path_when_the_other_was_killed() {
    let scene = Scene::new().await;
    let running = scene.start();
    scene.kubelet().await.register().await;
    std::fs::remove_file(scene.socket()).unwrap();
    let foreign = UnixListener::bind(scene.socket()).unwrap();
    let taken = inode(&scene.socket());
    sleep(Duration::from_mins(5)).await;
    assert_eq!(inode(&scene.socket()), taken, "a registrar of another make is left alone");
    drop(foreign);
    scene.socket_other_than(taken).await;
    scene.kubelet().await.register().await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_takes_the_sockets_place_later_is_left_alone_until_it_is_gone() {
    let scene = Scene::new().await;
    let mut running = scene.start();
    scene.kubelet().await.register().await;
    std::fs::remove_file(scene.socket()).unwrap();
    std::fs::write(scene.socket(), "precious").unwrap();
    sleep(Duration::from_mins(5)).await;
    assert!(running.is_running());
    assert_eq!(std::fs::read(scene.socket()).unwrap(), b"precious");
    std::fs::remove_file(scene.socket()).unwrap();
    scene.kubelet().await.register().await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_no_socket_at_the_start_ends_it_with_an_error() {
    let scene = Scene::new().await;
    std::fs::write(scene.socket(), "precious").unwrap();
    let error = scene.start().end().await.unwrap_err();
    assert!(matches!(error, Error::NotASocket { kind: "file", .. }), "{error}");
    assert_eq!(std::fs::read(scene.socket()).unwrap(), b"precious");
}

#[tokio::test(start_paused = true)]
async fn a_plugin_directory_that_is_missing_ends_the_start_with_an_error() {
    let scene = Scene::new().await;
    let mut config = scene.config();
    config.directory = scene.directory.path().join("missing");
    let error = scene.start_with(config).end().await.unwrap_err();
    assert!(matches!(error, Error::Socket { .. }), "{error}");
    assert!(error.to_string().contains("missing"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_socket_appears_at_once_under_its_name() {
    let scene = Scene::new().await;
    let running = scene.start();
    until("the socket", || {
        let files = scene.files();
        // Whatever is seen under the name is a socket that answers: a connection is not refused.
        if scene.socket().exists() {
            std::os::unix::net::UnixStream::connect(scene.socket()).unwrap();
        }
        files == ["fake.csi.example.com-reg.sock"]
    })
    .await;
    running.stop().await;
}
