//! How long watches live, and what the server is asked before one is resumed.

use fake_apiserver::{Reaction, Status};

use super::*;

/// Questions for the server's version so far.
fn questions(rig: &Rig) -> usize {
    let lists = rig.server.requests_of(&Matcher::of("list", "persistentvolumes"));
    lists.iter().filter(|list| list.query == "limit=1").count()
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_taken_for_dead_and_opened_anew() {
    let log = Log::capture();
    let rig = Rig::synced(&["pv-1"]).await;
    rig.hears(&["added pv-1 1Gi"]).await;
    tokio::time::sleep(BOUND).await;
    let (lists, watches) = rig.requests();
    assert_eq!(lists, 1);
    assert!((38..=41).contains(&watches), "one each 90 s: {watches} in an hour");
    assert!(log.with("WARN").is_empty(), "it is nothing to worry about");
    rig.resize("pv-1", "2Gi");
    rig.hears(&["changed pv-1 1Gi 2Gi"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_server_is_asked_for_its_version_before_each_resumption_and_not_after_a_list() {
    let rig = Rig::synced(&["pv-1"]).await;
    tokio::time::sleep(MINUTE).await;
    assert_eq!((rig.requests(), questions(&rig)), ((1, 1), 0));
    for resumed in 1..=3 {
        rig.server.drop_watches();
        tokio::time::sleep(10 * SECOND).await;
        assert_eq!((rig.requests(), questions(&rig)), ((1, 1 + resumed), resumed));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_not_resumed_while_the_version_cannot_be_had() {
    let rig = Rig::synced(&["pv-1"]).await;
    rig.hears(&["added pv-1 1Gi"]).await;
    let forbidden = Status::forbidden("cannot list");
    rig.server.react(Matcher::of("list", "persistentvolumes").once(), Reaction::Refuse(forbidden));
    rig.server.drop_watches();
    tokio::time::sleep(SECOND / 2).await;
    rig.resize("pv-1", "2Gi");
    rig.hears(&["changed pv-1 1Gi 2Gi"]).await;
    assert_eq!((rig.requests(), questions(&rig)), ((1, 2), 2));
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_told_to_the_terms_and_a_refusal_is_none() {
    let rig = Rig::synced(&["pv-1"]).await;
    let ended = rig.continuity.next_outage();
    tokio::pin!(ended);
    rig.server.react(Matcher::any(), Reaction::Refuse(Status::forbidden("no")));
    rig.server.drop_watches();
    assert!(tokio::time::timeout(BOUND, &mut ended).await.is_err());
    rig.server.clear_reactions();
    rig.server.set_reachable(false);
    tokio::time::sleep(2 * MINUTE).await;
    rig.server.set_reachable(true);
    let outage = tokio::time::timeout(BOUND, ended).await.expect("an outage");
    assert!(matches!(outage, crate::Interruption::Outage(time) if time >= MINUTE), "{outage}");
}

/// etcd was restored: versions are given out again, and a watch from the future would be silent.
#[tokio::test(start_paused = true)]
async fn k1_a_server_that_was_set_back_is_told_to_the_terms_and_listed_again() {
    let log = Log::capture();
    let rig = Rig::synced(&["pv-1"]).await;
    rig.hears(&["added pv-1 1Gi"]).await;
    let backup = rig.server.backup();
    for size in 2..=9 {
        rig.resize("pv-1", &format!("{size}Gi"));
    }
    rig.until("the last change", |rig| rig.size("pv-1").as_deref() == Some("9Gi")).await;
    let ended = rig.continuity.next_set_back();
    rig.server.restore(&backup);
    rig.create("pv-2", "2Gi");
    let interruption = tokio::time::timeout(10 * SECOND, ended).await.expect("soon");
    assert!(matches!(interruption, crate::Interruption::SetBack { .. }), "{interruption}");
    // A term of another lease may have the same watch: it gets what is there now, until it ends as well.
    rig.until("the new volume", |rig| rig.informer.len() == 2).await;
    assert_eq!(rig.size("pv-1").as_deref(), Some("1Gi"));
    assert_eq!(log.with("the API server has version 2 after 9 was seen").len(), 1, "{:?}", log.with(""));
}

/// The same where no watch has to be resumed: it is found before the next list.
#[tokio::test(start_paused = true)]
async fn k1_no_list_of_a_server_that_was_set_back_reaches_a_term_that_has_seen_more() {
    let rig = Rig::synced(&["pv-1"]).await;
    let backup = rig.server.backup();
    for size in 2..=9 {
        rig.resize("pv-1", &format!("{size}Gi"));
    }
    rig.server.drop_watches();
    tokio::time::sleep(10 * SECOND).await;
    let ended = rig.continuity.next_set_back();
    rig.server.expire_watches();
    rig.server.restore(&backup);
    let interruption = tokio::time::timeout(MINUTE, ended).await.expect("soon");
    assert!(matches!(interruption, crate::Interruption::SetBack { .. }), "{interruption}");
    assert_eq!(rig.size("pv-1").as_deref(), Some("9Gi"), "the set-back was told first");
}

/// Of a proxy that lets lists through and no watches, or a role without the verb.
#[tokio::test(start_paused = true)]
async fn k2_a_collection_whose_watch_is_refused_is_listed_over_and_over() {
    for refusal in [Status::new(502, "", "no"), Status::forbidden("no"), Status::internal_error("no")] {
        let rig = Rig::synced(&["pv-1"]).await;
        rig.hears(&["added pv-1 1Gi"]).await;
        rig.server.react(Matcher::of("watch", "persistentvolumes"), Reaction::Refuse(refusal));
        rig.server.drop_watches();
        tokio::time::sleep(MINUTE).await;
        rig.resize("pv-1", "2Gi");
        let start = tokio::time::Instant::now();
        rig.hears(&["changed pv-1 1Gi 2Gi"]).await;
        assert!(start.elapsed() < 3 * MINUTE, "{:?}", start.elapsed());
    }
}
