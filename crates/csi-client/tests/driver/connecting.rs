//! The first connection, to sockets that are late, stale or not what they should be.

use std::time::Duration;

use csi_client::{CallError, Code, Handshake};
use fake_driver::FakeDriver;
use tokio::net::UnixListener;
use tokio::time::{Instant, sleep};

use crate::client::{Client, TIMEOUT, volume, within};
use crate::logs::Logs;

const WAITING: &str = "Still connecting to the CSI driver";

#[tokio::test(start_paused = true)]
async fn both_forms_of_the_address_reach_the_driver() {
    let driver = FakeDriver::start().await;
    Client::start(&driver.socket_path()).ready_within(Duration::from_secs(1)).await;
    Client::start(driver.address().as_ref()).ready_within(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn e6_a_driver_that_listens_late_is_reached_within_a_second() {
    for late in [Duration::from_secs(10), Duration::from_secs(40), Duration::from_mins(10)] {
        let driver = FakeDriver::stopped();
        let client = Client::start(&driver.socket_path());
        sleep(late).await;
        let started = Instant::now();
        driver.start_again().await;
        client.ready_within(Duration::from_mins(1)).await;
        assert!(
            started.elapsed() <= Duration::from_millis(1100),
            "{:?} after it came up at {late:?}",
            started.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn e6_a_driver_that_never_listens_is_waited_for_with_one_log_line_every_ten_seconds() {
    let logs = Logs::capture();
    let driver = FakeDriver::stopped();
    let client = Client::start(&driver.socket_path());
    sleep(Duration::from_secs(65)).await;
    let lines = logs.lines_with(WAITING);
    assert_eq!(lines.len(), 6, "{lines:#?}");
    for line in &lines {
        assert!(line.contains(&driver.address()) && line.contains("no such file or directory"), "{line}");
        assert!(line.contains("see that it runs and that both sides mount the same directory"), "{line}");
    }
    assert!(client.driver.waiting_for().unwrap().contains("no such file or directory"));

    let started = Instant::now();
    let error = client.controller().create_volume(volume("pvc-1")).await.unwrap_err();
    assert_eq!(started.elapsed(), TIMEOUT);
    assert!(matches!(&error, CallError::NotConnected { waited, .. } if *waited == TIMEOUT), "{error:?}");
    assert_eq!((error.code(), error.was_sent()), (Code::Unavailable, false));
    let text = error.to_string();
    assert!(text.starts_with("rpc error: code = Unavailable desc = connection error: "), "{text}");
    assert!(text.contains(&driver.address()) && text.contains("no such file or directory"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn e6_a_stale_socket_file_is_waited_out() {
    let driver = FakeDriver::start().await;
    driver.crash().await;
    assert!(driver.socket_path().exists());
    let client = Client::start(&driver.socket_path());
    sleep(Duration::from_secs(40)).await;
    let reason = client.driver.waiting_for().unwrap();
    assert!(reason.contains("connection refused") && reason.contains("stale socket file"), "{reason}");
    driver.start_again().await;
    client.ready_within(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn e6_a_socket_deleted_and_created_again_before_the_first_connection_is_found() {
    let driver = FakeDriver::start().await;
    driver.stop().await;
    let client = Client::start(&driver.socket_path());
    sleep(Duration::from_secs(5)).await;
    driver.start_again().await;
    client.ready_within(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_path_that_is_no_socket_is_waited_for_and_named() {
    let logs = Logs::capture();
    let driver = FakeDriver::stopped();
    std::fs::write(driver.socket_path(), "").unwrap();
    let client = Client::start(&driver.socket_path());
    sleep(Duration::from_secs(11)).await;
    let line = logs.lines_with(WAITING).pop().unwrap();
    assert!(line.contains("is a file, not a socket; make the CSI address name the socket"), "{line}");
    driver.start_again().await;
    client.ready_within(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn e6_a_socket_nobody_serves_does_not_block_for_ever() {
    let logs = Logs::capture();
    let driver = FakeDriver::stopped();
    // Accepts in the kernel's queue, as a process that is stopped or stuck at its start.
    let dead = UnixListener::bind(driver.socket_path()).unwrap();
    let client = Client::with(&driver.socket_path(), Handshake::Name);
    sleep(Duration::from_secs(125)).await;
    let lines = logs.lines_with(WAITING);
    assert_eq!(lines.len(), 12, "{lines:#?}");
    assert!(lines[0].contains("accepted the connection and has not answered Probe yet"), "{}", lines[0]);
    assert!(lines[11].contains("did not answer Probe in time"), "{}", lines[11]);
    // The next driver puts its socket at the path while the dead one lives on.
    driver.start_again().await;
    client.ready_within(TIMEOUT + Duration::from_secs(2)).await;
    drop(dead);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_speak_http2_is_dialled_at_most_once_a_second() {
    let driver = FakeDriver::stopped();
    let listener = UnixListener::bind(driver.socket_path()).unwrap();
    let server = tokio::spawn(async move {
        for accepted in 1_u32.. {
            let (stream, _) = listener.accept().await.unwrap();
            let _ = stream.try_write(b"220 mail.example.com ESMTP\r\n");
            if accepted == 20 {
                break;
            }
        }
    });
    let started = Instant::now();
    let _client = Client::start(&driver.socket_path());
    within(Duration::from_mins(1), "twenty dials", server).await.unwrap();
    assert!(started.elapsed() >= Duration::from_secs(14), "twenty dials in {:?}", started.elapsed());
}
