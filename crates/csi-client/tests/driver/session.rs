//! One connection for programs on the driver's node.

use std::time::Duration;

use csi_client::{Address, CallError, CallMetrics, Code, DialError, DriverName, Session};
use csi_proto::csi::v1::{NodeGetInfoResponse, ProbeRequest, ProbeResponse};
use fake_driver::{FakeDriver, Outcome, Rpc, Step};
use prometheus::{Registry, TextEncoder};
use prost::Message as _;
use tokio::time::Instant;

use crate::client::{until, within};
use crate::raw_server::{RawServer, answer, message};

const TIMEOUT: Duration = Duration::from_secs(3);

struct Scene {
    registry: Registry,
    metrics: CallMetrics,
}

impl Scene {
    fn new() -> Self {
        let registry = Registry::new();
        let metrics = CallMetrics::register(&registry).unwrap();
        Self { registry, metrics }
    }

    async fn open(&self, path: &std::path::Path) -> Result<Session, DialError> {
        Session::open(&Address::parse(path.to_str().unwrap()).unwrap(), &self.metrics).await
    }

    async fn opened(&self, driver: &FakeDriver) -> Session {
        self.open(&driver.socket_path()).await.unwrap()
    }

    fn counted(&self, driver: &str, method: &str, code: &str) -> u64 {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        let series = format!(
            "csi_sidecar_operations_seconds_count{{driver_name=\"{driver}\",grpc_status_code=\"{code}\",method_name=\"{method}\"}} "
        );
        text.lines().find_map(|line| line.strip_prefix(&series)).map_or(0, |value| value.parse().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_asks_nothing_of_itself_and_each_call_is_counted() {
    let (scene, driver) = (Scene::new(), FakeDriver::start().await);
    let session = scene.opened(&driver).await;
    assert!(driver.calls().is_empty(), "no handshake");
    assert_eq!(session.probe(TIMEOUT).await.unwrap().ready, Some(true));
    let name = session.plugin_info(TIMEOUT).await.unwrap().name;
    scene.metrics.name_driver(&DriverName::from(name.clone()));
    session.probe(TIMEOUT).await.unwrap();
    let rpcs: Vec<_> = driver.calls().iter().map(|call| call.rpc).collect();
    assert_eq!(rpcs, [Rpc::Probe, Rpc::GetPluginInfo, Rpc::Probe]);
    assert_eq!(driver.calls()[0].authority.as_deref(), Some("localhost"));
    assert_eq!(scene.counted("unknown-driver", "/csi.v1.Identity/Probe", "OK"), 1);
    assert_eq!(scene.counted("unknown-driver", "/csi.v1.Identity/GetPluginInfo", "OK"), 1);
    assert_eq!(scene.counted(&name, "/csi.v1.Identity/Probe", "OK"), 1);
}

#[tokio::test(start_paused = true)]
async fn node_info_is_asked_of_the_node_service() {
    let scene = Scene::new();
    let server = RawServer::start(100, || async {
        let info = NodeGetInfoResponse { node_id: "node-1".into(), ..NodeGetInfoResponse::default() };
        Some(answer(&[], &message(&info.encode_to_vec())))
    });
    let session = scene.open(&server.socket_path()).await.unwrap();
    assert_eq!(session.node_info(TIMEOUT).await.unwrap().node_id, "node-1");
    assert_eq!(scene.counted("unknown-driver", "/csi.v1.Node/NodeGetInfo", "OK"), 1);
}

#[tokio::test(start_paused = true)]
async fn each_call_has_a_timeout_of_its_own_and_an_error_leaves_the_session_usable() {
    let (scene, driver) = (Scene::new(), FakeDriver::start().await);
    let session = scene.opened(&driver).await;
    driver.script(Rpc::Probe, Step::hang());
    driver.script(Rpc::Probe, Step::fail(Code::Internal, "no backend"));
    driver.script(Rpc::Probe, Step::respond(|_: &ProbeRequest| Ok(ProbeResponse { ready: None })));
    let started = Instant::now();
    let error = session.probe(TIMEOUT).await.unwrap_err();
    assert_eq!(started.elapsed().as_secs(), 3);
    assert_eq!(error.to_string(), "rpc error: code = DeadlineExceeded desc = context deadline exceeded");
    let error = session.probe(TIMEOUT).await.unwrap_err();
    assert_eq!(error.to_string(), "rpc error: code = Internal desc = no backend");
    assert_eq!(session.probe(TIMEOUT).await.unwrap().ready, None);
    assert_eq!(scene.counted("unknown-driver", "/csi.v1.Identity/Probe", "DeadlineExceeded"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_cannot_be_dialled_is_told_at_once_and_not_counted() {
    let (scene, driver) = (Scene::new(), FakeDriver::stopped());
    let started = Instant::now();
    let error = scene.open(&driver.socket_path()).await.err().unwrap();
    assert!(matches!(error, DialError::Connect { .. }), "{error:?}");
    assert!(error.to_string().contains("connect: no such file or directory"), "{error}");
    driver.start_again().await;
    driver.crash().await;
    let error = scene.open(&driver.socket_path()).await.err().unwrap();
    assert!(error.to_string().contains("connect: connection refused"), "{error}");
    assert!(started.elapsed() < Duration::from_millis(100));
    assert!(scene.registry.gather().is_empty(), "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_driver_is_seen_without_a_call() {
    let (scene, driver) = (Scene::new(), FakeDriver::start().await);
    let session = scene.opened(&driver).await;
    session.probe(TIMEOUT).await.unwrap();
    driver.script(Rpc::Probe, Step::hang());
    let (probe, ()) = tokio::join!(session.probe(TIMEOUT), async {
        driver.wait_for_calls(Rpc::Probe, 2).await;
        driver.crash().await;
    });
    assert!(matches!(probe, Err(CallError::Unanswered { code: Code::Unavailable, .. })), "{probe:?}");
    within(TIMEOUT, "end of the session", session.ended()).await;
    let error = session.probe(TIMEOUT).await.unwrap_err();
    assert!(!error.was_sent(), "{error}");
    assert_eq!(error.code(), Code::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_was_removed_or_replaced_is_not_current_although_calls_pass() {
    let (scene, driver) = (Scene::new(), FakeDriver::start().await);
    let session = scene.opened(&driver).await;
    assert!(session.socket_is_current());
    driver.remove_socket_file();
    assert!(!session.socket_is_current());
    session.probe(TIMEOUT).await.unwrap();
    driver.replace_socket().await;
    assert!(!session.socket_is_current());
    assert!(scene.opened(&driver).await.socket_is_current());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_session_abandons_its_calls_and_a_closed_one_is_gone_on_return() {
    let (scene, driver) = (Scene::new(), FakeDriver::start().await);
    driver.script_always(Rpc::Probe, Step::hang);
    let session = scene.opened(&driver).await;
    tokio::select! {
        answer = session.probe(TIMEOUT) => panic!("{answer:?}"),
        _ = driver.wait_for_calls(Rpc::Probe, 1) => {}
    }
    drop(session);
    until("abandoned call", || driver.calls()[0].outcome == Outcome::Abandoned).await;

    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    let session = scene.opened(&driver).await;
    let during = alive();
    assert!(during > before);
    session.close().await;
    until("as many tasks as before", || alive() <= before).await;
}
