//! Outages, lost positions and refusals.

use fake_apiserver::{Reaction, Status};

use super::*;

fn watches() -> Matcher {
    Matcher::of("watch", "persistentvolumes")
}

fn lists() -> Matcher {
    Matcher::of("list", "persistentvolumes")
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_where_it_was() {
    let rig = Rig::synced(&["pv-1"]).await;
    rig.hears(&["added pv-1 1Gi"]).await;
    for end in [FakeApiServer::drop_watches, FakeApiServer::break_watches] {
        tokio::time::sleep(MINUTE).await;
        end(&rig.server);
        rig.resize("pv-1", "2Gi");
        rig.hears(&["changed pv-1 1Gi 2Gi"]).await;
        rig.resize("pv-1", "1Gi");
        rig.hears(&["changed pv-1 2Gi 1Gi"]).await;
    }
    assert_eq!(rig.requests().0, 1, "no second list");
}

#[tokio::test(start_paused = true)]
async fn what_an_outage_hid_is_delivered_by_the_next_list() {
    let rig = Rig::synced(&["pv-1", "pv-2", "pv-3"]).await;
    rig.hears(&["added pv-1 1Gi", "added pv-2 1Gi", "added pv-3 1Gi"]).await;
    let untouched = rig.informer.get(&"pv-3".to_owned()).unwrap();

    rig.go_down().await;
    tokio::time::sleep(10 * MINUTE).await;
    rig.delete("pv-1");
    rig.resize("pv-2", "2Gi");
    rig.create("pv-4", "4Gi");
    rig.server.compact();
    assert_eq!(rig.informer.len(), 3, "the cache is kept during the outage");
    rig.server.set_reachable(true);

    rig.hears(&["deleted pv-1 1Gi", "changed pv-2 1Gi 2Gi", "added pv-4 4Gi"]).await;
    assert!(rig.informer.in_group(&"fast".to_owned()).len() == 3);
    let after = rig.informer.get(&"pv-3".to_owned()).unwrap();
    assert!(Arc::ptr_eq(&untouched, &after), "an unchanged object keeps its record");
}

#[tokio::test(start_paused = true)]
async fn an_object_made_foreign_during_an_outage_is_delivered_as_deleted() {
    let rig = Rig::synced(&["pv-1"]).await;
    rig.hears(&["added pv-1 1Gi"]).await;
    rig.go_down().await;
    rig.server.merge::<PersistentVolume>(None, "pv-1", &json!({ "spec": { "csi": { "driver": "theirs" } } }));
    rig.server.compact();
    rig.server.set_reachable(true);
    rig.hears(&["deleted pv-1 1Gi"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_position_that_expired_during_the_watch_is_listed_again_soon() {
    let rig = Rig::synced(&["pv-1"]).await;
    rig.hears(&["added pv-1 1Gi"]).await;
    tokio::time::sleep(MINUTE).await;
    let start = tokio::time::Instant::now();
    rig.server.expire_watches();
    rig.resize("pv-1", "2Gi");
    rig.hears(&["changed pv-1 1Gi 2Gi"]).await;
    rig.until("the second list", |rig| rig.requests().0 == 2).await;
    assert!(start.elapsed() < 2 * SECOND, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_list_broken_off_deletes_nothing_and_is_made_again() {
    let server = FakeApiServer::new();
    for number in 0..600 {
        server.create_json::<PersistentVolume>(volume(&format!("pv-{number}"), "ours", "1Gi"));
    }
    let rig = Rig::over(server, None);
    rig.sync().await;
    assert_eq!(rig.informer.len(), 600);
    std::mem::take(&mut *rig.heard.lock());

    // The second page of the next list fails.
    rig.server.react(lists().after(1).once(), Reaction::BreakConnection);
    rig.delete("pv-599");
    rig.server.compact();
    tokio::time::sleep(MINUTE).await;
    std::mem::take(&mut *rig.heard.lock());
    rig.delete("pv-598");
    rig.server.expire_watches();
    rig.hears(&["deleted pv-598 1Gi"]).await;
    assert_eq!(rig.informer.len(), 598);
}

#[tokio::test(start_paused = true)]
async fn a20_the_informer_never_gives_up_and_does_not_hammer() {
    let rig = Rig::over(FakeApiServer::new(), None);
    rig.sync().await;
    let log = Log::capture();
    rig.server.react(Matcher::any(), Reaction::Refuse(Status::internal_error("etcd is gone")));
    rig.server.drop_watches();
    tokio::time::sleep(Duration::from_hours(72)).await;
    let attempts = rig.server.requests().len();
    // One each 30 to 60 s.
    assert!((4_300..=8_700).contains(&attempts), "{attempts} attempts in three days");
    assert_eq!(log.with("cannot watch").len(), 1, "{:?}", log.with(""));

    rig.server.clear_reactions();
    rig.create("pv-1", "1Gi");
    let start = tokio::time::Instant::now();
    rig.hears(&["added pv-1 1Gi"]).await;
    assert!(start.elapsed() <= 61 * SECOND, "{:?}", start.elapsed());
    rig.until("the end of the trouble", |_| !log.with("persistentvolumes can be watched again").is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_retries_come_soon() {
    let rig = Rig::over(FakeApiServer::new(), None);
    rig.sync().await;
    rig.server.set_reachable(false);
    tokio::time::sleep(SECOND * 2).await;
    rig.server.set_reachable(true);
    rig.create("pv-1", "1Gi");
    let start = tokio::time::Instant::now();
    rig.hears(&["added pv-1 1Gi"]).await;
    assert!(start.elapsed() < 4 * SECOND, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn missing_permissions_are_named_once_and_waited_for() {
    let log = Log::capture();
    let server = FakeApiServer::new();
    let message = "User \"x\" cannot list resource \"persistentvolumes\" in API group \"\" at the cluster scope";
    server.react(Matcher::any(), Reaction::Refuse(Status::forbidden(message)));
    let rig = Rig::over(server, None);
    tokio::time::sleep(10 * MINUTE).await;
    let said = log.with("cannot list persistentvolumes");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("WARN")
            && said[0].contains(message)
            && said[0].contains("verbs list and watch on persistentvolumes"),
        "{said:?}"
    );

    rig.server.clear_reactions();
    rig.sync().await;
}

#[tokio::test(start_paused = true)]
async fn a_role_without_watch_still_fills_the_cache() {
    let log = Log::capture();
    let server = FakeApiServer::new();
    server.create_json::<PersistentVolume>(volume("pv-1", "ours", "1Gi"));
    server.react(watches(), Reaction::Refuse(Status::forbidden("cannot watch")));
    let rig = Rig::over(server, None);
    rig.sync().await;
    rig.hears(&["added pv-1 1Gi"]).await;
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(log.with("needs the verbs list and watch on persistentvolumes").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_every_position_is_not_listed_in_a_loop() {
    let server = FakeApiServer::new();
    server.react(watches(), Reaction::Refuse(Status::new(410, "Expired", "too old")));
    let rig = Rig::over(server, None);
    tokio::time::sleep(BOUND).await;
    let (lists, _) = rig.requests();
    assert!((60..200).contains(&lists), "{lists} lists in an hour");
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_not_opened_in_a_loop() {
    let rig = Rig::synced(&["pv-1"]).await;
    rig.server.clear_requests();
    let start = tokio::time::Instant::now();
    while start.elapsed() < 10 * MINUTE {
        rig.server.drop_watches();
        tokio::time::sleep(SECOND / 100).await;
    }
    let (lists, watches) = rig.requests();
    assert_eq!(lists, 0);
    assert!(watches < 40, "{watches} watches in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_server_is_left_alone_for_as_long_as_it_asks() {
    let header_alone = Status::new(429, "", "Too many requests, please try again later.").with_retry_after(20);
    for refusal in [Status::too_many_requests(20), header_alone] {
        let rig = Rig::synced(&["pv-1"]).await;
        rig.hears(&["added pv-1 1Gi"]).await;
        rig.server.react(watches().once(), Reaction::Refuse(refusal.clone()));
        let start = tokio::time::Instant::now();
        rig.server.drop_watches();
        tokio::time::sleep(SECOND).await;
        rig.resize("pv-1", "2Gi");
        rig.hears(&["changed pv-1 1Gi 2Gi"]).await;
        // Up to a quarter more than asked, after the backoff of a watch that ended at once.
        assert!((20..28).contains(&start.elapsed().as_secs()), "{refusal:?}: {:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_page_broken_off_deletes_nothing_and_is_asked_for_again() {
    let rig = Rig::synced(&["pv-1", "pv-2", "pv-3"]).await;
    rig.hears(&["added pv-1 1Gi", "added pv-2 1Gi", "added pv-3 1Gi"]).await;
    rig.delete("pv-3");
    rig.hears(&["deleted pv-3 1Gi"]).await;
    rig.server.react(lists().times(2), Reaction::BreakConnection);
    rig.server.expire_watches();
    rig.resize("pv-2", "2Gi");
    rig.hears(&["changed pv-2 1Gi 2Gi"]).await;
    assert_eq!(rig.informer.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_gets_no_answer_is_made_again() {
    let server = FakeApiServer::new();
    server.create_json::<PersistentVolume>(volume("pv-1", "ours", "1Gi"));
    server.react(lists().once(), Reaction::Hang);
    let rig = Rig::over(server, None);
    rig.sync().await;
    rig.hears(&["added pv-1 1Gi"]).await;
}
