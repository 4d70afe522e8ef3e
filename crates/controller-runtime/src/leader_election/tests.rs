#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod chaos;
mod draining;
mod interruptions;
mod loss;
mod standing_by;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fake_apiserver::{FakeApiServer, Matcher};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::client::ClientBuilder;
use parking_lot::Mutex;
use tokio::sync::watch as watch_channel;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;
use crate::clock::TestClock;
use crate::kube_client::Timeouts;

pub(super) const LEASE: &str = "hostpath-csi-k8s-io";
pub(super) const NAMESPACE: &str = "kube-system";
/// Longer than anything a test waits for.
pub(super) const BOUND: Duration = Duration::from_mins(10);

/// Of an API server that is never interrupted.
pub(super) fn continuity() -> Continuity {
    Continuity::new(Duration::MAX)
}

pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Clients of the fake API server, each with the limits a real one has.
pub(super) struct FakeClients {
    server: FakeApiServer,
    made: AtomicUsize,
}

impl LeaseClients for FakeClients {
    fn fresh(&self, timeout: Duration) -> Result<kube::Client, ClientError> {
        self.made.fetch_add(1, Ordering::Relaxed);
        let layer = Timeouts { limit: timeout };
        Ok(ClientBuilder::new(self.server.service(), "default").with_layer(&layer).build())
    }
}

/// What happened in a candidate's terms, with the seconds since it was started.
#[derive(Clone)]
pub(super) struct Journal {
    start: Instant,
    lines: watch_channel::Sender<Vec<(f64, String)>>,
}

impl Journal {
    fn add(&self, line: impl Into<String>) {
        let at = self.start.elapsed().as_secs_f64();
        self.lines.send_modify(|lines| lines.push((at, line.into())));
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.borrow().iter().map(|(_, line)| line.clone()).collect()
    }

    pub(super) fn time_of(&self, line: &str) -> Option<f64> {
        self.lines.borrow().iter().find(|(_, present)| present == line).map(|(at, _)| *at)
    }

    /// The time of `line` once it is there.
    pub(super) async fn wait_for(&self, line: &str) -> f64 {
        let mut lines = self.lines.subscribe();
        let found = async {
            let is_there = |lines: &Vec<(f64, String)>| lines.iter().any(|(_, present)| present == line);
            lines.wait_for(is_there).await.expect("the sender is in self");
            self.time_of(line).expect("it is there")
        };
        tokio::time::timeout(BOUND, found).await.unwrap_or_else(|_| panic!("no {line:?} in {:?}", self.lines()))
    }
}

/// Writes its line when it is dropped.
pub(super) struct OnDrop(pub(super) Journal, pub(super) String);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.add(std::mem::take(&mut self.1));
    }
}

/// One process that wants to lead.
pub(super) struct Candidate {
    pub(super) journal: Journal,
    pub(super) shutdown: CancellationToken,
    pub(super) health: Health,
    pub(super) continuity: Continuity,
    pub(super) clock: TestClock,
    pub(super) clients: Arc<FakeClients>,
    pub(super) metrics: prometheus::Registry,
    pub(super) gates: Arc<Mutex<Vec<Gate>>>,
    running: JoinSet<Result<(), LeadError<String>>>,
}

impl Candidate {
    pub(super) fn start(server: &FakeApiServer) -> Self {
        Self::start_with(server, Duration::ZERO, |_| {})
    }

    /// A candidate whose term needs `drain` to end; `change` adjusts its settings.
    pub(super) fn start_with(server: &FakeApiServer, drain: Duration, change: impl FnOnce(&mut Election)) -> Self {
        let journal = Journal { start: Instant::now(), lines: watch_channel::Sender::new(Vec::new()) };
        let shutdown = CancellationToken::new();
        let health = Health::new();
        let metrics = prometheus::Registry::new();
        let clock = TestClock::new();
        let clients = Arc::new(FakeClients { server: server.clone(), made: AtomicUsize::new(0) });
        let mut election = Election {
            clients: clients.clone(),
            namespace: NAMESPACE.into(),
            lease_name: lease_name("hostpath.csi.k8s.io"),
            lock_name: "hostpath.csi.k8s.io".into(),
            host_name: "node-1".into(),
            lease_duration: seconds(15.0),
            renew_deadline: seconds(10.0),
            retry_period: seconds(5.0),
            labels: BTreeMap::new(),
            metrics: ElectionMetrics::register(&metrics).unwrap(),
            clock: Arc::new(clock.clone()),
        };
        change(&mut election);
        let gates = Arc::<Mutex<Vec<Gate>>>::default();
        let start = {
            let (journal, gates) = (journal.clone(), gates.clone());
            move |term: Term| {
                let (journal, number) = (journal.clone(), term.number());
                gates.lock().push(term.gate().clone());
                let task = OnDrop(journal.clone(), format!("task {number} ended"));
                term.spawn("sleeper", async move {
                    std::future::pending::<()>().await;
                    drop(task);
                });
                async move {
                    journal.add(format!("term {number}"));
                    let ended = OnDrop(journal.clone(), format!("term {number} ended"));
                    term.draining().cancelled().await;
                    journal.add(format!("term {number} drains"));
                    tokio::time::sleep(drain).await;
                    drop(ended);
                    Ok::<(), String>(())
                }
            }
        };
        let mut running = JoinSet::new();
        let continuity = Continuity::new(seconds(10.0));
        running.spawn(lead(Some(election), continuity.clone(), shutdown.clone(), health.clone(), start));
        Self { journal, shutdown, health, continuity, clock, clients, metrics, gates, running }
    }

