//! Ending in good order.

use fake_apiserver::{Reaction, Status};

use super::*;

#[tokio::test(start_paused = true)]
async fn shutdown_drains_renews_meanwhile_and_releases_last() {
    let server = FakeApiServer::new();
    let mut leader = Candidate::start_with(&server, seconds(60.0), |_| {});
    leader.journal.wait_for("term 1").await;
    let standby = Candidate::start(&server);
    pass(2.0).await;
    let before = transitions(&server);
    leader.shutdown.cancel();
    pass(59.0).await;
    assert!(leader.leads(), "work in flight may still write");
    assert!(standby.journal.lines().is_empty());
    leader.ended().await.unwrap();
    let lines = leader.journal.lines();
    assert_eq!(lines, ["term 1", "term 1 drains", "term 1 ended", "task 1 ended", "lead returned"]);

    let won = standby.journal.wait_for("term 1").await;
    assert!((62.0..62.1).contains(&won), "{won}");
    assert!(!leader.leads(), "closed before the release");
    let releases: Vec<_> = server
        .requests_of(&Matcher::of("update", "leases"))
        .into_iter()
        .filter(|request| request.body["spec"]["holderIdentity"] == "")
        .collect();
    assert_eq!(releases.len(), 1);
    let spec = &releases[0].body["spec"];
    assert_eq!((&spec["leaseDurationSeconds"], &spec["leaseTransitions"]), (&1.into(), &before.into()));
    assert_eq!(spec["acquireTime"], spec["renewTime"]);
    let said = announcements(&server);
    assert!(said.iter().any(|message| message.ends_with(" stopped leading")), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_standby_ends_at_once_and_leaves_the_lease_alone() {
    let server = FakeApiServer::new();
    server.create(&foreign_lease("go-sidecar", 15));
    let mut candidate = Candidate::start(&server);
    pass(3.0).await;
    server.clear_requests();
    candidate.shutdown.cancel();
    candidate.ended().await.unwrap();
    let ended = candidate.journal.time_of("lead returned").unwrap();
    assert!(ended < 3.01, "{ended}");
    assert!(server.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_ends_while_it_takes_the_lease_gives_it_back() {
    let server = FakeApiServer::new();
    server.react(Matcher::of("create", "leases").once(), Reaction::HangAfterWrite);
    let mut candidate = Candidate::start(&server);
    pass(1.0).await;
    assert_ne!(holder(&server), "");
    candidate.shutdown.cancel();
    candidate.ended().await.unwrap();
    assert_eq!(holder(&server), "");
    assert!(candidate.journal.lines().iter().all(|line| line != "term 1"));
}

#[tokio::test(start_paused = true)]
async fn a_lease_lost_while_draining_ends_leading() {
    let server = FakeApiServer::new();
    let mut candidate = Candidate::start_with(&server, seconds(600.0), |_| {});
    candidate.journal.wait_for("term 1").await;
    candidate.shutdown.cancel();
    pass(1.0).await;
    server.set_reachable(false);
    candidate.ended().await.unwrap();
    assert!(candidate.journal.time_of("lead returned").unwrap() < 12.0);
    assert_eq!(candidate.journal.lines(), ["term 1", "term 1 drains", "term 1 ended", "task 1 ended", "lead returned"]);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_meets_another_hands_edit_is_repeated_and_one_that_meets_a_new_holder_is_not() {
    for (edit, expected) in [
        (serde_json::json!({"metadata": {"labels": {"edited": "yes"}}}), ""),
        (serde_json::json!({"spec": {"holderIdentity": "go-sidecar"}}), "go-sidecar"),
    ] {
        let server = FakeApiServer::new();
        let mut candidate = Candidate::start(&server);
        candidate.journal.wait_for("term 1").await;
        pass(1.0).await;
        server.merge::<Lease>(NAMESPACE, LEASE, &edit);
        candidate.shutdown.cancel();
        candidate.ended().await.unwrap();
        assert_eq!(holder(&server), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_and_refused_events_do_not_keep_the_process() {
    let server = FakeApiServer::new();
    server.react(Matcher::of("create", "events"), Reaction::Refuse(Status::forbidden("no events for you")));
    let mut candidate = Candidate::start(&server);
    candidate.journal.wait_for("term 1").await;
    server.react(Matcher::of("update", "leases"), Reaction::Hang);
    candidate.shutdown.cancel();
    candidate.ended().await.unwrap();
    assert!(candidate.journal.time_of("lead returned").unwrap() < 11.1);
}
