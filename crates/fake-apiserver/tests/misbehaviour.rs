//! What only the fake can do: scripted refusals, lost answers, outages, compaction, and looking at the requests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{pin::pin, time::Duration};

use fake_apiserver::{FakeApiServer, Matcher, Reaction, Status};
use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, ObjectMeta, PostParams, WatchEvent, WatchParams},
};
use tokio::time::Instant;

fn config_map(name: &str) -> ConfigMap {
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some("here".to_owned()),
        finalizers: Some(vec!["example.com/held".to_owned()]),
        ..ObjectMeta::default()
    };
    ConfigMap { metadata, ..ConfigMap::default() }
}

fn maps(server: &FakeApiServer) -> Api<ConfigMap> {
    Api::namespaced(server.client(), "here")
}

#[tokio::test(start_paused = true)]
async fn a_refusal_hits_the_requests_it_names_as_often_as_it_says() {
    let server = FakeApiServer::new();
    let api = maps(&server);
    let refusal = Reaction::Refuse(Status::too_many_requests(7));
    server.react(Matcher::of("create", "configmaps").name("b").after(1).times(1), refusal);
    api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    api.create(&PostParams::default(), &config_map("b")).await.unwrap();
    server.remove::<ConfigMap>("here", "b");
    let error = api.create(&PostParams::default(), &config_map("b")).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error:?}") };
    assert_eq!((status.code, status.reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(status.details.unwrap().retry_after_seconds, 7);
    api.create(&PostParams::default(), &config_map("b")).await.unwrap();
    let creates = server.requests_of(&Matcher::of("create", "configmaps"));
    assert_eq!(creates.len(), 4, "refused requests are recorded too");
    assert_eq!(creates[0].summary(), "create configmaps here/a");
    assert_eq!(creates[0].body["metadata"]["name"], "a");
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_the_write_behind() {
    let server = FakeApiServer::new();
    server.react(Matcher::of("create", "configmaps").once(), Reaction::LoseAnswer);
    let answer = maps(&server).create(&PostParams::default(), &config_map("a")).await;
    assert!(!matches!(answer, Ok(_) | Err(kube::Error::Api(_))), "{answer:?}");
    assert!(server.get::<ConfigMap>("here", "a").is_some());
    server.react(Matcher::of("create", "configmaps").once(), Reaction::BreakConnection);
    maps(&server).create(&PostParams::default(), &config_map("b")).await.unwrap_err();
    assert!(server.get::<ConfigMap>("here", "b").is_none());
}

#[tokio::test(start_paused = true)]
async fn delays_run_on_the_paused_clock() {
    let server = FakeApiServer::new();
    let started = Instant::now();
    server.react(Matcher::of("list", "configmaps").once(), Reaction::Delay(Duration::from_secs(3)));
    maps(&server).list(&ListParams::default()).await.unwrap();
    server.react(Matcher::of("create", "configmaps").once(), Reaction::DelayAnswer(Duration::from_secs(2)));
    let (api, params, map) = (maps(&server), PostParams::default(), config_map("a"));
    let (written, answered) = tokio::join!(
        server.until("the write", Duration::from_secs(1), |s| s.get::<ConfigMap>("here", "a").map(|_| Instant::now())),
        async { api.create(&params, &map).await.map(|_| Instant::now()) },
    );
    assert_eq!(answered.unwrap() - written, Duration::from_secs(2));
    assert!(started.elapsed() >= Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_request_ends_with_its_client() {
    let server = FakeApiServer::new();
    server.react(Matcher::of("create", "configmaps").once(), Reaction::HangAfterWrite);
    let (api, params, map) = (maps(&server), PostParams::default(), config_map("a"));
    let hanging = tokio::time::timeout(Duration::from_secs(5), api.create(&params, &map));
    hanging.await.unwrap_err();
    assert!(server.get::<ConfigMap>("here", "a").is_some());
    server.react(Matcher::any().once(), Reaction::Hang);
    tokio::time::timeout(Duration::from_secs(5), api.get("a")).await.unwrap_err();
    api.get("a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn watches_end_as_told() {
    let server = FakeApiServer::new();
    let api = maps(&server);
    let watch = || async { api.watch(&WatchParams::default(), "0").await.unwrap().boxed() };

    let mut dropped = watch().await;
    server.create(&config_map("a"));
    server.drop_watches();
    assert!(matches!(dropped.next().await, Some(Ok(WatchEvent::Added(_)))));
    assert!(dropped.next().await.is_none());

    let mut expired = watch().await;
    assert!(matches!(expired.next().await, Some(Ok(WatchEvent::Added(_)))));
    server.expire_watches();
    assert!(matches!(expired.next().await, Some(Ok(WatchEvent::Error(status))) if status.code == 410));
    assert!(expired.next().await.is_none());

    let mut broken = watch().await;
    assert!(matches!(broken.next().await, Some(Ok(WatchEvent::Added(_)))));
    server.set_reachable(false);
    assert!(matches!(broken.next().await, Some(Err(_))));
    api.get("a").await.unwrap_err();
    server.set_reachable(true);
    api.get("a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_list_breaks_off_where_it_is_told_to() {
    let server = FakeApiServer::new();
    for name in ["a", "b", "c"] {
        server.create(&config_map(name));
    }
    server.react(Matcher::of("watch", "configmaps").once(), Reaction::BreakWatchAfter(2));
    let parameters = WatchParams::default().initial_events();
    for whole in [false, true] {
        let events = pin!(maps(&server).watch(&parameters, "").await.unwrap()).take(4).collect::<Vec<_>>().await;
        let added = events.iter().filter(|event| matches!(event, Ok(WatchEvent::Added(_)))).count();
        assert_eq!(added, if whole { 3 } else { 2 }, "{events:?}");
        assert_eq!(events.iter().any(Result::is_err), !whole, "{events:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn compaction_refuses_the_past_and_leaves_open_watches_alone() {
    let server = FakeApiServer::new();
    let api = maps(&server);
    let made = server.create(&config_map("a"));
    server.create(&config_map("b"));
    let page = api.list(&ListParams::default().limit(1)).await.unwrap();
    let mut open = api.watch(&WatchParams::default(), &made.resource_version().unwrap()).await.unwrap().boxed();
    server.compact();
    assert!(matches!(open.next().await, Some(Ok(WatchEvent::Added(object))) if object.name_any() == "b"));
    let mut late = api.watch(&WatchParams::default(), &made.resource_version().unwrap()).await.unwrap().boxed();
    assert!(matches!(late.next().await, Some(Ok(WatchEvent::Error(status))) if status.code == 410));
    let next = ListParams::default().continue_token(&page.metadata.continue_.unwrap());
    assert!(matches!(api.list(&next).await, Err(kube::Error::Api(status)) if status.code == 410));
    let latest = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut fresh = api.watch(&WatchParams::default(), &latest).await.unwrap().boxed();
    server.remove::<ConfigMap>("here", "b");
    assert!(matches!(fresh.next().await, Some(Ok(WatchEvent::Deleted(_)))));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_when_they_are_sent() {
    let server = FakeApiServer::new();
    server.create(&config_map("a"));
    let api = maps(&server);
    let mut with = pin!(api.watch(&WatchParams::default(), "1").await.unwrap());
    let mut without = api.watch(&WatchParams::default().disable_bookmarks(), "1").await.unwrap().boxed();
    server.merge::<ConfigMap>("here", "a", &serde_json::json!({ "data": { "k": "v" } }));
    server.send_bookmarks();
    assert!(matches!(with.next().await, Some(Ok(WatchEvent::Modified(_)))));
    assert!(matches!(with.next().await, Some(Ok(WatchEvent::Bookmark(mark))) if mark.metadata.resource_version == "2"));
    assert!(matches!(without.next().await, Some(Ok(WatchEvent::Modified(_)))));
    let mut at_the_latest = api.watch(&WatchParams::default(), "2").await.unwrap().boxed();
    server.send_bookmarks();
    server.drop_watches();
    assert!(without.next().await.is_none());
    assert!(at_the_latest.next().await.is_none(), "it knows where it is");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_watch_list_says_so() {
    let server = FakeApiServer::new();
    server.disable_watch_list();
    let answer = maps(&server).watch(&WatchParams::default().initial_events(), "0").await;
    assert!(matches!(answer.map(drop), Err(kube::Error::Api(status)) if status.code == 422));
}

#[tokio::test(start_paused = true)]
async fn an_administrator_changes_objects_without_requests() {
    let server = FakeApiServer::new();
    let bound = Duration::from_secs(1);
    let with_data = |s: &FakeApiServer| s.get::<ConfigMap>("here", "a").filter(|map| map.data.is_some());
    let (seen, ()) = tokio::join!(server.until("the map to change", bound, with_data), async {
        server.create(&config_map("a"));
        tokio::task::yield_now().await;
        server.modify::<ConfigMap>("here", "a", |map| {
            map.data = Some([("k".to_owned(), "v".to_owned())].into());
        });
    });
    assert_eq!(seen.data.unwrap()["k"], "v");
    server.delete::<ConfigMap>("here", "a");
    assert!(server.get::<ConfigMap>("here", "a").unwrap().metadata.deletion_timestamp.is_some());
    server.modify::<ConfigMap>("here", "a", |map| map.metadata.finalizers = None);
    assert!(server.list::<ConfigMap>().is_empty());
    assert!(server.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_resource_taken_away_is_gone_from_discovery_and_from_its_paths() {
    let server = FakeApiServer::new();
    let client = server.client();
    let plurals = async |group_version: &str| {
        let list = client.list_api_group_resources(group_version).await;
        list.map(|list| list.resources.into_iter().map(|one| one.name).collect::<Vec<_>>())
    };
    assert!(plurals("storage.k8s.io/v1").await.unwrap().contains(&"csistoragecapacities".to_owned()));
    assert!(plurals("storage.k8s.io/v1beta1").await.is_err());
    server.serve("storage.k8s.io", "v1", "csistoragecapacities", false);
    server.serve("storage.k8s.io", "v1beta1", "csistoragecapacities", true);
    assert!(!plurals("storage.k8s.io/v1").await.unwrap().contains(&"csistoragecapacities".to_owned()));
    assert_eq!(plurals("storage.k8s.io/v1beta1").await.unwrap(), ["csistoragecapacities"]);
    let objects: Api<k8s_openapi::api::storage::v1::CSIStorageCapacity> = Api::namespaced(client.clone(), "here");
    let listed = objects.list(&ListParams::default()).await;
    assert!(matches!(listed, Err(kube::Error::Api(status)) if status.code == 404));
}
