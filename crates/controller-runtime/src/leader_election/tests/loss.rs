//! Losing the lease, and not losing it.

use fake_apiserver::{Reaction, Status};

use super::*;

#[tokio::test(start_paused = true)]
async fn without_renewals_the_gate_closes_before_another_can_take_over() {
    let server = FakeApiServer::new();
    let leader = Candidate::start(&server);
    leader.journal.wait_for("term 1").await;
    let standby = Candidate::start(&server);
    pass(12.0).await;
    // From here on the leader's writes get no answer; the other replica's do.
    let identity = holder(&server);
    server.react(Matcher::of("update", "leases").times(2), Reaction::Hang);
    let lost = leader.journal.wait_for("term 1 ended").await;
    assert!((20.0..20.1).contains(&lost), "{lost}: ten seconds after the renewal sent at 10 s");
    assert!(leader.gates.lock()[0].check().is_err());
    let taken = standby.journal.time_of("term 1");
    assert_eq!(taken, None, "the other replica waits for the whole lease duration");
    assert_eq!(holder(&server), identity);
}

#[tokio::test(start_paused = true)]
async fn a_lost_term_ends_whole_and_the_process_leads_again_later() {
    let server = FakeApiServer::new();
    let mut candidate = Candidate::start(&server);
    candidate.journal.wait_for("term 1").await;
    pass(1.0).await;
    server.set_reachable(false);
    candidate.journal.wait_for("term 1 ended").await;
    candidate.journal.wait_for("task 1 ended").await;
    assert_eq!(candidate.journal.lines(), ["term 1", "term 1 ended", "task 1 ended"]);
    pass(30.0).await;
    assert!(!candidate.leads());
    assert_eq!(candidate.metric("leader_election_master_status"), Some(0.0));
    assert!(candidate.health.check().is_ok());
    server.set_reachable(true);
    candidate.journal.wait_for("term 2").await;
    assert!(candidate.leads());
    assert_eq!(transitions(&server), 0, "the holder did not change");
    candidate.shutdown.cancel();
    candidate.ended().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_by_another_hand_is_lost_at_the_next_renewal() {
    for holder in ["go-sidecar", ""] {
        let server = FakeApiServer::new();
        let candidate = Candidate::start(&server);
        candidate.journal.wait_for("term 1").await;
        pass(1.0).await;
        server.modify(NAMESPACE, LEASE, |lease: &mut Lease| {
            lease.spec.as_mut().unwrap().holder_identity = Some(holder.to_owned());
        });
        let lost = candidate.journal.wait_for("term 1 ended").await;
        assert!(lost < 5.1, "{holder:?}: {lost}");
        assert!(candidate.metric("leader_election_slowpath_total") >= Some(1.0));
    }
}

#[tokio::test(start_paused = true)]
async fn e1_a_dead_connection_costs_one_renewal_and_not_the_lease() {
    let server = FakeApiServer::new();
    let candidate = Candidate::start(&server);
    candidate.journal.wait_for("term 1").await;
    let before = candidate.fresh_clients();
    server.react(Matcher::of("update", "leases").once(), Reaction::Hang);
    pass(60.0).await;
    assert_eq!(candidate.journal.lines(), ["term 1"]);
    assert_eq!(candidate.fresh_clients(), before + 1, "a fresh connection was made");
}

#[tokio::test(start_paused = true)]
async fn e2_slow_writes_and_bursts_of_errors_below_the_deadline_keep_the_lease() {
    let reactions = [Reaction::Delay(seconds(3.5)), Reaction::DelayAnswer(seconds(3.5)), Reaction::Delay(seconds(4.5))];
    for reaction in reactions {
        let server = FakeApiServer::new();
        let candidate = Candidate::start(&server);
        candidate.journal.wait_for("term 1").await;
        server.react(Matcher::of("update", "leases"), reaction.clone());
        pass(120.0).await;
        assert_eq!(candidate.journal.lines(), ["term 1"], "{reaction:?}");
    }
    for status in [Status::internal_error("etcd"), Status::too_many_requests(1), Status::service_unavailable()] {
        let server = FakeApiServer::new();
        let candidate = Candidate::start(&server);
        candidate.journal.wait_for("term 1").await;
        server.react(Matcher::of("update", "leases").times(4), Reaction::Refuse(status.clone()));
        pass(60.0).await;
        assert_eq!(candidate.journal.lines(), ["term 1"], "{status:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn e2_writes_slower_than_the_deadline_step_down_and_stand_by_in_the_process() {
    for latency in [9.0, 11.0, 16.0] {
        let server = FakeApiServer::new();
        let candidate = Candidate::start(&server);
        candidate.journal.wait_for("term 1").await;
        server.react(Matcher::of("update", "leases"), Reaction::Delay(seconds(latency)));
        candidate.journal.wait_for("term 1 ended").await;
        server.clear_reactions();
        candidate.journal.wait_for("term 2").await;
    }
}

#[tokio::test(start_paused = true)]
async fn lost_answers_to_renewals_are_renewals() {
    let server = FakeApiServer::new();
    let candidate = Candidate::start(&server);
    candidate.journal.wait_for("term 1").await;
    server.react(Matcher::of("update", "leases").after(1).times(6), Reaction::LoseAnswer);
    server.react(Matcher::of("update", "leases").after(12).times(1), Reaction::HangAfterWrite);
    pass(120.0).await;
    assert_eq!(candidate.journal.lines(), ["term 1"]);
}

#[tokio::test(start_paused = true)]
async fn the_leader_renews_every_retry_period_with_one_request() {
    let server = FakeApiServer::new();
    let candidate = Candidate::start(&server);
    candidate.journal.wait_for("term 1").await;
    server.clear_requests();
    pass(60.5).await;
    let requests = lease_requests(&server);
    assert_eq!(requests.len(), 12, "{requests:?}");
    assert!(requests.iter().all(|(_, verb)| verb == "update"), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_finds_its_gate_closed_when_it_wakes_up() {
    let server = FakeApiServer::new();
    let candidate = Candidate::start(&server);
    candidate.journal.wait_for("term 1").await;
    let gate = candidate.gates.lock()[0].clone();
    assert!(gate.check().is_ok());
    // The clock jumps; no task has run since.
    tokio::time::advance(seconds(10.0)).await;
    assert!(gate.check().is_err());
    candidate.journal.wait_for("task 1 ended").await;
}

/// Timers stand still with the monotonic clock: the next poll of the term finds out, at the latest when a renewal is due.
#[tokio::test(start_paused = true)]
async fn k10_a_machine_that_was_suspended_writes_nothing_and_ends_the_term_at_the_next_renewal() {
    let server = FakeApiServer::new();
    let candidate = Candidate::start(&server);
    candidate.journal.wait_for("term 1").await;
    pass(1.0).await;
    candidate.clock.set_boot_time_forward(Duration::from_mins(1));
    server.modify(NAMESPACE, LEASE, |lease: &mut Lease| {
        lease.spec.as_mut().unwrap().holder_identity = Some("go-sidecar".to_owned());
    });
    assert!(candidate.gates.lock()[0].check().is_err(), "before any timer fires");
    server.clear_requests();
    let lost = candidate.journal.wait_for("term 1 ended").await;
    assert!(lost < 5.1, "{lost}");
    assert!(server.requests_of(&Matcher::of("update", "leases")).is_empty(), "no renewal");
}

#[tokio::test(start_paused = true)]
async fn k10_a_wall_clock_set_forward_costs_a_term_and_one_set_back_nothing() {
    let server = FakeApiServer::new();
    let candidate = Candidate::start(&server);
    candidate.journal.wait_for("term 1").await;
    pass(1.0).await;
    candidate.clock.set_wall_clock_back(Duration::from_hours(1));
    pass(60.0).await;
    assert_eq!(candidate.journal.lines(), ["term 1"]);
    candidate.clock.set_wall_clock_forward(Duration::from_hours(1));
    candidate.journal.wait_for("term 2").await;
    pass(60.0).await;
    assert_eq!(candidate.journal.lines(), ["term 1", "term 1 ended", "task 1 ended", "term 2"]);
    assert_eq!(transitions(&server), 0, "the holder did not change");
}

#[tokio::test(start_paused = true)]
async fn a_task_of_the_term_that_panics_ends_leading_and_releases() {
    let server = FakeApiServer::new();
    let registry = prometheus::Registry::new();
    let election = Election {
        clients: Arc::new(server.client()),
        namespace: NAMESPACE.into(),
        lease_name: LEASE.into(),
        lock_name: LEASE.into(),
        host_name: "node-1".into(),
        lease_duration: seconds(15.0),
        renew_deadline: seconds(10.0),
        retry_period: seconds(5.0),
        labels: BTreeMap::new(),
        metrics: ElectionMetrics::register(&registry).unwrap(),
        clock: Arc::new(TestClock::new()),
    };
    let start = |term: Term| {
        term.spawn("capacity", async { panic!("out of step") });
        std::future::pending::<Result<(), String>>()
    };
    let error = lead(Some(election), continuity(), CancellationToken::new(), Health::new(), start).await.unwrap_err();
    assert!(error.to_string().contains("capacity"), "{error}");
    assert_eq!(holder(&server), "");
}

/// The others count from when they see a write, which may be long before its answer is here.
#[tokio::test(start_paused = true)]
async fn the_gate_counts_from_the_sending_of_a_write_not_from_its_answer() {
    for (verb, late, closes) in [("create", 3.0, 10.0), ("update", 2.0, 15.0)] {
        let server = FakeApiServer::new();
        server.react(Matcher::of(verb, "leases").once(), Reaction::DelayAnswer(seconds(late)));
        server.react(Matcher::of("update", "leases"), Reaction::Hang);
        let candidate = Candidate::start(&server);
        let lost = candidate.journal.wait_for("term 1 ended").await;
        assert!((closes..closes + 0.1).contains(&lost), "{verb}: {lost}");
    }
}
