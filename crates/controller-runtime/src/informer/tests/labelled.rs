//! A part of a collection, selected by labels.

use super::*;

const PATH: &str = "/api/v1/persistentvolumes";

fn labelled(name: &str, label: &str) -> Value {
    let mut volume = volume(name, "ours", "1Gi");
    volume["metadata"]["labels"] = json!({ "of": label });
    volume
}

/// Over a server with one volume of each label.
fn start(server: FakeApiServer) -> Rig {
    server.create_json::<PersistentVolume>(labelled("a", "me"));
    server.create_json::<PersistentVolume>(labelled("b", "you"));
    let (informer, task) = Informer::labelled(&server.client(), PATH, "of=me", Volumes, None);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let subscription = informer.subscribe(listener(&heard));
    let task = JoinSet::from_iter([task.run()]);
    Rig { server, informer, heard, task, subscription }
}

#[tokio::test(start_paused = true)]
async fn only_objects_with_the_label_are_kept_whichever_way_they_come() {
    for streams in [true, false] {
        let server = FakeApiServer::new();
        if !streams {
            server.disable_watch_list();
        }
        let rig = start(server);
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
        assert!(requests.iter().all(|request| request.query.contains("labelSelector=of%3Dme")), "{requests:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_barrier_holds_for_a_part_in_which_nothing_happens() {
    let rig = start(FakeApiServer::new());
    rig.sync().await;
    rig.server.create_json::<PersistentVolume>(labelled("d", "you"));
    rig.write_elsewhere();
    tokio::time::timeout(2 * MINUTE, rig.informer.caught_up()).await.expect("in time").unwrap();
    rig.server.create_json::<PersistentVolume>(labelled("e", "me"));
    tokio::time::timeout(2 * MINUTE, rig.informer.caught_up()).await.expect("in time").unwrap();
    assert!(rig.informer.get(&"e".to_owned()).is_some());
}
