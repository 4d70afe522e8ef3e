//! One probe in flight, whoever asks.

use std::time::Duration;

use fake_driver::{Release, Rpc, Step};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::scene::{Scene, answers, get, request, within};

/// As many requests at once, and their answers.
async fn at_once(scene: &Scene, number: usize) -> JoinSet<(u16, String)> {
    let mut requests = JoinSet::new();
    for _ in 0..number {
        let address = scene.health;
        requests.spawn(async move { get(address, "/healthz").await });
    }
    scene.driver.wait_for_calls(Rpc::Probe, 1).await;
    // Every request has reached the server, on this one thread.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    requests
}

#[tokio::test(start_paused = true)]
async fn requests_that_come_during_a_probe_share_its_outcome() {
    let scene = Scene::ready(&[]).await;
    for (step, code) in [(answers(Some(true)), 200), (answers(Some(false)), 500)] {
        let (before, release) = (scene.driver.calls_of(Rpc::Probe).len(), Release::new());
        scene.driver.script(Rpc::Probe, step.held_by(&release));
        let requests = at_once(&scene, 50).await;
        release.release();
        for (found, text) in within("answers", requests.join_all()).await {
            assert_eq!(found, code, "{text}");
        }
        assert_eq!(scene.driver.calls_of(Rpc::Probe).len(), before + 1);
    }
    scene.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hundred_requests_at_once_cost_the_driver_two_probes_at_most() {
    let scene = Scene::ready(&[]).await;
    scene.driver.script(Rpc::Probe, answers(None).after(Duration::from_millis(100)));
    let requests = at_once(&scene, 100).await;
    for (code, text) in within("answers", requests.join_all()).await {
        assert_eq!(code, 200, "{text}");
    }
    let probes = scene.driver.calls_of(Rpc::Probe).len();
    assert!(probes <= 2, "{probes}: more than 64 connections wait in the kernel");
    scene.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_after_the_answer_has_a_probe_of_its_own() {
    let scene = Scene::ready(&[]).await;
    for n in 1..=3 {
        assert_eq!(scene.healthz().await.0, 200);
        assert_eq!(scene.driver.calls_of(Rpc::Probe).len(), n);
    }
    scene.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_takes_nothing_from_the_others() {
    let scene = Scene::ready(&[]).await;
    let release = Release::new();
    scene.driver.script(Rpc::Probe, answers(Some(true)).held_by(&release));
    let mut first = TcpStream::connect(scene.health).await.unwrap();
    first.write_all(request("GET", "/healthz").as_bytes()).await.unwrap();
    scene.driver.wait_for_calls(Rpc::Probe, 1).await;
    let others = at_once(&scene, 5).await;
    drop(first);
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(scene.driver.running(Rpc::Probe), 1, "the probe goes on");
    release.release();
    for (code, text) in within("answers", others.join_all()).await {
        assert_eq!(code, 200, "{text}");
    }
    assert_eq!(scene.driver.calls_of(Rpc::Probe).len(), 1);
    scene.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_joins_late_waits_no_longer_than_the_probe_may_take() {
    let scene = Scene::ready(&[]).await;
    scene.driver.script(Rpc::Probe, Step::hang());
    let first = at_once(&scene, 1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let joined = Instant::now();
    let (code, text) = scene.healthz().await;
    assert_eq!(code, 500, "{text}");
    assert!(joined.elapsed() < Duration::from_millis(1100), "{:?}", joined.elapsed());
    assert_eq!(first.join_all().await[0], (500, text));
    assert_eq!(scene.driver.calls_of(Rpc::Probe).len(), 1);
    scene.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_under_way_does_not_hold_up_the_end() {
    let scene = Scene::ready(&[]).await;
    scene.driver.script(Rpc::Probe, Step::hang());
    let mut client = TcpStream::connect(scene.health).await.unwrap();
    client.write_all(request("GET", "/healthz").as_bytes()).await.unwrap();
    scene.driver.wait_for_calls(Rpc::Probe, 1).await;
    let started = Instant::now();
    scene.end().await.unwrap();
    assert!(started.elapsed() < Duration::from_millis(100), "{:?}", started.elapsed());
}
