//! Drivers that are not there, not there yet, or there without a name.

use std::time::Duration;

use csi_client::Code;
use csi_proto::csi::v1::{GetPluginInfoRequest, GetPluginInfoResponse};
use fake_driver::{FakeDriver, Rpc, Step};
use tokio::time::{Instant, sleep};

use crate::scene::{Scene, answers, within};

#[tokio::test(start_paused = true)]
async fn f11_http_is_served_before_the_driver_has_ever_answered_and_the_process_stays() {
    let scene = Scene::with(FakeDriver::stopped(), &[]).await;
    for _ in 0..3 {
        let (code, text) = scene.healthz().await;
        assert_eq!(code, 500);
        assert!(text.contains("no such file or directory") && text.contains("mount the same directory"), "{text}");
    }
    sleep(Duration::from_hours(24)).await;
    scene.driver.start_again().await;
    assert_eq!(scene.healthz().await, (200, "ok".to_owned()));
    scene.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn f11_a_driver_that_dies_hangs_or_is_not_ready_is_told_with_the_reason_until_it_is_back() {
    let scene = Scene::ready(&[]).await;
    assert_eq!(scene.healthz().await.0, 200);
    scene.driver.crash().await;
    let (code, text) = scene.healthz().await;
    assert_eq!(code, 500);
    assert!(text.contains("connection refused") && text.contains("stale socket file"), "{text}");
    scene.driver.start_again().await;
    scene.driver.script(Rpc::Probe, answers(Some(false)));
    scene.driver.script(Rpc::Probe, Step::hang());
    scene.driver.script(Rpc::Probe, Step::fail(Code::FailedPrecondition, "no license"));
    scene.driver.script(Rpc::Probe, answers(None));
    let mut texts = Vec::new();
    for _ in 0..4 {
        texts.push(scene.healthz().await.1);
    }
    assert_eq!(
        texts,
        [
            "driver responded but is not ready",
            "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
            "rpc error: code = FailedPrecondition desc = no license",
            "ok",
        ]
    );
    scene.driver.stop().await;
    assert_eq!(scene.healthz().await.0, 500);
    scene.driver.start_again().await;
    assert_eq!(scene.healthz().await.0, 200);
    scene.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn f11_a_driver_that_dies_during_its_probe_is_told_at_once() {
    let scene = Scene::ready(&[]).await;
    scene.driver.script(Rpc::Probe, Step::hang());
    let started = Instant::now();
    let ((code, text), ()) = tokio::join!(scene.healthz(), async {
        scene.driver.wait_for_calls(Rpc::Probe, 1).await;
        scene.driver.crash().await;
    });
    assert_eq!(code, 500);
    assert!(text.starts_with("rpc error: code = Unavailable desc = "), "{text}");
    assert!(started.elapsed() < Duration::from_millis(100));
    scene.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn f11_a_driver_behind_a_removed_socket_is_unhealthy_although_it_lives() {
    let scene = Scene::ready(&[]).await;
    assert_eq!(scene.healthz().await.0, 200);
    scene.driver.remove_socket_file();
    assert_eq!(scene.healthz().await.0, 500);
    scene.driver.replace_socket().await;
    assert_eq!(scene.healthz().await.0, 200);
    scene.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_comes_back_within_the_timeout_is_healthy() {
    let scene = Scene::ready(&[]).await;
    scene.driver.stop().await;
    let ((code, text), ()) = tokio::join!(scene.healthz(), async {
        sleep(Duration::from_millis(1500)).await;
        scene.driver.start_again().await;
    });
    assert_eq!((code, &*text), (200, "ok"));
    scene.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_does_not_tell_its_name_is_unhealthy_with_what_it_says() {
    let driver = FakeDriver::start().await;
    driver.script_always(Rpc::GetPluginInfo, || Step::fail(Code::Unavailable, "starting"));
    let scene = Scene::with(driver, &[]).await;
    let (code, text) = scene.healthz().await;
    assert_eq!(code, 500);
    assert!(text.contains("rpc error: code = Unavailable desc = starting"), "{text}");
    assert!(scene.driver.calls_of(Rpc::Probe).is_empty());
    let asked = scene.driver.calls_of(Rpc::GetPluginInfo).len();
    sleep(Duration::from_mins(1)).await;
    let more = scene.driver.calls_of(Rpc::GetPluginInfo).len() - asked;
    assert!((55..=65).contains(&more), "{more} questions in a minute");
    scene.driver.forget_script();
    assert_eq!(scene.healthz().await.0, 200);
    scene.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_hangs_on_its_name_is_told_so_and_asked_again() {
    let driver = FakeDriver::start().await;
    driver.script(Rpc::GetPluginInfo, Step::hang());
    let scene = Scene::with(driver, &[]).await;
    let (code, text) = scene.healthz().await;
    assert_eq!(code, 500);
    assert!(text.contains("has not answered GetPluginInfo yet"), "{text}");
    scene.driver.wait_for_calls(Rpc::GetPluginInfo, 2).await;
    assert_eq!(scene.healthz().await.0, 200);
    scene.end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_driver_without_a_name_ends_the_process_with_code_1() {
    let driver = FakeDriver::start().await;
    driver.script(Rpc::GetPluginInfo, Step::respond(|_: &GetPluginInfoRequest| Ok(GetPluginInfoResponse::default())));
    let scene = Scene::with(driver, &[]).await;
    let exit = within("end of the program", scene.program).await.unwrap().unwrap_err();
    assert_eq!(exit.code, 1);
    assert!(exit.message.contains("driver name is empty"), "{exit}");
}
