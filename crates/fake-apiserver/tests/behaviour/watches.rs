//! Watches: where they begin, what they send, how they end.

use std::fmt::Debug;

use futures_util::{StreamExt as _, TryStreamExt as _, pin_mut, stream::BoxStream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;

use super::{ON_WATCHES, code, config_map, far_ahead, get, latest, refused, remove, version};

pub(crate) async fn a_watch_replays_what_happened_since_a_version(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let from = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let first = maps.create(&PostParams::default(), &config_map("watched")).await.unwrap();
    let change = json!({ "metadata": { "labels": { "seen": "yes" } } });
    maps.patch("watched", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    remove(&maps, "watched").await;

    let all = maps.watch(&WatchParams::default().fields("metadata.name=watched"), &from).await.unwrap();
    let events = first_events(all, 3).await;
    assert_eq!(events, ["added watched", "modified watched", "deleted watched"]);
    let labelled = maps.watch(&WatchParams::default().labels("seen=yes"), &from).await.unwrap();
    assert_eq!(first_events(labelled, 2).await, ["added watched", "deleted watched"]);
    let from = first.resource_version().unwrap();
    let later = maps.watch(&WatchParams::default().fields("metadata.name=watched"), &from).await.unwrap();
    assert_eq!(first_events(later, 2).await, ["modified watched", "deleted watched"]);
}

pub(crate) async fn a_watch_list_marks_the_end_of_the_initial_events(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let made = maps.create(&PostParams::default(), &config_map("initial")).await.unwrap();
    let params = WatchParams::default().fields("metadata.name=initial").initial_events();
    let events = first_events(maps.watch(&params, "0").await.unwrap(), 2).await;
    assert_eq!(events, ["added initial", "bookmark at the end"]);
    let without_match = kube::api::Request::new(<ConfigMap as Resource>::url_path(&(), Some(namespace)));
    let mut request = without_match.watch(&WatchParams::default(), "0").unwrap();
    let query = request.uri().to_string() + "&sendInitialEvents=true";
    *request.uri_mut() = query.parse().unwrap();
    assert_eq!(code(maps.clone().into_client().request_text(request).await), refused(422, "Invalid"));
    assert!(made.uid().is_some());
    remove(&maps, "initial").await;
}

pub(crate) async fn a_watch_ends_at_its_timeout(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let params = WatchParams::default().fields("metadata.name=nobody").timeout(1);
    let stream = maps.watch(&params, "0").await.unwrap();
    pin_mut!(stream);
    let rest: Vec<_> = tokio::time::timeout(ON_WATCHES, stream.try_collect()).await.unwrap().unwrap();
    assert!(rest.iter().all(|event| matches!(event, WatchEvent::Bookmark(_))), "{rest:?}");
}

pub(crate) async fn a_watch_from_too_far_back_is_expired(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let stream = maps.watch(&WatchParams::default(), "1").await.unwrap();
    pin_mut!(stream);
    let event = tokio::time::timeout(ON_WATCHES, stream.next()).await.unwrap().unwrap().unwrap();
    let WatchEvent::Error(status) = event else { panic!("not an error: {event:?}") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
}

/// The first `count` events in words, bookmarks in between left out.
async fn first_events<K>(
    stream: impl futures_util::Stream<Item = kube::Result<WatchEvent<K>>>,
    count: usize,
) -> Vec<String>
where
    K: Resource + Debug,
{
    let words = stream.map_ok(|event| match event {
        WatchEvent::Added(object) => Some(format!("added {}", object.name_any())),
        WatchEvent::Modified(object) => Some(format!("modified {}", object.name_any())),
        WatchEvent::Deleted(object) => Some(format!("deleted {}", object.name_any())),
        WatchEvent::Bookmark(mark) => mark
            .metadata
            .annotations
            .contains_key("k8s.io/initial-events-end")
            .then(|| "bookmark at the end".to_owned()),
        WatchEvent::Error(status) => Some(format!("error {}", status.code)),
    });
    let events = words.try_filter_map(|word| std::future::ready(Ok(word))).take(count).try_collect();
    tokio::time::timeout(ON_WATCHES, events).await.expect("the events in time").unwrap()
}

/// An open watch.
async fn watch(maps: &Api<ConfigMap>, params: &WatchParams, from: u64) -> Events {
    maps.watch(params, &from.to_string()).await.unwrap().boxed()
}

type Events = BoxStream<'static, kube::Result<WatchEvent<ConfigMap>>>;

/// All that a watch sends until its timeout.
async fn all(events: Events) -> Vec<WatchEvent<ConfigMap>> {
    tokio::time::timeout(ON_WATCHES, events.try_collect()).await.unwrap().unwrap()
}

/// The versions of events and bookmarks.
fn versions(events: &[WatchEvent<ConfigMap>]) -> Vec<u64> {
    let version = |event: &WatchEvent<ConfigMap>| match event {
        WatchEvent::Added(map) | WatchEvent::Modified(map) | WatchEvent::Deleted(map) => version(map),
        WatchEvent::Bookmark(mark) => mark.metadata.resource_version.parse().unwrap(),
        WatchEvent::Error(status) => panic!("{status:?}"),
    };
    events.iter().map(version).collect()
}

async fn count_up(maps: &Api<ConfigMap>, name: &str, count: u64) -> u64 {
    let change = json!({ "data": { "count": count.to_string() } });
    version(&maps.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap())
}

pub(crate) async fn a_watch_with_a_timeout_of_zero_goes_on(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let params = WatchParams::default().fields("metadata.name=zero").timeout(0);
    let stream = maps.watch(&params, &latest(&maps).await.to_string()).await.unwrap();
    maps.create(&PostParams::default(), &config_map("zero")).await.unwrap();
    assert_eq!(first_events(stream, 1).await, ["added zero"]);
    remove(&maps, "zero").await;
}

pub(crate) async fn a_watch_from_the_future_is_silent_until_that_has_passed(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let made = maps.create(&PostParams::default(), &config_map("future")).await.unwrap();
    let params = WatchParams::default().fields("metadata.name=future").timeout(4);
    let events = watch(&maps, &params, version(&made) + 1_000_000).await;
    count_up(&maps, "future", 0).await;
    let events = all(events).await;
    assert_eq!(versions(&events), [0; 0], "neither events nor bookmarks: {events:?}");

    let ahead = version(&made) + 30;
    let events = watch(&maps, &params, ahead).await;
    let mut above = Vec::new();
    for count in 1.. {
        let now = count_up(&maps, "future", count).await;
        above.extend((now > ahead).then_some(now));
        if above.len() == 2 {
            break;
        }
    }
    let events = all(events).await;
    let bookmark = |event: &&WatchEvent<ConfigMap>| matches!(event, WatchEvent::Bookmark(_));
    let changes: Vec<_> = events.iter().filter(|event| !bookmark(event)).cloned().collect();
    assert_eq!(versions(&changes), above);
    assert!(versions(&events).iter().all(|version| *version > ahead), "{events:?}");
    remove(&maps, "future").await;
}

pub(crate) async fn a_watch_list_from_the_future_is_refused(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let ahead = far_ahead(&maps).await;
    let stream = maps.watch(&WatchParams::default().initial_events(), &ahead.to_string()).await.unwrap();
    pin_mut!(stream);
    let event = tokio::time::timeout(ON_WATCHES, stream.next()).await.unwrap().unwrap().unwrap();
    let WatchEvent::Error(status) = event else { panic!("not an error: {event:?}") };
    assert_eq!((status.code, status.reason.as_str()), (504, "Timeout"));
    assert!(
        status.message.starts_with(&format!("Timeout: Too large resource version: {ahead}, current: ")),
        "{status:?}"
    );
}

pub(crate) async fn bookmarks_come_only_above_where_a_watch_began(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    // A watch that sees no object gets a last bookmark before it ends.
    let params = WatchParams::default().fields("metadata.name=nobody").timeout(5);
    let from = latest(&maps).await;
    let events = watch(&maps, &params, from).await;
    let made = version(&maps.create(&PostParams::default(), &config_map("marks")).await.unwrap());
    let marks = versions(&all(events).await);
    assert!(!marks.is_empty() && marks.iter().all(|mark| *mark >= made), "{marks:?}, {made}");
    // What it has read when it begins is no news to it, although it saw nothing of that.
    let marks = versions(&all(watch(&maps, &params, from).await).await);
    assert!(marks.iter().all(|mark| *mark > made), "{marks:?}, {made}");

    let from = latest(&maps).await;
    let without = watch(&maps, &params.clone().disable_bookmarks(), from).await;
    let listed = watch(&maps, &params.clone().initial_events(), from).await;
    let (marks, without, listed) = tokio::join!(all(watch(&maps, &params, from).await), all(without), all(listed));
    assert!(versions(&marks).iter().all(|mark| *mark > from), "{marks:?}, {from}");
    assert_eq!(versions(&without), [0; 0]);
    let marks = versions(&listed);
    assert!(marks[0] >= from, "the end of the list: {marks:?}, {from}");
    assert!(marks.is_sorted_by(|one, next| one < next), "above it: {marks:?}");
    remove(&maps, "marks").await;
}

pub(crate) async fn options_of_watches_that_exclude_each_other_are_refused(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    for (query, code, reason) in [
        ("resourceVersionMatch=NotOlderThan&resourceVersion=1", 422, "Invalid"),
        ("sendInitialEvents=true", 422, "Invalid"),
        ("sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1", 422, "Invalid"),
    ] {
        let answer = get(&maps, &format!("watch=true&timeoutSeconds=1&{query}")).await;
        assert_eq!(super::code(answer), refused(code, reason), "{query}");
    }
}
