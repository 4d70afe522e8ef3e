//! A driver that was restarted is asked at once for all it has failed to do.

use std::time::Duration;

use fake_driver::{Rpc, Step};
use tokio::time::Instant;
use tonic::Code;

use super::growth::grows;
use super::modifying::{classed, current, scene_of, volume_with};
use super::objects::{claim, volume};
use super::scene::{Scene, config, modified};

#[tokio::test(start_paused = true)]
async fn n15_a_restarted_driver_is_asked_again_at_once_to_grow_a_volume() {
    for code in [Code::Internal, Code::OutOfRange] {
        let scene = Scene::start().await;
        scene.driver.script_always(Rpc::ControllerExpandVolume, move || Step::fail(code, "no"));
        scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
        scene.pass(Duration::from_mins(11)).await;
        scene.driver.stop().await;
        grows(&scene.driver, false);
        scene.driver.start_again().await;
        let back = Instant::now();
        scene.until("the claim to grow", |scene| scene.claim_json()["status"]["capacity"]["storage"] == "2Gi").await;
        assert!(back.elapsed() < Duration::from_secs(5), "{code:?}: {:?}", back.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn n15_a_restarted_driver_is_asked_again_at_once_to_modify_a_volume() {
    let scene = scene_of(config(), classed("gold", "silver", None), volume_with("silver")).await;
    scene.driver.script_always(Rpc::ControllerModifyVolume, || Step::fail(Code::InvalidArgument, "no"));
    scene.pass(Duration::from_mins(7)).await;
    scene.driver.stop().await;
    scene.driver.script_always(Rpc::ControllerModifyVolume, modified);
    scene.driver.start_again().await;
    let back = Instant::now();
    scene.until("the class to be changed", |scene| current(scene) == "gold").await;
    assert!(back.elapsed() < Duration::from_secs(5), "{:?}", back.elapsed());
}

/// The driver comes back while the status is written that says how the call before has failed.
#[tokio::test(start_paused = true)]
async fn n15_a_claim_in_process_when_the_driver_is_back_is_not_delayed_by_that_run() {
    let scene = Scene::start().await;
    scene.driver.script_always(Rpc::ControllerExpandVolume, || Step::fail(Code::Internal, "no"));
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(Duration::from_mins(11)).await;
    let tries = scene.asked().len();
    scene.api.react(
        fake_apiserver::Matcher::of("patch", "persistentvolumeclaims"),
        fake_apiserver::Reaction::DelayAnswer(Duration::from_secs(5)),
    );
    scene.until("another try", |scene| scene.asked().len() > tries).await;
    scene.pass(Duration::from_millis(100)).await;
    scene.driver.stop().await;
    grows(&scene.driver, false);
    scene.driver.start_again().await;
    let back = Instant::now();
    scene.until("the claim to grow", |scene| scene.claim_json()["status"]["capacity"]["storage"] == "2Gi").await;
    assert!(back.elapsed() < Duration::from_secs(30), "{:?}", back.elapsed());
}
