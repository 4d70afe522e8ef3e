//! Lists: pages, the states they are of, selectors, metadata alone.

use futures_util::{StreamExt as _, TryStreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolume, Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};

use super::{ON_WATCHES, code, far_ahead, get, names, object, refused, remove, version};

pub(crate) async fn a_list_comes_in_pages_of_one_state(client: Client, namespace: &str) {
    let secrets: Api<Secret> = Api::namespaced(client, namespace);
    for name in ["page-a", "page-b", "page-c"] {
        let secret = object(json!({ "metadata": { "name": name, "labels": { "paged": "yes" } } }));
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }
    let params = ListParams::default().labels("paged=yes").limit(2);
    let first = secrets.list(&params).await.unwrap();
    let names = |list: &[Secret]| list.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
    assert_eq!(names(&first.items), ["page-a", "page-b"]);
    secrets.delete("page-c", &DeleteParams::default()).await.unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    let second = secrets.list(&params.continue_token(&token)).await.unwrap();
    assert_eq!(names(&second.items), ["page-c"], "as it was at the first page");
    assert_eq!(first.metadata.resource_version, second.metadata.resource_version);
    let one = secrets.list(&ListParams::default().fields("metadata.name=page-b")).await.unwrap();
    assert_eq!(names(&one.items), ["page-b"]);
    assert_eq!(names(&secrets.list(&ListParams::default().labels("paged!=yes,paged")).await.unwrap().items), [""; 0]);
    for name in ["page-a", "page-b"] {
        remove(&secrets, name).await;
    }
}