    /// The result of `lead`.
    pub(super) async fn ended(&mut self) -> Result<(), LeadError<String>> {
        let result = tokio::time::timeout(BOUND, self.running.join_next()).await.expect("lead ends");
        let result = result.unwrap().unwrap();
        self.journal.add("lead returned");
        result
    }

    /// The process dies without a word.
    pub(super) async fn kill(&mut self) {
        self.running.shutdown().await;
    }

    pub(super) fn leads(&self) -> bool {
        self.gates.lock().last().is_some_and(|gate| gate.check().is_ok())
    }

    pub(super) fn metric(&self, name: &str) -> Option<f64> {
        let family = self.metrics.gather().into_iter().find(|family| family.name() == name)?;
        let metric = family.get_metric().first()?;
        Some(metric.get_gauge().get_value() + metric.get_counter().get_value())
    }

    pub(super) fn fresh_clients(&self) -> usize {
        self.clients.made.load(Ordering::Relaxed)
    }
}

pub(super) fn lease(server: &FakeApiServer) -> Lease {
    server.get::<Lease>(NAMESPACE, LEASE).expect("the lease exists")
}

pub(super) fn holder(server: &FakeApiServer) -> String {
    lease(server).spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
}

pub(super) fn transitions(server: &FakeApiServer) -> i32 {
    lease(server).spec.and_then(|spec| spec.lease_transitions).expect("transitions are written")
}

/// A Lease written by a Go sidecar, not renewed any more.
pub(super) fn foreign_lease(holder: &str, duration_seconds: i32) -> Lease {
    serde_json::from_value(serde_json::json!({
        "metadata": {"name": LEASE, "namespace": NAMESPACE},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": duration_seconds, "leaseTransitions": 4,
            "acquireTime": "2020-01-01T00:00:00.000000Z", "renewTime": "2020-01-01T00:00:00.000000Z",
        }
    }))
    .unwrap()
}

/// Lets `seconds` pass with everything that happens in them.
pub(super) async fn pass(time: f64) {
    tokio::time::sleep(seconds(time)).await;
}

/// Messages of the events on the lease.
pub(super) fn announcements(server: &FakeApiServer) -> Vec<String> {
    server.list::<Event>().into_iter().filter_map(|event| event.message).collect()
}

pub(super) fn lease_requests(server: &FakeApiServer) -> Vec<(f64, String)> {
    let requests = server.requests();
    let start = requests.first().map_or_else(Instant::now, |request| request.at);
    server
        .requests_of(&Matcher::any().resource("leases"))
        .iter()
        .map(|request| ((request.at - start).as_secs_f64(), request.verb.to_owned()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn without_an_election_there_is_one_term_that_may_always_write() {
    let shutdown = CancellationToken::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (gates, token) = (seen.clone(), shutdown.clone());
    let start = |term: Term| {
        gates.lock().push(term.gate().clone());
        let token = token.clone();
        async move {
            tokio::time::sleep(seconds(3600.0)).await;
            term.gate().check().unwrap();
            token.cancel();
            term.draining().cancelled().await;
            Ok::<(), String>(())
        }
    };
    lead(None, continuity(), shutdown, Health::new(), start).await.unwrap();
    let gates = seen.lock();
    assert_eq!(gates.len(), 1);
    assert!(gates[0].check().is_err(), "closed with the term");
}

#[tokio::test(start_paused = true)]
async fn durations_that_cannot_work_are_an_error_before_any_request() {
    let server = FakeApiServer::new();
    let mut candidate = Candidate::start_with(&server, Duration::ZERO, |election| {
        election.renew_deadline = seconds(15.0);
    });
    let error = candidate.ended().await.unwrap_err();
    assert!(matches!(error, LeadError::Election(Error::LeaseDuration { .. })), "{error}");
    assert!(server.requests().is_empty());
}
