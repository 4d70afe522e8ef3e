//! How long watches live, and what the server is asked before one is resumed.

use fake_apiserver::{Reaction, Status};

use super::*;

/// Questions for the server's version so far.
fn questions(rig: &Rig) -> usize {
    let lists = rig.server.requests_of(&Matcher::of("list", "persistentvolumes"));
    lists.iter().filter(|list| list.query == "limit=1").count()
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_opened_anew_every_few_minutes() {
    let log = Log::capture();
    let rig = Rig::synced(&["pv-1"]).await;
    rig.hears(&["added pv-1 1Gi"]).await;
    tokio::time::sleep(BOUND).await;
    let (lists, watches) = rig.requests();
    assert_eq!(lists, 1);
    assert!((12..=25).contains(&watches), "{watches} in an hour");
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
    rig.server.react(Matcher::of("list", "persistentvolumes").times(3), Reaction::Refuse(forbidden));
    rig.server.drop_watches();
    tokio::time::sleep(SECOND / 2).await;
    rig.resize("pv-1", "2Gi");
    rig.hears(&["changed pv-1 1Gi 2Gi"]).await;
    assert_eq!((rig.requests(), questions(&rig)), ((1, 2), 4));
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_told_to_the_terms_and_a_refusal_is_none() {
    let rig = Rig::synced(&["pv-1"]).await;
    let ended = rig.continuity.interrupted(true);
    tokio::pin!(ended);
    rig.server.react(Matcher::any(), Reaction::Refuse(Status::forbidden("no")));
    rig.server.drop_watches();
    assert!(tokio::time::timeout(BOUND, &mut ended).await.is_err());
    rig.server.clear_reactions();
    rig.server.set_reachable(false);
    let outage = tokio::time::timeout(BOUND, ended).await.expect("an outage");
    assert_eq!(outage, crate::Interruption::Outage(MINUTE));
}