pub(crate) async fn label_selectors_choose(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    for (name, labels) in [("l-1", json!({ "l": "1", "x": "y" })), ("l-2", json!({ "l": "2" })), ("l-3", json!({}))] {
        let map: ConfigMap = object(json!({ "metadata": { "name": name, "labels": labels } }));
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    for (selector, expected) in [
        ("l", "l-1 l-2"),
        ("!x,l", "l-2"),
        ("l=1", "l-1"),
        ("l==2", "l-2"),
        ("l!=1", "l-2 l-3"),
        ("l in (1,2)", "l-1 l-2"),
        ("l notin (1, 3),l", "l-2"),
    ] {
        let params = ListParams::default().labels(selector);
        let list = maps.list(&params).await.unwrap();
        let names: Vec<_> = list.iter().map(ResourceExt::name_any).filter(|name| name.starts_with("l-")).collect();
        assert_eq!(names.join(" "), expected, "{selector}");
    }
    for name in ["l-1", "l-2", "l-3"] {
        remove(&maps, name).await;
    }
    let unsupported = Api::<PersistentVolume>::all(maps.into_client());
    let answer = unsupported.list(&ListParams::default().fields("spec.driver=none")).await;
    assert_eq!(code(answer), refused(400, "BadRequest"));
}

pub(crate) async fn metadata_alone_goes_to_those_that_ask_for_it(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let map = object(json!({ "metadata": { "name": "partial", "labels": { "l": "partial" } }, "data": { "a": "1" } }));
    let made: ConfigMap = maps.create(&PostParams::default(), &map).await.unwrap();
    let request = kube::core::Request::new(maps.resource_url());
    let list = request.list_metadata(&ListParams::default().labels("l=partial")).unwrap();
    let list: Value = client.request(list).await.unwrap();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1")));
    let item = &list["items"][0];
    assert_eq!((&item["metadata"]["labels"]["l"], &item["data"]), (&json!("partial"), &Value::Null));
    assert_eq!(item["metadata"]["uid"].as_str(), made.uid().as_deref());
    let watch = WatchParams::default().labels("l=partial").timeout(10);
    let watch = request.watch_metadata(&watch, list["metadata"]["resourceVersion"].as_str().unwrap()).unwrap();
    let events = client.request_events::<Value>(watch).await.unwrap();
    pin_mut!(events);
    let change = json!({ "metadata": { "labels": { "more": "1" } }, "data": { "a": "2" } });
    maps.patch("partial", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    let event = tokio::time::timeout(ON_WATCHES, events.next()).await.unwrap().unwrap().unwrap();
    let WatchEvent::Modified(changed) = event else { panic!("{event:?}") };
    assert_eq!(changed["kind"], "PartialObjectMetadata");
    assert_eq!((&changed["metadata"]["labels"]["more"], &changed["data"]), (&json!("1"), &Value::Null));
    let params = WatchParams::default().labels("l=partial").initial_events();
    let events = client.request_events::<Value>(request.watch_metadata(&params, "0").unwrap()).await.unwrap();
    let events: Vec<_> = tokio::time::timeout(ON_WATCHES, events.take(2).try_collect()).await.unwrap().unwrap();
    let [WatchEvent::Added(added), WatchEvent::Bookmark(mark)] = &events[..] else { panic!("{events:?}") };
    assert_eq!(
        (added["kind"].as_str(), mark.types.kind.as_str()),
        (Some("PartialObjectMetadata"), "PartialObjectMetadata")
    );
    assert!(mark.metadata.annotations.contains_key("k8s.io/initial-events-end"));
    remove(&maps, "partial").await;
}

pub(crate) async fn metadata_alone_comes_in_pages(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    for name in ["m-1", "m-2", "m-3"] {
        labelled(&maps, name, "metadata").await;
    }
    let request = kube::core::Request::new(maps.resource_url());
    let params = ListParams::default().labels("l=metadata").limit(2);
    let first: Value = client.request(request.list_metadata(&params).unwrap()).await.unwrap();
    assert_eq!(names(&first), "m-1 m-2");
    remove(&maps, "m-3").await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = request.list_metadata(&params.continue_token(token)).unwrap();
    let second: Value = client.request(second).await.unwrap();
    assert_eq!((names(&second).as_str(), &second["kind"]), ("m-3", &json!("PartialObjectMetadataList")));
    assert_eq!(first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"]);
    for name in ["m-1", "m-2"] {
        remove(&maps, name).await;
    }
}

async fn labelled(maps: &Api<ConfigMap>, name: &str, value: &str) {
    let map = object(json!({ "metadata": { "name": name, "labels": { "l": value } } }));
    maps.create(&PostParams::default(), &map).await.unwrap();
}

/// The names in all pages, which are of one state.
async fn pages(maps: &Api<ConfigMap>, query: &str) -> Vec<String> {
    let mut page = get(maps, query).await.unwrap();
    let mut found = vec![names(&page)];
    let state = page["metadata"]["resourceVersion"].clone();
    while let Some(token) = page["metadata"]["continue"].as_str() {
        assert!(page["metadata"]["remainingItemCount"].is_null(), "that count would be wrong: {page}");
        page = get(maps, &format!("{query}&continue={token}")).await.unwrap();
        assert_eq!(page["metadata"]["resourceVersion"], state);
        found.push(names(&page));
    }
    found
}

pub(crate) async fn a_page_of_chosen_objects_is_full_and_the_last_may_be_empty(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let all =
        [("c-1", "chosen"), ("c-2", "other"), ("c-3", "chosen"), ("c-4", "other"), ("c-5", "chosen"), ("c-6", "other")];
    for (name, value) in all {
        labelled(&maps, name, value).await;
    }
    assert_eq!(pages(&maps, "labelSelector=l%3Dchosen&limit=2").await, ["c-1 c-3", "c-5"]);
    assert_eq!(pages(&maps, "labelSelector=l%3Dchosen&limit=1").await, ["c-1", "c-3", "c-5", ""]);
    assert_eq!(pages(&maps, "labelSelector=l%3Dchosen&limit=9").await, ["c-1 c-3 c-5"]);
    assert_eq!(pages(&maps, "labelSelector=l%3Dnone&limit=1").await, [""]);
    for (name, _) in all {
        remove(&maps, name).await;
    }
}

pub(crate) async fn pages_say_how_many_are_left_where_none_is_left_out(client: Client, namespace: &str) {
    let secrets: Api<Secret> = Api::namespaced(client, namespace);
    for name in ["r-1", "r-2", "r-3"] {
        let secret = object(json!({ "metadata": { "name": name } }));
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }
    let params = ListParams::default().limit(1);
    let first = secrets.list(&params).await.unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(2));
    let second = secrets.list(&params.clone().continue_token(&first.metadata.continue_.unwrap())).await.unwrap();
    assert_eq!(second.metadata.remaining_item_count, Some(1));
    let third = secrets.list(&params.continue_token(&second.metadata.continue_.unwrap())).await.unwrap();
    assert_eq!((third.metadata.remaining_item_count, third.metadata.continue_), (None, None));
    for name in ["r-1", "r-2", "r-3"] {
        remove(&secrets, name).await;
    }
}

pub(crate) async fn a_list_is_of_the_state_asked_for(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    labelled(&maps, "s-1", "state").await;
    let then = version(&maps.get("s-1").await.unwrap());
    labelled(&maps, "s-2", "state").await;
    let exact = format!("resourceVersion={then}&resourceVersionMatch=Exact");
    let at_least = format!("resourceVersion={then}&resourceVersionMatch=NotOlderThan");
    for (query, expected) in [
        // It goes first: what does not ask for the latest state is no older than this from here on.
        ("limit=5".to_owned(), "s-1 s-2"),
        (String::new(), "s-1 s-2"),
        (exact.clone(), "s-1"),
        (format!("{exact}&limit=5"), "s-1"),
        (at_least.clone(), "s-1 s-2"),
        (format!("{at_least}&limit=5"), "s-1 s-2"),
        (format!("resourceVersion={then}"), "s-1 s-2"),
        // Pages without a match are exact.
        (format!("resourceVersion={then}&limit=5"), "s-1"),
    ] {
        let list = get(&maps, &format!("labelSelector=l%3Dstate&{query}")).await.unwrap();
        assert_eq!(names(&list), expected, "{query}");
        let of: u64 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(of > then || expected == "s-1" && of == then, "{query}: {of}, {then}");
    }
    for name in ["s-1", "s-2"] {
        remove(&maps, name).await;
    }
}

pub(crate) async fn a_list_of_any_state_comes_whole(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    for name in ["a-1", "a-2"] {
        labelled(&maps, name, "any").await;
    }
    // Any state is no older than this from here on.
    get(&maps, "").await.unwrap();
    assert_eq!(pages(&maps, "labelSelector=l%3Dany&limit=1&resourceVersion=0").await, ["a-1 a-2"]);
    for name in ["a-1", "a-2"] {
        remove(&maps, name).await;
    }
}

pub(crate) async fn a_list_over_namespaces_is_in_the_order_of_paths(client: Client, namespace: &str) {
    let longer = format!("{namespace}-longer");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let made = object(json!({ "metadata": { "name": longer } }));
    namespaces.create(&PostParams::default(), &made).await.unwrap();
    for namespace in [namespace, &longer] {
        labelled(&Api::namespaced(client.clone(), namespace), "ordered", "ordered").await;
    }
    let list = Api::<ConfigMap>::all(client.clone()).list(&ListParams::default().labels("l=ordered")).await.unwrap();
    let found: Vec<_> = list.iter().filter_map(ResourceExt::namespace).collect();
    assert_eq!(found, [longer.as_str(), namespace], "a dash comes before the slash after the shorter name");
    for namespace in [namespace, &longer] {
        remove(&Api::<ConfigMap>::namespaced(client.clone(), namespace), "ordered").await;
    }
    namespaces.delete(&longer, &DeleteParams::default()).await.unwrap();
}

pub(crate) async fn options_of_lists_that_exclude_each_other_are_refused(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    for name in ["o-1", "o-2"] {
        labelled(&maps, name, "options").await;
    }
    let page = get(&maps, "limit=1").await.unwrap();
    let token = page["metadata"]["continue"].as_str().unwrap();
    for (query, code, reason) in [
        ("resourceVersionMatch=Exact", 422, "Invalid"),
        ("resourceVersionMatch=Exact&resourceVersion=0", 422, "Invalid"),
        ("resourceVersionMatch=Newest&resourceVersion=1", 422, "Invalid"),
        ("sendInitialEvents=true", 422, "Invalid"),
        ("continue=TOKEN&resourceVersion=1&resourceVersionMatch=Exact", 422, "Invalid"),
        ("continue=TOKEN&resourceVersion=1", 400, "BadRequest"),
        ("continue=nonsense", 400, "BadRequest"),
        ("resourceVersion=nonsense", 400, "BadRequest"),
    ] {
        let answer = get(&maps, &query.replace("TOKEN", token)).await;
        assert_eq!(super::code(answer), refused(code, reason), "{query}");
    }
    for name in ["o-1", "o-2"] {
        remove(&maps, name).await;
    }
}

pub(crate) async fn a_list_of_the_future_is_refused(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let ahead = far_ahead(&maps).await;
    for rest in ["", "&limit=1", "&resourceVersionMatch=NotOlderThan", "&resourceVersionMatch=Exact"] {
        let answer = get(&maps, &format!("resourceVersion={ahead}{rest}")).await;
        let Err(kube::Error::Api(status)) = answer else { panic!("{rest}: {answer:?}") };
        assert_eq!((status.code, status.reason.as_str()), (504, "Timeout"), "{rest}");
        assert!(
            status.message.starts_with(&format!("Timeout: Too large resource version: {ahead}, current: ")),
            "{status:?}"
        );
        let causes = status.details.unwrap().causes;
        assert_eq!(causes[0].reason, "ResourceVersionTooLarge", "{rest}");
    }
}
