#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::listener::CONNECTIONS;
use super::*;

const BOUND: Duration = Duration::from_secs(10);

fn settings() -> Settings {
    Settings {
        address: "127.0.0.1:0".into(),
        metrics_path: "/metrics".into(),
        leader_election_health: true,
        pprof_asked: false,
    }
}

/// A server on a free port, stopped by the token.
async fn start(settings: Settings) -> (SocketAddr, CancellationToken, JoinSet<()>) {
    let server = bind(settings, Metrics::new().unwrap(), Health::new()).await.unwrap();
    let address = server.local_address();
    assert_ne!(address.port(), 0);
    let stop = CancellationToken::new();
    let mut task = JoinSet::new();
    task.spawn(server.run(stop.clone()));
    (address, stop, task)
}

/// Sends `request` and returns all the server sends until it closes the connection.
async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(BOUND, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer
}

async fn get(address: SocketAddr, path: &str) -> String {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await
}

async fn ended(mut task: JoinSet<()>) {
    timeout(BOUND, task.join_next()).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn metrics_are_served_with_the_content_type_of_go() {
    let (address, stop, task) = start(settings()).await;
    let answer = get(address, "/metrics").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8; escaping=underscores\r\n"),
        "{answer}"
    );
    assert!(answer.contains("\nprocess_start_time_seconds 1."), "{answer}");
    // Any method and any query will do.
    let answer =
        exchange(address, "POST /metrics?x=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    stop.cancel();
    ended(task).await;
}

#[tokio::test]
async fn each_path_has_its_answer() {
    let plain = settings();
    let other =
        Settings { metrics_path: "/m/x".into(), leader_election_health: false, pprof_asked: true, ..settings() };
    let root = Settings { metrics_path: "/".into(), ..settings() };
    let table = [
        (&plain, "/healthz/leader-election", "200", "ok"),
        (&plain, "/healthz", "404", "404 page not found\n"),
        (&plain, "/", "404", "404 page not found\n"),
        (&plain, "/metrics/", "404", "404 page not found\n"),
        (&plain, "/debug/pprof/", "404", "404 page not found\n"),
        (&other, "/m/x", "200", "# HELP"),
        (&other, "/metrics", "404", "404 page not found\n"),
        (&other, "/healthz/leader-election", "404", "404 page not found\n"),
        (&other, "/debug/pprof/heap", "501", "profiles of a Go runtime do not exist"),
        (&root, "/anything", "200", "# HELP"),
        (&root, "/healthz/leader-election", "200", "ok"),
    ];
    for (settings, path, status, body) in table {
        let (address, stop, task) = start(settings.clone()).await;
        let answer = get(address, path).await;
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
        assert!(text.starts_with(body), "{path}: {answer}");
        stop.cancel();
        ended(task).await;
    }
}

#[tokio::test]
async fn an_address_in_use_ends_the_process_with_code_255() {
    let (address, stop, task) = start(settings()).await;
    let taken = Settings { address: address.to_string(), ..settings() };
    let exit = bind(taken, Metrics::new().unwrap(), Health::new()).await.unwrap_err();
    assert_eq!(exit.code, 255);
    assert!(exit.message.contains(&address.to_string()), "{exit}");
    assert!(exit.message.contains("--http-endpoint"), "{exit}");
    stop.cancel();
    ended(task).await;

    let no_port = Settings { address: "8080".into(), ..settings() };
    let exit = bind(no_port, Metrics::new().unwrap(), Health::new()).await.unwrap_err();
    assert_eq!(exit.code, 255);
    assert!(exit.message.contains("missing port in address"), "{exit}");
}

#[tokio::test]
async fn idle_connections_do_not_hold_up_the_end() {
    let (address, stop, task) = start(settings()).await;
    let idle = TcpStream::connect(address).await.unwrap();
    let mut kept = TcpStream::connect(address).await.unwrap();
    kept.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut first = [0; 12];
    timeout(BOUND, kept.read_exact(&mut first)).await.unwrap().unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    stop.cancel();
    ended(task).await;
    drop(idle);
}

#[tokio::test]
async fn more_connections_than_places_wait_and_are_served_later() {
    let (address, stop, task) = start(settings()).await;
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS {
        // Each is known to be served, not only accepted by the kernel.
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut first = [0; 12];
        timeout(BOUND, stream.read_exact(&mut first)).await.unwrap().unwrap();
        idle.push(stream);
    }
    let mut waiting = Box::pin(get(address, "/metrics"));
    // Long enough for a server without a bound to answer, on this same thread.
    for _ in 0..1000 {
        assert!(waiting.as_mut().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    idle.pop();
    let answer = waiting.await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    stop.cancel();
    ended(task).await;
}
