//! `/healthz`, by the table of the contract.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use fake_driver::FakeDriver;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::time::{Instant, timeout};

use super::scene::{Running, Scene};
use crate::error::Error;

/// A registrar that serves HTTP; the clock runs.
struct Served {
    scene: Scene,
    running: Running,
    port: u16,
}

impl Served {
    async fn start(driver: FakeDriver, pprof_asked: bool) -> Self {
        let scene = Scene::with(driver);
        // Free a moment ago: nothing else on this machine asks for a certain port of the ephemeral range.
        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let mut config = scene.config();
        config.http_address = Some(format!("127.0.0.1:{port}"));
        config.pprof_asked = pprof_asked;
        let running = scene.start_with(config);
        let served = Self { scene, running, port };
        let listens = async {
            while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(10), listens).await.unwrap();
        served
    }

    async fn request(&self, method: &str, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        timeout(Duration::from_secs(20), stream.read_to_string(&mut answer)).await.unwrap().unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("content-type: text/plain; charset=utf-8"), "{head}");
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    async fn healthz(&self) -> (u16, String) {
        self.request("GET", "/healthz").await
    }
}

fn not_there() -> (u16, String) {
    (404, "registration socket does not exist".to_owned())
}

fn ok() -> (u16, String) {
    (200, "ok".to_owned())
}

#[tokio::test]
async fn f5_healthz_asks_the_socket_itself() {
    let served = Served::start(FakeDriver::start().await, false).await;
    served.scene.kubelet().await;
    assert_eq!(served.healthz().await, ok());
    assert_eq!(served.request("POST", "/healthz?x=1").await, ok());
    served.scene.driver.stop().await;
    assert_eq!(served.healthz().await, ok(), "the driver is no part of it");
    for path in ["/", "/healthz/", "/metrics", "/debug/pprof/"] {
        assert_eq!(served.request("GET", path).await, (404, "404 page not found\n".to_owned()), "{path}");
    }
    served.running.stop().await;
}

#[tokio::test]
async fn f5_a_file_without_a_registrar_behind_it_is_not_healthy() {
    let served = Served::start(FakeDriver::start().await, false).await;
    served.scene.kubelet().await;
    let path = served.scene.socket();
    let shown = path.display();

    std::fs::remove_file(&path).unwrap();
    let stale = UnixListener::bind(&path).unwrap();
    let asked = Instant::now();
    let (code, text) = served.healthz().await;
    assert_eq!(code, 500, "{text}");
    let silent = "error getting info from node-registrar socket: rpc error: code = DeadlineExceeded desc = context deadline exceeded";
    assert_eq!(text, silent);
    assert!(asked.elapsed() < Duration::from_secs(3), "bounded by --timeout, not by half a minute");
    drop(stale);

    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "").unwrap();
    let (code, text) = served.healthz().await;
    assert_eq!(code, 500);
    let start = format!("file exists in socketPath {shown} but it's not a socket.: ");
    assert!(text.starts_with(&start), "{text}");

    std::fs::remove_file(&path).unwrap();
    assert_eq!(served.healthz().await, not_there());
    served.scene.kubelet().await;
    assert_eq!(served.healthz().await, ok(), "made again");
    served.running.stop().await;
}

#[tokio::test]
async fn f5_a_socket_that_refuses_or_answers_for_another_driver_is_not_healthy() {
    let served = Served::start(FakeDriver::start().await, false).await;
    served.scene.kubelet().await;
    let path = served.scene.socket();
    let shown = path.display();
    let other = Scene::new().await;
    other.driver.configure(|identity| "other.example.com".clone_into(&mut identity.name));
    let others = other.start();
    super::scene::until("the other", || other.socket_of("other.example.com").exists()).await;
    std::fs::rename(other.socket_of("other.example.com"), &path).unwrap();
    assert_eq!(served.healthz().await, (500, "invalid driver name other.example.com".to_owned()));

    // A symbolic link is followed, and to a socket nobody listens on it stays for a moment: ours stands by.
    let stale = served.scene.directory.path().join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&stale, &path).unwrap();
    let (code, text) = served.healthz().await;
    if code != 200 {
        assert_eq!(code, 500);
        let start = format!("error connecting to node-registrar socket {shown}: ");
        assert!(text.starts_with(&start), "{text}");
    }
    others.stop().await;
    served.running.stop().await;
}

#[tokio::test]
async fn o14_a_registrar_that_waits_for_its_driver_is_healthy() {
    let served = Served::start(FakeDriver::stopped(), true).await;
    assert_eq!(served.healthz().await, (200, "ok: waiting for the CSI driver".to_owned()));
    let (code, text) = served.request("GET", "/debug/pprof/heap").await;
    assert_eq!(code, 501);
    assert!(text.contains("Go runtime"), "{text}");
    served.running.stop().await;
}

#[tokio::test]
async fn o12_a_refusal_of_kubelet_is_not_healthy_until_kubelet_accepts() {
    let served = Served::start(FakeDriver::start().await, false).await;
    let mut kubelet = served.scene.kubelet().await;
    let first = served.scene.socket_other_than(None).await;
    assert_eq!(served.healthz().await, ok(), "kubelet has said nothing yet");
    kubelet.get_info().await;
    kubelet.notify(Some("CSINode n1 has another node id")).await;
    let refused = (500, "kubelet refuses the driver: CSINode n1 has another node id".to_owned());
    assert_eq!(served.healthz().await, refused);
    served.scene.socket_other_than(Some(first)).await;
    assert_eq!(served.healthz().await, refused, "a new socket alone is no success");
    served.scene.kubelet().await.register().await;
    assert_eq!(served.healthz().await, ok());
    served.running.stop().await;
}

#[tokio::test]
async fn a_health_check_is_not_taken_for_a_call_of_kubelet() {
    let scene = Scene::new().await;
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let mut config = scene.config();
    config.http_address = Some(format!("127.0.0.1:{port}"));
    let running = scene.start_with(config);
    let served = Served { scene, running, port };
    let first = served.scene.socket_other_than(None).await;
    assert_eq!(served.healthz().await, ok());
    // Were the check taken for kubelet, the socket would be waited for three times as long.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(62)).await;
    let second = served.scene.socket_other_than(Some(first)).await;
    assert_ne!(first, second);
    tokio::time::resume();
    served.running.stop().await;
}

#[tokio::test]
async fn many_checks_at_once_are_all_answered() {
    let served = Served::start(FakeDriver::start().await, false).await;
    let mut kubelet = served.scene.kubelet().await;
    let checks = (0..30).map(|_| served.healthz());
    let answers = futures(checks).await;
    assert!(answers.iter().all(|answer| *answer == ok()), "{answers:?}");
    kubelet.register().await;
    served.running.stop().await;
}

async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut pinned: Vec<_> = all.map(Box::pin).collect();
    let mut results = Vec::new();
    std::future::poll_fn(|cx| {
        pinned.retain_mut(|future| match future.as_mut().poll(cx) {
            std::task::Poll::Ready(result) => {
                results.push(result);
                false
            }
            std::task::Poll::Pending => true,
        });
        if pinned.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    results
}

#[tokio::test]
async fn an_address_that_is_taken_ends_the_start_and_no_socket_is_made() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let scene = Scene::new().await;
    let mut config = scene.config();
    config.http_address = Some(taken.local_addr().unwrap().to_string());
    let error = scene.start_with(config).end().await.unwrap_err();
    assert!(matches!(error, Error::Http { .. }), "{error}");
    assert!(error.to_string().contains("--http-endpoint"), "{error}");
    assert_eq!(scene.files(), [""; 0]);
}
