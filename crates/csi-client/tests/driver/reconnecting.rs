//! The driver goes away, comes back, moves, or is another one.

use std::time::Duration;

use csi_client::{CallError, Code, Error, Handshake, Meaning, Rpc as ControllerRpc, meaning};
use csi_proto::csi::v1::controller_service_capability::rpc::Type as Controller;
use csi_proto::csi::v1::node_service_capability::rpc::Type as NodeRpc;
use csi_proto::csi::v1::plugin_capability::service::Type as Plugin;
use csi_proto::csi::v1::{
    NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse, NodeServiceCapability, node_service_capability,
};
use fake_driver::{FakeDriver, Identity, Outcome, Release, Rpc, Step};
use tokio::time::{Instant, sleep, timeout};

use crate::client::{Client, TIMEOUT, connected, until, volume, within};
use crate::logs::Logs;

#[tokio::test(start_paused = true)]
async fn e5_a_connection_idle_for_31_minutes_is_kept() {
    let (driver, client) = connected().await;
    sleep(Duration::from_mins(31)).await;
    client.controller().create_volume(volume("pvc-1")).await.unwrap();
    assert_eq!(driver.calls_of(Rpc::Probe).len(), 1, "a second connection was made");
}

#[tokio::test(start_paused = true)]
async fn e5_a_restarted_driver_is_probed_again_and_calls_pass_again() {
    let logs = Logs::capture();
    let (driver, client) = connected().await;
    for restart in 1..=3 {
        driver.stop().await;
        until("notice of the loss", || client.driver.waiting_for().is_some()).await;
        sleep(Duration::from_secs(30)).await;
        driver.start_again().await;
        let name = format!("pvc-{restart}");
        within(Duration::from_secs(2), "call", client.controller().create_volume(volume(&name))).await.unwrap();
        let calls: Vec<_> = driver.calls().iter().map(|call| call.rpc).collect();
        let since = &calls[calls.len() - 5..];
        assert_eq!(since[..2], [Rpc::Probe, Rpc::GetPluginInfo], "asked before the call passed");
        assert_eq!(since[4], Rpc::CreateVolume);
    }
    assert_eq!(logs.lines_with("Lost the connection to the CSI driver").len(), 3);
    assert_eq!(logs.lines_with("Connected to the CSI driver").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_noticed_at_once_without_a_call() {
    let (driver, client) = connected().await;
    let before = Instant::now();
    driver.crash().await;
    until("notice of the loss", || client.driver.waiting_for().is_some()).await;
    assert!(before.elapsed() < Duration::from_millis(100), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_call_in_flight_when_the_connection_drops_ends_as_unavailable_and_uncertain() {
    let (driver, client) = connected().await;
    driver.script(Rpc::CreateVolume, Step::hang());
    let controller = client.controller();
    let calling = controller.clone();
    let call = tokio::spawn(async move { calling.create_volume(volume("pvc-1")).await });
    driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    assert_eq!(controller.in_flight(), 1);
    driver.crash().await;
    let error = within(Duration::from_secs(1), "end of the call", call).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "rpc error: code = Unavailable desc = error reading from server: EOF");
    assert!(error.was_sent());
    assert_eq!(meaning(ControllerRpc::CreateVolume, &error), Meaning::Uncertain);
    assert_eq!(controller.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_made_while_the_driver_is_away_waits_and_passes_on_the_next_connection() {
    let (driver, client) = connected().await;
    driver.stop().await;
    let controller = client.controller();
    let call = tokio::spawn(async move { controller.create_volume(volume("pvc-1")).await });
    sleep(Duration::from_secs(10)).await;
    driver.start_again().await;
    within(Duration::from_secs(2), "call", call).await.unwrap().unwrap();
    assert_eq!(driver.calls_of(Rpc::CreateVolume).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn e5_a_replaced_socket_gets_the_new_calls_and_the_old_one_finishes_its_own() {
    let (driver, client) = connected().await;
    let release = Release::new();
    driver.script(Rpc::CreateVolume, Step::answer().held_by(&release));
    let controller = client.controller();
    let calling = controller.clone();
    let call = tokio::spawn(async move { calling.create_volume(volume("pvc-old")).await });
    driver.wait_for_calls(Rpc::CreateVolume, 1).await;

    driver.replace_socket().await;
    driver.wait_for_ended_calls(Rpc::ControllerGetCapabilities, 2).await;
    within(Duration::from_secs(1), "call on the new socket", controller.create_volume(volume("pvc-new")))
        .await
        .unwrap();
    assert_eq!(controller.in_flight(), 1);
    release.release();
    within(Duration::from_secs(1), "call on the old socket", call).await.unwrap().unwrap();
    assert_eq!(driver.calls_of(Rpc::Probe).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_new_socket_that_is_not_ready_leaves_calls_on_the_old_one() {
    let (driver, client) = connected().await;
    driver.configure(|identity| identity.ready = Some(false));
    driver.replace_socket().await;
    driver.wait_for_calls(Rpc::Probe, 4).await;
    client.controller().create_volume(volume("pvc-1")).await.unwrap();
    driver.script_always(Rpc::Probe, || Step::fail(Code::Internal, "starting"));
    let probes = driver.calls_of(Rpc::Probe).len();
    driver.wait_for_calls(Rpc::Probe, probes + 3).await;
    client.controller().create_volume(volume("pvc-2")).await.unwrap();
    assert_eq!(driver.calls_of(Rpc::GetPluginInfo).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn e6_a_deleted_socket_file_is_no_loss_and_one_created_again_is_found() {
    let (driver, client) = connected().await;
    driver.remove_socket_file();
    sleep(Duration::from_mins(1)).await;
    client.controller().create_volume(volume("pvc-1")).await.unwrap();
    assert_eq!(driver.calls_of(Rpc::Probe).len(), 1);
    driver.start_again().await;
    within(Duration::from_secs(6), "second probe", driver.wait_for_calls(Rpc::Probe, 2)).await;
    client.controller().create_volume(volume("pvc-2")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn errors_of_a_later_handshake_are_waited_out() {
    let logs = Logs::capture();
    let (driver, client) = connected().await;
    driver.stop().await;
    driver.script(Rpc::Probe, Step::fail(Code::Internal, "starting"));
    driver.script(Rpc::Probe, Step::fail(Code::Unavailable, "starting"));
    (0..20).for_each(|_| driver.script(Rpc::GetPluginInfo, Step::fail(Code::Internal, "not yet")));
    driver.start_again().await;
    let info = client.driver.clone();
    until("the last error", || driver.calls_of(Rpc::GetPluginInfo).len() > 20).await;
    within(Duration::from_secs(2), "ready driver", info.ready()).await;
    assert!(logs.lines_with("Still connecting").iter().any(|line| line.contains("not yet")));
}

async fn changed(change: impl FnOnce(&mut Identity), by_file: bool) -> String {
    let (driver, mut client) = connected().await;
    let controller = client.controller();
    if by_file {
        driver.configure(change);
        driver.replace_socket().await;
        driver.wait_for_calls(Rpc::Probe, 2).await;
    } else {
        driver.stop().await;
        until("notice of the loss", || client.driver.waiting_for().is_some()).await;
        driver.configure(change);
    }
    let call = tokio::spawn(async move { controller.create_volume(volume("pvc-1")).await });
    if !by_file {
        driver.start_again().await;
    }
    let error = client.end_within(Duration::from_secs(6)).await;
    assert!(matches!(error, Error::DriverChanged { .. }), "{error}");
    assert!(error.to_string().contains(&driver.address()), "{error}");
    if !by_file {
        let refused = within(TIMEOUT, "end of the call", call).await.unwrap().unwrap_err();
        assert!(matches!(refused, CallError::NotConnected { .. }), "{refused}");
        assert_eq!(driver.calls_of(Rpc::CreateVolume).len(), 0, "a call reached the other driver");
    }
    let after = client.controller().create_volume(volume("pvc-2")).await.unwrap_err();
    assert!(!after.was_sent() && after.to_string().contains("changed while it was being served"), "{after}");
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn e5_another_name_after_a_restart_ends_the_process_before_any_call() {
    for by_file in [false, true] {
        let text = changed(|identity| identity.name = "other.csi.example.com".to_owned(), by_file).await;
        assert!(text.contains("the name was fake.csi.example.com, is other.csi.example.com"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn e5_other_capabilities_after_a_restart_end_the_process_before_any_call() {
    let text = changed(|identity| identity.controller_capabilities.push(Controller::CloneVolume), false).await;
    assert!(text.contains("were [CREATE_DELETE_VOLUME], are [CREATE_DELETE_VOLUME CLONE_VOLUME]"), "{text}");
    let text = changed(|identity| identity.plugin_capabilities = vec![Plugin::GroupControllerService], false).await;
    assert!(text.contains("were [CONTROLLER_SERVICE], are [GROUP_CONTROLLER_SERVICE]"), "{text}");
}

/// What the node service of a driver says of itself.
fn node_expands(expands: bool) -> Step {
    Step::respond(move |_: &NodeGetCapabilitiesRequest| {
        let rpc = node_service_capability::Rpc { r#type: NodeRpc::ExpandVolume.into() };
        let capability = NodeServiceCapability { r#type: Some(node_service_capability::Type::Rpc(rpc)) };
        Ok(NodeGetCapabilitiesResponse { capabilities: expands.then_some(capability).into_iter().collect() })
    })
}

#[tokio::test(start_paused = true)]
async fn the_node_service_is_asked_only_where_the_controller_cannot_expand_and_must_not_change() {
    for controller_expands in [false, true] {
        let driver = FakeDriver::start().await;
        driver.configure(|identity| identity.set(Controller::ExpandVolume, controller_expands));
        driver.script_always(Rpc::NodeGetCapabilities, || node_expands(true));
        let mut client = Client::with(&driver.socket_path(), Handshake::ControllerOrNodeExpansion);
        let info = client.ready_within(Duration::from_secs(1)).await;
        assert_eq!(info.node_expands, !controller_expands);
        assert_eq!(driver.calls_of(Rpc::NodeGetCapabilities).is_empty(), controller_expands);
        if controller_expands {
            continue;
        }
        driver.stop().await;
        driver.script_always(Rpc::NodeGetCapabilities, || node_expands(false));
        driver.start_again().await;
        let error = client.end_within(Duration::from_mins(1)).await;
        assert!(error.to_string().contains("was true, is false"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn n10_a_socket_without_a_node_service_expands_on_no_node() {
    let driver = FakeDriver::start().await;
    driver.script_always(Rpc::NodeGetCapabilities, || Step::fail(Code::Unimplemented, "unknown service csi.v1.Node"));
    let client = Client::with(&driver.socket_path(), Handshake::ControllerOrNodeExpansion);
    let info = client.ready_within(Duration::from_secs(1)).await;
    assert!(!info.node_expands);
    assert_eq!(driver.calls_of(Rpc::NodeGetCapabilities).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn e5_a_driver_that_hangs_fails_calls_by_their_deadline_and_keeps_its_connection() {
    let (driver, client) = connected().await;
    driver.script(Rpc::CreateVolume, Step::hang());
    let error = client.controller().create_volume(volume("pvc-1")).await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded);
    client.controller().create_volume(volume("pvc-1")).await.unwrap();
    assert_eq!(driver.calls_of(Rpc::Probe).len(), 1);
    assert_eq!(driver.calls_of(Rpc::CreateVolume)[0].outcome, Outcome::Abandoned);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_connection_leaves_nothing_at_the_driver() {
    let (driver, client) = connected().await;
    driver.script(Rpc::CreateVolume, Step::hang());
    let controller = client.controller();
    let call = tokio::spawn(async move { controller.create_volume(volume("pvc-1")).await });
    driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    drop(client);
    let error = within(Duration::from_secs(1), "end of the call", call).await.unwrap().unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    assert_eq!(driver.calls_of(Rpc::CreateVolume)[0].outcome, Outcome::Abandoned);
}

#[tokio::test(start_paused = true)]
async fn n15_each_new_connection_is_told_of_but_not_more_often_than_once_a_minute() {
    let (driver, client) = connected().await;
    let mut connections = client.driver.new_connections();
    let restart = async || {
        driver.stop().await;
        driver.start_again().await;
        client.controller().create_volume(volume("pvc-1")).await.unwrap();
    };
    assert!(
        timeout(Duration::from_mins(5), connections.next()).await.is_err(),
        "the connection there was is no new one"
    );
    restart().await;
    within(Duration::from_secs(1), "first restart", connections.next()).await;
    let told = Instant::now();
    restart().await;
    restart().await;
    within(Duration::from_mins(2), "both restarts", connections.next()).await;
    assert_eq!(told.elapsed().as_secs(), 60);
    assert!(timeout(Duration::from_mins(5), connections.next()).await.is_err(), "the two count as one");
}

#[tokio::test(start_paused = true)]
async fn n15_the_first_connection_is_new_to_who_began_without_one() {
    let (driver, client) = connected().await;
    driver.stop().await;
    until("notice of the loss", || client.driver.waiting_for().is_some()).await;
    let mut connections = client.driver.new_connections();
    driver.start_again().await;
    within(Duration::from_secs(30), "connection", connections.next()).await;
}
