//! Who gets the lease, and when.

use fake_apiserver::{Reaction, Status};

use super::*;

#[tokio::test(start_paused = true)]
async fn e10_two_processes_with_one_host_name_do_not_both_lead() {
    let server = FakeApiServer::new();
    let mut one = Candidate::start(&server);
    let mut other = Candidate::start(&server);
    for _ in 0..300 {
        pass(1.0).await;
        assert!(one.leads() != other.leads(), "exactly one leads");
    }
    assert_eq!(one.journal.lines().len() + other.journal.lines().len(), 1, "one term in five minutes");
    let (leader, standby) = if one.leads() { (&mut one, &other) } else { (&mut other, &one) };
    leader.kill().await;
    standby.journal.wait_for("term 1").await;
    assert_eq!(transitions(&server), 1);
}

#[tokio::test(start_paused = true)]
async fn e10_a_lease_that_names_the_host_is_not_ours() {
    let server = FakeApiServer::new();
    server.create(&foreign_lease("node-1", 15));
    let candidate = Candidate::start(&server);
    let won = candidate.journal.wait_for("term 1").await;
    assert!(won >= 15.0, "{won}");
}

#[tokio::test(start_paused = true)]
async fn e11_the_lease_is_the_object_the_go_sidecars_write() {
    let server = FakeApiServer::new();
    let candidate = Candidate::start(&server);
    candidate.journal.wait_for("term 1").await;
    let json = server.get_json::<Lease>(NAMESPACE, LEASE).unwrap();
    assert_eq!((&json["apiVersion"], &json["kind"]), (&"coordination.k8s.io/v1".into(), &"Lease".into()));
    let spec = &json["spec"];
    assert_eq!(spec["leaseDurationSeconds"], 15);
    assert_eq!(spec["leaseTransitions"], 0);
    assert_eq!(spec["acquireTime"], spec["renewTime"]);
    assert_eq!(spec["renewTime"].as_str().unwrap().len(), "2026-11-29T19:00:00.123456Z".len());
    let identity = spec["holderIdentity"].as_str().unwrap().to_owned();
    assert!(identity.starts_with("node-1-"), "{identity}");

    let events: Vec<Event> = server.list();
    assert_eq!(events.len(), 1);
    let event = &events[0];
    assert_eq!(event.message.as_deref(), Some(&*format!("{identity} became leader")));
    assert_eq!((event.type_.as_deref(), event.reason.as_deref()), (Some("Normal"), Some("LeaderElection")));
    assert_eq!(event.metadata.namespace.as_deref(), Some(NAMESPACE));
    assert_eq!(event.source.as_ref().unwrap().component.as_deref(), Some("hostpath.csi.k8s.io/node-1"));
    assert_eq!(event.involved_object.kind.as_deref(), Some("Lease"));
    assert_eq!(event.involved_object.uid.as_deref(), json["metadata"]["uid"].as_str());
    assert_eq!(candidate.metric("leader_election_master_status"), Some(1.0));
    assert_eq!(candidate.metric("leader_election_slowpath_total"), None);
}

#[tokio::test(start_paused = true)]
async fn only_the_verbs_upstreams_roles_grant_are_used() {
    let server = FakeApiServer::new();
    let mut one = Candidate::start(&server);
    let other = Candidate::start(&server);
    one.journal.wait_for("term 1").await;
    pass(30.0).await;
    one.shutdown.cancel();
    one.ended().await.unwrap();
    other.journal.wait_for("term 1").await;
    server.delete::<Lease>(NAMESPACE, LEASE);
    pass(30.0).await;
    let allowed = ["get", "create", "update", "watch"];
    for (_, verb) in lease_requests(&server) {
        assert!(allowed.contains(&&*verb), "{verb}");
    }
}

