//! Terms end when what they have learnt does not hold any more.

use super::*;

/// A process without a lease that leads from now on; says when each term began, after the test did.
fn lead_alone(continuity: &Continuity, running: &mut JoinSet<()>) -> Arc<Mutex<Vec<f64>>> {
    let (begun, journal) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let terms = Arc::clone(&journal);
    let leading = lead(None, continuity.clone(), CancellationToken::new(), Health::new(), move |term| {
        terms.lock().push(begun.elapsed().as_secs_f64());
        async move {
            term.draining().cancelled().await;
            term.gate().check().unwrap();
            tokio::time::sleep(seconds(1.0)).await;
            Ok::<(), String>(())
        }
    });
    running.spawn(async move { leading.await.unwrap() });
    journal
}

#[tokio::test(start_paused = true)]
async fn k1_without_a_lease_a_set_back_or_a_long_outage_begins_another_term() {
    let (continuity, mut running) = (Continuity::new(seconds(10.0)), JoinSet::new());
    let terms = lead_alone(&continuity, &mut running);
    pass(5.0).await;
    continuity.reached();
    continuity.report_set_back(7, 3);
    pass(5.0).await;
    assert_eq!(*terms.lock(), [0.0, 5.0]);
    continuity.reached();
    continuity.missed();
    pass(60.0).await;
    assert_eq!(*terms.lock(), [0.0, 5.0], "nobody could write what it knows");
    continuity.reached();
    pass(60.0).await;
    assert_eq!(*terms.lock(), [0.0, 5.0, 71.0], "after the second has drained");
}

#[tokio::test(start_paused = true)]
async fn k1_with_a_lease_a_set_back_begins_another_term_and_an_outage_is_the_leases_affair() {
    let server = FakeApiServer::new();
    let candidate = Candidate::start(&server);
    let continuity = &candidate.continuity;
    candidate.journal.wait_for("term 1").await;
    continuity.reached();
    continuity.missed();
    pass(60.0).await;
    continuity.reached();
    pass(1.0).await;
    assert_eq!(candidate.journal.time_of("term 1 ended"), None);
    continuity.report_set_back(7, 3);
    candidate.journal.wait_for("term 1 ended").await;
    assert!(candidate.gates.lock()[0].check().is_err(), "nothing of the first term may write");
    let again = candidate.journal.wait_for("term 2").await;
    assert!((61.0..62.0).contains(&again), "{again}: the lease is still its own");
}
