//! The handshake of the first connection.

use std::time::Duration;

use csi_client::{Code, Error, Handshake};
use csi_proto::csi::v1::controller_service_capability::rpc::Type as Controller;
use csi_proto::csi::v1::plugin_capability::service::Type as Plugin;
use csi_proto::csi::v1::{NodeGetInfoResponse, Topology};
use fake_driver::{FakeDriver, Rpc, Step};
use tokio::time::Instant;

use crate::client::{Client, TIMEOUT};

/// One scripted answer to Probe.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Ready,
    ReadyAbsent,
    Unready,
    Timeout,
    Fails,
}

impl Answer {
    fn step(self) -> Step {
        use csi_proto::csi::v1::{ProbeRequest, ProbeResponse};
        let ready = |ready| Step::respond(move |_: &ProbeRequest| Ok(ProbeResponse { ready }));
        match self {
            Self::Ready => ready(Some(true)),
            Self::ReadyAbsent => ready(None),
            Self::Unready => ready(Some(false)),
            Self::Timeout => Step::hang(),
            Self::Fails => Step::fail(Code::Unavailable, "no backend"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn probe_is_repeated_until_ready_and_only_for_unready_or_a_timeout() {
    use Answer::{Fails, Ready, ReadyAbsent, Timeout, Unready};
    let table: &[(&[Answer], bool)] = &[
        (&[Ready], true),
        (&[ReadyAbsent], true),
        (&[Fails], false),
        (&[Timeout, Fails], false),
        (&[Timeout, Timeout, Ready], true),
        (&[Unready, Fails], false),
        (&[Unready, Unready, Ready], true),
    ];
    assert_eq!(table.len(), 7);
    for (answers, becomes_ready) in table {
        let driver = FakeDriver::start().await;
        answers.iter().for_each(|answer| driver.script(Rpc::Probe, answer.step()));
        let mut client = Client::with(&driver.socket_path(), Handshake::Probe);
        if *becomes_ready {
            client.ready_within(TIMEOUT * 4).await;
        } else {
            let error = client.end_within(TIMEOUT * 4).await;
            assert!(matches!(error, Error::ProbeFailed { .. }), "{answers:?}: {error}");
            let text = error.to_string();
            assert!(
                text.starts_with("CSI driver probe failed: rpc error: code = Unavailable desc = no backend"),
                "{text}"
            );
            assert!(text.contains(&driver.address()), "{text}");
        }
        assert_eq!(driver.calls_of(Rpc::Probe).len(), answers.len(), "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn probe_is_repeated_every_second() {
    let driver = FakeDriver::start().await;
    (0..3).for_each(|_| driver.script(Rpc::Probe, Answer::Unready.step()));
    let started = Instant::now();
    let client = Client::with(&driver.socket_path(), Handshake::Probe);
    client.ready_within(Duration::from_secs(5)).await;
    let at: Vec<_> = driver.calls_of(Rpc::Probe).iter().map(|call| (call.started - started).as_millis()).collect();
    assert_eq!(at, [0, 1000, 2000, 3000]);
}

#[tokio::test(start_paused = true)]
async fn a_ready_driver_has_its_name_and_capabilities() {
    let driver = FakeDriver::start().await;
    driver.configure(|identity| identity.controller_capabilities.push(Controller::PublishUnpublishVolume));
    let client = Client::start(&driver.socket_path());
    let info = client.ready_within(Duration::from_secs(1)).await;
    assert_eq!(info.name.to_string(), "fake.csi.example.com");
    assert!(info.plugin.has(Plugin::ControllerService));
    assert!(!info.plugin.has(Plugin::VolumeAccessibilityConstraints));
    assert!(
        info.controller.has(Controller::CreateDeleteVolume) && info.controller.has(Controller::PublishUnpublishVolume)
    );
    assert!(!info.controller.has(Controller::CloneVolume));
    assert_eq!(client.driver.waiting_for(), None);
    let asked: Vec<_> = driver.calls().iter().map(|call| call.rpc).collect();
    assert_eq!(asked, [Rpc::Probe, Rpc::GetPluginInfo, Rpc::GetPluginCapabilities, Rpc::ControllerGetCapabilities]);
    assert!(driver.calls().iter().all(|call| call.authority.as_deref() == Some("localhost")));
}

#[tokio::test(start_paused = true)]
async fn a_name_is_taken_as_the_driver_gives_it() {
    let driver = FakeDriver::start().await;
    driver.configure(|identity| identity.name = "csi/example".to_owned());
    let client = Client::with(&driver.socket_path(), Handshake::Name);
    assert_eq!(client.ready_within(Duration::from_secs(1)).await.name.to_string(), "csi/example");
}

#[tokio::test(start_paused = true)]
async fn a_first_connection_without_name_or_capabilities_ends_the_process() {
    let fail = || Step::fail(Code::Internal, "broken");
    let table = [
        (Rpc::GetPluginInfo, "did not tell its name: rpc error: code = Internal desc = broken"),
        (Rpc::GetPluginCapabilities, "did not tell its capabilities: rpc error: code = Internal desc = broken"),
        (Rpc::ControllerGetCapabilities, "did not tell its capabilities: rpc error: code = Internal desc = broken"),
    ];
    assert_eq!(table.len(), 3);
    for (rpc, text) in table {
        let driver = FakeDriver::start().await;
        driver.script(rpc, fail());
        let error = Client::start(&driver.socket_path()).end_within(Duration::from_secs(1)).await;
        assert!(matches!(error, Error::NoName { .. } | Error::NoCapabilities { .. }));
        assert!(error.to_string().contains(text), "{error}");
    }
    let driver = FakeDriver::start().await;
    driver.configure(|identity| identity.name.clear());
    let error = Client::start(&driver.socket_path()).end_within(Duration::from_secs(1)).await;
    assert!(matches!(error, Error::EmptyName { .. }));
    assert!(error.to_string().contains("driver name is empty"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_controller_of_a_node_asks_where_the_node_is() {
    let segments = || [("zone".to_owned(), "z1".to_owned())].into();
    for topology in [Some(Topology { segments: segments() }), None] {
        let driver = FakeDriver::start().await;
        let node = NodeGetInfoResponse { accessible_topology: topology.clone(), ..NodeGetInfoResponse::default() };
        driver.configure(|identity| identity.node = Some(node));
        let client = Client::with(&driver.socket_path(), Handshake::ControllerOfNode);
        let info = client.ready_within(Duration::from_secs(1)).await;
        assert_eq!(info.node_topology, topology.map(|topology| topology.segments));
        assert!(info.controller.has(Controller::CreateDeleteVolume));
        assert_eq!(driver.calls().last().map(|call| call.rpc), Some(Rpc::NodeGetInfo));
    }
    let driver = FakeDriver::start().await;
    let client = Client::start(&driver.socket_path());
    client.ready_within(Duration::from_secs(1)).await;
    assert_eq!(driver.calls_of(Rpc::NodeGetInfo).len(), 0, "others do not ask");
}

#[tokio::test(start_paused = true)]
async fn a_driver_without_node_service_or_one_that_moves_ends_the_controller_of_a_node() {
    let driver = FakeDriver::start().await;
    driver.configure(|identity| identity.node = None);
    let mut client = Client::with(&driver.socket_path(), Handshake::ControllerOfNode);
    let error = client.end_within(Duration::from_secs(1)).await;
    assert!(matches!(error, Error::NoNodeInfo { .. }) && error.to_string().contains("NodeGetInfo"), "{error}");

    let driver = FakeDriver::start().await;
    let mut client = Client::with(&driver.socket_path(), Handshake::ControllerOfNode);
    client.ready_within(Duration::from_secs(1)).await;
    driver.stop().await;
    let moved = Topology { segments: [("zone".to_owned(), "z2".to_owned())].into() };
    driver.configure(|identity| {
        identity.node =
            Some(NodeGetInfoResponse { accessible_topology: Some(moved), ..NodeGetInfoResponse::default() });
    });
    driver.start_again().await;
    let error = client.end_within(Duration::from_secs(5)).await;
    assert!(error.to_string().contains("was not given, is [zone=z2]"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_dies_during_the_first_handshake_is_dialled_again() {
    for rpc in [Rpc::Probe, Rpc::GetPluginInfo, Rpc::ControllerGetCapabilities] {
        let driver = FakeDriver::start().await;
        driver.script(rpc, Step::hang());
        let client = Client::start(&driver.socket_path());
        driver.wait_for_calls(rpc, 1).await;
        driver.crash().await;
        driver.start_again().await;
        client.ready_within(Duration::from_secs(2)).await;
    }
}
