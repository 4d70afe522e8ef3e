//! `caught_up`: nothing that had happened before the call is missing after it.

use fake_apiserver::{Reaction, Status};

use super::*;

async fn caught_up(rig: &Rig) {
    tokio::time::timeout(BOUND, rig.informer.caught_up()).await.expect("within the bound").unwrap();
}

/// The same as a task, to see when it ends.
fn in_background(rig: &Rig) -> JoinSet<Result<(), Error>> {
    let informer = rig.informer.clone();
    JoinSet::from_iter([async move { informer.caught_up().await }])
}

#[tokio::test(start_paused = true)]
async fn a_current_cache_is_not_listed_again() {
    let rig = Rig::synced(&["pv-1"]).await;
    caught_up(&rig).await;
    assert_eq!(rig.requests(), (1, 1, 0), "one list for the version, one watch");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_cache_behind_the_server_is_listed_again_in_place() {
    for watch_list in [true, false] {
        let server = FakeApiServer::new();
        if !watch_list {
            server.disable_watch_list();
        }
        server.create_json::<PersistentVolume>(volume("pv-1", "ours", "1Gi"));
        let rig = Rig::over(server, None);
        rig.hears(&["added pv-1 1Gi"]).await;
        let before = rig.requests();
        rig.write_elsewhere();
        let start = tokio::time::Instant::now();
        caught_up(&rig).await;
        assert!(start.elapsed() < SECOND, "no bookmark was waited for: {:?}", start.elapsed());
        rig.hears(&[]).await;
        let after = rig.requests();
        if watch_list {
            assert_eq!(after, (before.0 + 1, before.1 + 1, before.2));
        } else {
            assert_eq!((after.0, after.1), (before.0 + 2, before.1));
        }
        rig.resize("pv-1", "2Gi");
        rig.hears(&["changed pv-1 1Gi 2Gi"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_moves_the_cache_on() {
    let rig = Rig::synced(&["pv-1"]).await;
    rig.write_elsewhere();
    rig.server.send_bookmarks();
    tokio::time::sleep(SECOND).await;
    caught_up(&rig).await;
    assert_eq!(rig.requests(), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_event_moves_the_cache_on_even_of_a_foreign_object() {
    let rig = Rig::synced(&["pv-foreign"]).await;
    rig.resize("pv-foreign", "2Gi");
    tokio::time::sleep(SECOND).await;
    caught_up(&rig).await;
    assert_eq!(rig.requests(), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_barrier_holds_until_changes_during_an_outage_have_been_delivered() {
    let rig = Rig::synced(&["pv-1", "pv-2"]).await;
    rig.hears(&["added pv-1 1Gi", "added pv-2 1Gi"]).await;
    rig.server.react(Matcher::of("watch", "persistentvolumes"), Reaction::Refuse(Status::service_unavailable()));
    rig.server.break_watches();
    tokio::time::sleep(SECOND).await;
    rig.delete("pv-1");
    rig.resize("pv-2", "2Gi");
    let mut barrier = in_background(&rig);
    tokio::time::sleep(10 * MINUTE).await;
    assert!(barrier.try_join_next().is_none(), "the cache cannot know of the deletion yet");
    rig.server.clear_reactions();
    tokio::time::timeout(BOUND, barrier.join_next()).await.unwrap().unwrap().unwrap().unwrap();
    assert_eq!(rig.informer.keys(), ["pv-2"]);
    rig.hears(&["deleted pv-1 1Gi", "changed pv-2 1Gi 2Gi"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_barrier_waits_for_the_first_list_and_for_a_server_that_is_down() {
    let server = FakeApiServer::new();
    server.set_reachable(false);
    let log = Log::capture();
    let rig = Rig::over(server, None);
    let mut barrier = in_background(&rig);
    tokio::time::sleep(10 * MINUTE).await;
    assert!(barrier.try_join_next().is_none());
    assert_eq!(log.with("no work is done before its current version is known").len(), 1);
    rig.create("pv-1", "1Gi");
    rig.server.set_reachable(true);
    tokio::time::timeout(BOUND, barrier.join_next()).await.unwrap().unwrap().unwrap().unwrap();
    assert_eq!(rig.size("pv-1").as_deref(), Some("1Gi"));
}

/// As after an outage in which the connections of the client have died without a word.
#[tokio::test(start_paused = true)]
async fn the_barrier_asks_again_soon_when_its_question_is_not_answered() {
    let rig = Rig::synced(&["pv-1"]).await;
    rig.server.react(Matcher::of("list", "persistentvolumes").times(2), Reaction::Hang);
    let before = tokio::time::Instant::now();
    caught_up(&rig).await;
    assert!(before.elapsed() < 15 * SECOND, "after {:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_list_that_begins_after_the_call_is_enough() {
    for watch_list in [true, false] {
        let server = FakeApiServer::new();
        if !watch_list {
            server.disable_watch_list();
        }
        let (informer, task) = Informer::new(Api::all(server.client()), Volumes, None);
        let other = informer.clone();
        let mut barrier = JoinSet::from_iter([async move { other.caught_up().await }]);
        tokio::time::sleep(MINUTE).await;
        assert!(barrier.try_join_next().is_none(), "nothing is known before the task runs");
        server.create_json::<PersistentVolume>(volume("pv-1", "ours", "1Gi"));
        let mut running = JoinSet::from_iter([task.run()]);
        tokio::time::timeout(BOUND, barrier.join_next()).await.unwrap().unwrap().unwrap().unwrap();
        assert_eq!(informer.keys(), ["pv-1"]);
        let lists = server.requests().iter().filter(|request| request.verb == "list").count();
        assert_eq!(lists, usize::from(!watch_list), "no list but the first one");
        running.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn several_barriers_share_one_list() {
    let rig = Rig::synced(&["pv-1"]).await;
    rig.write_elsewhere();
    let mut barriers: Vec<_> = (0..5).map(|_| in_background(&rig)).collect();
    for barrier in &mut barriers {
        tokio::time::timeout(BOUND, barrier.join_next()).await.unwrap().unwrap().unwrap().unwrap();
    }
    let (_, initial, watches) = rig.requests();
    assert!(initial <= 3 && watches == 0, "{initial} watch-lists");
}

#[tokio::test(start_paused = true)]
async fn the_barrier_of_an_informer_without_task_fails() {
    let mut rig = Rig::synced(&[]).await;
    rig.write_elsewhere();
    rig.task.shutdown().await;
    let error = tokio::time::timeout(BOUND, rig.informer.caught_up()).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("persistentvolumes"), "{error}");

    rig.server.set_reachable(false);
    let error = tokio::time::timeout(BOUND, rig.informer.caught_up()).await.unwrap();
    assert!(error.is_err(), "also while the server cannot be asked");
}
