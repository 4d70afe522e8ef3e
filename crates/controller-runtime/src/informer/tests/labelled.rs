//! A part of a collection, selected by labels.

use super::*;

fn labelled(name: &str, label: &str) -> Value {
    let mut volume = volume(name, "ours", "1Gi");
    volume["metadata"]["labels"] = json!({ "of": label });
    volume
}

/// Over a server with one volume of each label.
fn start(server: FakeApiServer) -> Rig {
    server.create_json::<PersistentVolume>(labelled("a", "me"));
    server.create_json::<PersistentVolume>(labelled("b", "you"));
    Rig::of(server, Collection::of::<PersistentVolume>().with_labels("of=me"), None)
}

#[tokio::test(start_paused = true)]
async fn only_objects_with_the_label_are_kept_whichever_way_they_come() {
    let rig = start(FakeApiServer::new());
    rig.sync().await;
    assert_eq!(rig.informer.keys(), ["a"]);
    rig.server.create_json::<PersistentVolume>(labelled("c", "me"));
    rig.server.create_json::<PersistentVolume>(labelled("d", "you"));
    rig.until("the new one", |rig| rig.informer.len() == 2).await;
    let you = json!({ "metadata": { "labels": { "of": "you" } } });
    rig.server.merge::<PersistentVolume>(None, "a", &you);
    rig.until("the one that has lost its label to go", |rig| rig.informer.len() == 1).await;
    rig.server.expire_watches();
    tokio::time::sleep(MINUTE).await;
    assert_eq!(rig.informer.keys(), ["c"], "after another list");
    let requests = rig.server.requests_of(&Matcher::any().resource("persistentvolumes"));
    let selects = |query: &str| query.contains("labelSelector=of%3Dme") || query == "limit=1";
    assert!(requests.iter().all(|request| selects(&request.query)), "{requests:?}");
}