#[tokio::test(start_paused = true)]
async fn expiry_is_counted_from_the_observation_and_by_the_records_duration() {
    for (duration, renewed) in [(15, "2001-01-01T00:00:00.000000Z"), (40, "2999-01-01T00:00:00.000000Z")] {
        let server = FakeApiServer::new();
        let mut lease = foreign_lease("go-sidecar", duration);
        lease.spec.as_mut().unwrap().renew_time = serde_json::from_value(renewed.into()).unwrap();
        server.create(&lease);
        let candidate = Candidate::start(&server);
        let won = candidate.journal.wait_for("term 1").await;
        assert!((f64::from(duration)..f64::from(duration) + 0.1).contains(&won), "{duration}: {won}");
        assert_eq!(transitions(&server), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_renews_is_left_alone_whatever_its_clock_says() {
    let server = FakeApiServer::new();
    server.create(&foreign_lease("go-sidecar", 15));
    let candidate = Candidate::start(&server);
    for second in 0..30 {
        pass(10.0).await;
        server.modify(NAMESPACE, LEASE, |lease: &mut Lease| {
            let renewed = format!("2019-01-01T00:00:{second:02}.000000Z");
            lease.spec.as_mut().unwrap().renew_time = serde_json::from_value(renewed.into()).unwrap();
        });
    }
    assert_eq!(candidate.journal.lines(), Vec::<String>::new());
    assert_eq!(candidate.metric("leader_election_master_status"), Some(0.0));
    assert!(lease_requests(&server).iter().all(|(_, verb)| verb != "update"));
}

#[tokio::test(start_paused = true)]
async fn a_release_is_noticed_at_once_through_the_watch() {
    let server = FakeApiServer::new();
    let mut leader = Candidate::start(&server);
    leader.journal.wait_for("term 1").await;
    let standby = Candidate::start(&server);
    pass(3.0).await;
    leader.shutdown.cancel();
    leader.ended().await.unwrap();
    let won = standby.journal.wait_for("term 1").await;
    assert!(won < 3.1, "{won}");
    assert_eq!(transitions(&server), 1);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_watch_is_asked_for_once_and_replaced_by_polling() {
    let server = FakeApiServer::new();
    server.react(Matcher::of("watch", "leases"), Reaction::Refuse(Status::forbidden("no")));
    let mut leader = Candidate::start(&server);
    leader.journal.wait_for("term 1").await;
    let standby = Candidate::start(&server);
    pass(62.0).await;
    assert_eq!(server.requests_of(&Matcher::of("watch", "leases")).len(), 1);
    let gets = server.requests_of(&Matcher::of("get", "leases")).len();
    assert!((6..=14).contains(&gets), "{gets} polls, each 5 to 11 s");
    leader.shutdown.cancel();
    leader.ended().await.unwrap();
    let won = standby.journal.wait_for("term 1").await;
    assert!(won <= 62.0 + 11.1, "{won}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_drops_or_hangs_does_not_blind_the_standby() {
    for hang in [false, true] {
        let server = FakeApiServer::new();
        let mut leader = Candidate::start(&server);
        leader.journal.wait_for("term 1").await;
        if hang {
            server.react(Matcher::of("watch", "leases"), Reaction::Hang);
        } else {
            server.react(Matcher::of("watch", "leases"), Reaction::BreakConnection);
        }
        let standby = Candidate::start(&server);
        pass(120.0).await;
        assert!(standby.journal.lines().is_empty(), "{hang}: the leader renews");
        let watches = server.requests_of(&Matcher::of("watch", "leases")).len();
        assert!(watches <= 30, "{hang}: {watches} watches in two minutes");
        server.clear_reactions();
        leader.shutdown.cancel();
        leader.ended().await.unwrap();
        let won = standby.journal.wait_for("term 1").await;
        assert!(won <= 120.0 + 16.0, "{hang}: {won}");
    }
}

#[tokio::test(start_paused = true)]
async fn watches_ended_by_the_server_are_opened_again() {
    let server = FakeApiServer::new();
    let mut leader = Candidate::start(&server);
    leader.journal.wait_for("term 1").await;
    let standby = Candidate::start(&server);
    pass(300.0).await;
    server.drop_watches();
    pass(20.0).await;
    server.expire_watches();
    pass(20.0).await;
    leader.shutdown.cancel();
    leader.ended().await.unwrap();
    let won = standby.journal.wait_for("term 1").await;
    assert!(won < 340.1, "{won}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_deleted_under_its_holder_is_not_free_before_the_holders_time() {
    let server = FakeApiServer::new();
    let leader = Candidate::start(&server);
    leader.journal.wait_for("term 1").await;
    let standby = Candidate::start(&server);
    pass(7.0).await;
    server.delete::<Lease>(NAMESPACE, LEASE);
    pass(60.0).await;
    assert!(standby.journal.lines().is_empty());
    assert_eq!(leader.journal.lines(), ["term 1"]);
    assert_eq!(transitions(&server), 0, "created again by the holder");
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_api_server_and_a_missing_namespace_are_waited_out() {
    let server = FakeApiServer::new();
    server.set_reachable(false);
    server.react(
        Matcher::of("create", "leases").times(3),
        Reaction::Refuse(Status::new(404, "NotFound", "namespaces \"kube-system\" not found")),
    );
    let candidate = Candidate::start(&server);
    pass(60.0).await;
    assert!(candidate.health.check().is_ok());
    server.set_reachable(true);
    candidate.journal.wait_for("term 1").await;
    assert!(candidate.fresh_clients() > 4, "a fresh connection after each failure");
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_whose_answer_is_lost_is_recognised() {
    for verb in ["create", "update"] {
        let server = FakeApiServer::new();
        if verb == "update" {
            server.create(&foreign_lease("", 1));
        }
        server.react(Matcher::of(verb, "leases").once(), Reaction::LoseAnswer);
        let candidate = Candidate::start(&server);
        let won = candidate.journal.wait_for("term 1").await;
        assert!(won <= 11.1, "{verb}: {won}, no lease duration waited out");
    }
}

#[tokio::test(start_paused = true)]
async fn labels_are_merged_at_every_write_and_all_else_is_kept() {
    let server = FakeApiServer::new();
    let mut lease = foreign_lease("", 1);
    lease.metadata.labels = Some([("kept".to_owned(), "1".to_owned()), ("team".to_owned(), "old".to_owned())].into());
    lease.metadata.annotations = Some([("note".to_owned(), "kept".to_owned())].into());
    server.create(&lease);
    let mut candidate = Candidate::start_with(&server, Duration::ZERO, |election| {
        election.labels = [("team".to_owned(), "storage".to_owned())].into();
    });
    candidate.journal.wait_for("term 1").await;
    let labels = |server: &FakeApiServer| self::lease(server).metadata.labels.unwrap();
    assert_eq!((labels(&server)["kept"].as_str(), labels(&server)["team"].as_str()), ("1", "storage"));

    server.merge::<Lease>(NAMESPACE, LEASE, &serde_json::json!({"metadata": {"labels": {"team": null, "new": "2"}}}));
    pass(6.0).await;
    assert_eq!((labels(&server)["new"].as_str(), labels(&server)["team"].as_str()), ("2", "storage"));
    assert_eq!(self::lease(&server).metadata.annotations.unwrap()["note"], "kept");
    assert_eq!(candidate.journal.lines(), ["term 1"], "an edit by another hand is no loss");

    candidate.shutdown.cancel();
    candidate.ended().await.unwrap();
    assert_eq!(labels(&server)["team"], "storage");
}
