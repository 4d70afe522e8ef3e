//! A driver that was restarted is asked at once for all it has failed to do.

use std::time::Duration;

use csi_proto::csi::v1::CreateVolumeRequest;
use fake_driver::{Rpc, Step};
use serde_json::json;
use tokio::time::Instant;
use tonic::Code;

use super::objects::{claim, class, volume};
use super::scene::Scene;

/// Within the bounds of reconnecting.
const SOON: Duration = Duration::from_secs(5);

#[tokio::test(start_paused = true)]
async fn n15_a_restarted_driver_is_asked_again_at_once_for_volumes_and_their_deletion() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    for rpc in [Rpc::CreateVolume, Rpc::DeleteVolume] {
        scene.driver.script_always(rpc, || Step::fail(Code::Internal, "backend is away"));
    }
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    let mut names = Vec::new();
    for n in 0..5 {
        names.push(format!("pvc-{}", scene.add_claim(claim(&format!("c{n}"), "fast"))));
        scene.pass(Duration::from_mins(2)).await;
    }
    scene.driver.stop().await;
    scene.driver.forget_script();
    let (before, deletions) = (scene.count(Rpc::CreateVolume), scene.count(Rpc::DeleteVolume));
    // Most recent tries in the order in which they were made: whose was the longest ago comes first.
    let waiting = scene.driver.requests::<CreateVolumeRequest>();
    scene.driver.start_again().await;
    let back = Instant::now();
    for name in &names {
        scene.volume(name).await;
    }
    scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, deletions + 1).await;
    assert!(back.elapsed() < SOON, "{:?}", back.elapsed());
    let asked: Vec<_> =
        scene.driver.requests::<CreateVolumeRequest>()[before..].iter().map(|request| request.name.clone()).collect();
    let last_try = |name: &String| waiting.iter().rposition(|request| request.name == *name);
    assert!(asked.is_sorted_by_key(last_try), "asked for {asked:?}");
    assert_eq!(asked.len(), names.len());
}

#[tokio::test(start_paused = true)]
async fn n15_a_request_that_ends_the_driver_each_time_is_not_repeated_more_often_than_once_a_minute_for_that() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.script_always(Rpc::CreateVolume, Step::hang);
    scene.add_claim(claim("poison", "fast"));
    let mut crashes = Vec::new();
    for crash in 1..=14 {
        for _ in 0..600 {
            if scene.count(Rpc::CreateVolume) < crash {
                scene.pass(Duration::from_secs(1)).await;
            }
        }
        crashes.push(Instant::now());
        scene.driver.crash().await;
        scene.driver.start_again().await;
    }
    // By then the claim's own backoff is longer.
    let quick = crashes[8..].windows(3).find(|crash| crash[2] - crash[0] < Duration::from_mins(1));
    assert!(quick.is_none(), "{crashes:?}");
}
