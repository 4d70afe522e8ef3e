//! An API server that asks to wait.

use std::time::Duration;

use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::Rpc;
use k8s_openapi::api::core::v1::{Event, PersistentVolume};
use serde_json::json;
use tokio::time::Instant;

use super::objects::{claim, class};
use super::scene::{PATIENCE, Scene};

#[tokio::test(start_paused = true)]
async fn an_overloaded_api_server_is_waited_for_as_long_as_it_asks_without_a_word_on_the_claim() {
    let scene = Scene::start().await;
    let posts = Matcher::of("create", "persistentvolumes");
    scene.api.react(posts.clone().times(2), Reaction::Refuse(Status::too_many_requests(5)));
    scene.add_class(class("fast", json!({})));
    scene.pass(Duration::from_secs(1)).await;
    scene.add_claim(claim("data", "fast"));
    let start = Instant::now();
    let written = |api: &fake_apiserver::FakeApiServer| (!api.list::<PersistentVolume>().is_empty()).then_some(());
    scene.api.until("the volume", PATIENCE, written).await;
    let waited = start.elapsed().as_secs_f64();
    assert!((10.0..13.0).contains(&waited), "{waited}");
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(scene.api.requests_of(&posts).len(), 3);
    assert_eq!(scene.api.list::<PersistentVolume>().len(), 1);
    assert_eq!(scene.count(Rpc::CreateVolume), 1);
    assert_eq!(scene.events("ProvisioningSucceeded").len(), 1);
    assert_eq!(scene.api.list::<Event>().len(), 1, "and nothing else was said");
}
