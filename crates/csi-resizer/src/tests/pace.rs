//! How often a driver that fails is asked: own writes that come back as events, and the resync, do not shorten a delay.

use std::time::Duration;

use fake_apiserver::{Matcher, Reaction};
use tokio::time::Instant;
use tonic::Code;

use super::growth::{GI, ONE_TRY, answers, grows, refuses};
use super::objects::{claim, volume};
use super::scene::{Config, Scene, config};

fn with_resync() -> Config {
    Config { resync: Some(Duration::from_secs(2)), ..config() }
}

/// When the driver was asked, in seconds since the first time.
fn moments(scene: &Scene) -> Vec<u64> {
    let calls = scene.driver.calls_of(fake_driver::Rpc::ControllerExpandVolume);
    let first = calls.first().map_or_else(Instant::now, |call| call.started);
    calls.iter().map(|call| (call.started - first).as_secs()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_fails_is_asked_after_one_two_and_four_seconds_whatever_it_says() {
    let codes = [
        Code::Cancelled,
        Code::Unknown,
        Code::DeadlineExceeded,
        Code::AlreadyExists,
        Code::PermissionDenied,
        Code::ResourceExhausted,
        Code::FailedPrecondition,
        Code::Aborted,
        Code::Unimplemented,
        Code::Internal,
        Code::Unavailable,
        Code::DataLoss,
        Code::Unauthenticated,
    ];
    assert_eq!(codes.len(), 13);
    for code in codes {
        let scene = Scene::with(with_resync(), |_| ()).await;
        refuses(&scene.driver, code);
        scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
        scene.pass(Duration::from_secs(12)).await;
        assert_eq!(moments(&scene), [0, 1, 3, 7], "{code:?}");
    }
}

/// The watch tells of an own write before its answer is there.
#[tokio::test(start_paused = true)]
async fn an_event_that_overtakes_the_answer_to_its_write_ends_no_delay() {
    let scene = Scene::with(with_resync(), |_| ()).await;
    let writes = Matcher::of("patch", "persistentvolumeclaims");
    scene.api.react(writes, Reaction::DelayAnswer(Duration::from_millis(20)));
    refuses(&scene.driver, Code::Internal);
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(Duration::from_secs(12)).await;
    assert_eq!(moments(&scene), [0, 1, 3, 7]);
}

#[tokio::test(start_paused = true)]
async fn what_is_infeasible_is_asked_once_in_each_period() {
    for code in [Code::InvalidArgument, Code::OutOfRange, Code::NotFound] {
        let scene = Scene::with(with_resync(), |_| ()).await;
        refuses(&scene.driver, code);
        scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
        scene.pass(Duration::from_secs(899)).await;
        assert_eq!(moments(&scene), [0, 300, 600], "{code:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_size_is_asked_for_at_once() {
    for (size, bytes) in [("3Gi", 3 * GI), ("1536Mi", 3 * GI / 2)] {
        let scene = Scene::start().await;
        refuses(&scene.driver, Code::OutOfRange);
        scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
        scene.pass(Duration::from_secs(100)).await;
        grows(&scene.driver, false);
        scene.ask_for(size);
        scene.pass(ONE_TRY).await;
        assert_eq!(scene.asked(), [2 * GI, bytes]);
        assert!(scene.told("VolumeResizeSuccessful"));
    }
}

/// An annotation or a label is no reason to ask a failing driver again.
#[tokio::test(start_paused = true)]
async fn a_change_that_says_nothing_about_sizes_leaves_the_delay_alone() {
    let scene = Scene::start().await;
    refuses(&scene.driver, Code::Internal);
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    for round in 0..12 {
        scene.pass(Duration::from_secs(1)).await;
        scene.merge_claim(&serde_json::json!({ "metadata": { "labels": { "round": round.to_string() } } }));
    }
    assert_eq!(moments(&scene), [0, 1, 3, 7]);
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_answers_less_than_asked_is_asked_again_with_delay() {
    for node_required in [true, false] {
        let scene = Scene::with(with_resync(), |_| ()).await;
        answers(&scene.driver, 3 * GI / 2, node_required);
        scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
        scene.pass(ONE_TRY).await;
        assert_eq!(scene.volume_json()["spec"]["capacity"]["storage"], "1536Mi", "progress is written down");
        assert!(!scene.told("VolumeResizeSuccessful") && scene.told("VolumeResizeFailed"));
        assert_eq!(scene.told("FileSystemResizeRequired"), node_required);
        let capacity = if node_required { "1Gi" } else { "1536Mi" };
        assert_eq!(scene.sizes()[0].as_deref(), Some(capacity));
        scene.pass(Duration::from_secs(11)).await;
        // From the second answer on nothing grows.
        assert_eq!(moments(&scene), [0, 1, 3, 7]);
        assert_eq!(scene.asked(), [2 * GI; 4]);
        grows(&scene.driver, node_required);
        scene.pass(Duration::from_secs(8)).await;
        assert_eq!(scene.volume_json()["spec"]["capacity"]["storage"], "2Gi");
    }
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_answers_nothing_or_less_than_there_is_changes_nothing() {
    for bytes in [0, -1, GI, GI / 2] {
        let scene = Scene::with(with_resync(), |_| ()).await;
        answers(&scene.driver, bytes, false);
        scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
        scene.pass(Duration::from_secs(12)).await;
        assert_eq!(moments(&scene), [0, 1, 3, 7], "{bytes}");
        assert_eq!(scene.volume_json()["spec"]["capacity"]["storage"], "1Gi");
        let [capacity, allocated, status] = scene.sizes();
        let state = (capacity.as_deref(), allocated.as_deref(), status.as_deref());
        assert_eq!(state, (Some("1Gi"), Some("2Gi"), Some("ControllerResizeInProgress")));
        assert!(scene.told("VolumeResizeFailed") && !scene.told("VolumeResizeSuccessful"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_answers_more_than_asked_has_it_written_down() {
    let scene = Scene::start().await;
    answers(&scene.driver, 3 * GI, false);
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(ONE_TRY).await;
    assert_eq!(scene.volume_json()["spec"]["capacity"]["storage"], "3Gi");
    let [capacity, allocated, status] = scene.sizes();
    assert_eq!((capacity.as_deref(), allocated.as_deref(), status), (Some("3Gi"), Some("2Gi"), None));
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_remembered_of_claims_that_are_through_or_gone() {
    let scene = Scene::start().await;
    refuses(&scene.driver, Code::Internal);
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(ONE_TRY).await;
    assert_eq!((scene.term().memories.len(), scene.term().pace.len()), (1, 1));
    grows(&scene.driver, false);
    scene.pass(Duration::from_secs(2)).await;
    assert!(scene.told("VolumeResizeSuccessful"));
    assert_eq!((scene.term().memories.len(), scene.term().pace.len()), (0, 0));
}
