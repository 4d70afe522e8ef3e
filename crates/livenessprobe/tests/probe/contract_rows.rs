//! The cases of the Go livenessprobe, one row each; where a deliberate difference overrides one, the row has the new outcome and
//! `docs/differences.md` the reason.

use std::pin::Pin;

use csi_client::Code;
use fake_driver::{FakeDriver, Rpc, Step};
use livenessprobe::Program;
use tokio::time::Instant;

use crate::scene::{Scene, answers, config, exchange, get, request};

type Row = (&'static str, fn() -> Pin<Box<dyn Future<Output = ()>>>);

#[tokio::test(start_paused = true)]
async fn every_case_has_its_outcome() {
    let rows: [Row; 12] = [
        ("an answer without `ready` is healthy, one Probe", || Box::pin(ready_absent())),
        ("healthy, then the socket file is removed: unhealthy, one Probe in all", || Box::pin(removed_socket())),
        ("ready=true is healthy", || Box::pin(one_answer(answers(Some(true)), 200, "ok"))),
        ("ready=false has its text", || {
            Box::pin(one_answer(answers(Some(false)), 500, "driver responded but is not ready"))
        }),
        ("an error of Probe is told in the words of gRPC", || {
            let step = Step::fail(Code::Internal, "no backend");
            Box::pin(one_answer(step, 500, "rpc error: code = Internal desc = no backend"))
        }),
        ("a Probe slower than the timeout is unhealthy after it", || Box::pin(slow_probe())),
        ("driver absent at start: the port is open all the same, with the reason", || Box::pin(absent_driver())),
        ("the default health port beside http-endpoint is no conflict", || {
            Box::pin(async { assert!(config(&["--health-port=9808", "--http-endpoint=:1"]).is_ok()) })
        }),
        ("another health port beside http-endpoint ends with code 1", || {
            Box::pin(async { assert_eq!(config(&["--health-port=1", "--http-endpoint=:1"]).unwrap_err().code, 1) })
        }),
        ("a port in use ends with code 0", || Box::pin(port_in_use())),
        ("no metrics with a health port", || Box::pin(no_metrics())),
        ("exact path, any method, plain text without a newline", || Box::pin(paths_and_methods())),
    ];
    assert_eq!(rows.len(), 12, "two of the Go tests, eight the contract adds, two more");
    for (what, row) in rows {
        eprintln!("row: {what}");
        row().await;
    }
}

async fn ready_absent() {
    let scene = Scene::ready(&[]).await;
    scene.driver.script(Rpc::Probe, answers(None));
    assert_eq!(scene.healthz().await, (200, "ok".to_owned()));
    assert_eq!(scene.driver.calls_of(Rpc::Probe).len(), 1);
    scene.end().await.unwrap();
}

async fn removed_socket() {
    let scene = Scene::ready(&[]).await;
    assert_eq!(scene.healthz().await.0, 200);
    scene.driver.remove_socket_file();
    let (code, text) = scene.healthz().await;
    assert_eq!(code, 500);
    assert!(text.starts_with("context deadline exceeded: dial unix"), "{text}");
    assert_eq!(scene.driver.calls_of(Rpc::Probe).len(), 1);
    scene.end().await.unwrap();
}

async fn one_answer(step: Step, code: u16, text: &str) {
    let scene = Scene::ready(&[]).await;
    scene.driver.script(Rpc::Probe, step);
    assert_eq!(scene.healthz().await, (code, text.to_owned()));
    scene.end().await.unwrap();
}

async fn slow_probe() {
    let scene = Scene::ready(&["--probe-timeout=2s"]).await;
    scene.driver.script(Rpc::Probe, Step::hang());
    let started = Instant::now();
    let (code, text) = scene.healthz().await;
    assert_eq!((code, &*text), (500, "rpc error: code = DeadlineExceeded desc = context deadline exceeded"));
    assert_eq!(started.elapsed().as_secs(), 2);
    scene.end().await.unwrap();
}

async fn absent_driver() {
    let scene = Scene::with(FakeDriver::stopped(), &[]).await;
    let started = Instant::now();
    let (code, text) = scene.healthz().await;
    assert_eq!((code, started.elapsed().as_secs()), (500, 3));
    assert!(text.contains("connect: no such file or directory"), "{text}");
    scene.end().await.unwrap();
}

async fn port_in_use() {
    let scene = Scene::ready(&[]).await;
    let taken = format!("--http-endpoint={}", scene.health);
    assert!(Program::bind(config(&[&taken]).unwrap()).await.unwrap().is_none());
    let nonsense = config(&["--health-port=nonsense"]).unwrap();
    assert!(Program::bind(nonsense).await.unwrap().is_none());
    scene.end().await.unwrap();
}

async fn no_metrics() {
    let scene = Scene::ready(&[]).await;
    assert_eq!(get(scene.health, "/metrics").await, (404, "404 page not found\n".to_owned()));
    assert!(scene.metrics.is_none());
    scene.end().await.unwrap();
}

async fn paths_and_methods() {
    let scene = Scene::ready(&[]).await;
    for path in ["/healthz/", "/healthz/x", "/", "/Healthz"] {
        assert_eq!(get(scene.health, path).await.0, 404, "{path}");
    }
    assert!(scene.driver.calls_of(Rpc::Probe).is_empty());
    for method in ["GET", "POST", "PUT", "DELETE"] {
        let answer = exchange(scene.health, &request(method, "/healthz?verbose")).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{method}: {answer}");
        assert!(answer.contains("content-type: text/plain; charset=utf-8\r\n"), "{method}: {answer}");
        assert!(answer.ends_with("\r\n\r\nok"), "{method}: {answer}");
    }
    let head = exchange(scene.health, &request("HEAD", "/healthz")).await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    scene.end().await.unwrap();
}
