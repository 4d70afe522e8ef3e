//! Single calls.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use csi_client::{Admission, CallError, Code, ControllerClient, Denied, Meaning, Rpc as ControllerRpc, meaning};
use csi_proto::csi::v1 as csi;
use fake_driver::{Outcome, Rpc, Step};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::{Door, TIMEOUT, connected, until, volume};
use crate::logs::Logs;

#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_admitted_is_not_sent() {
    let (driver, client) = connected().await;
    let door = Arc::new(Door::open());
    let controller = client.driver.controller(door.clone());
    controller.create_volume(volume("pvc-1")).await.unwrap();
    door.close();
    let error = controller.create_volume(volume("pvc-2")).await.unwrap_err();
    assert!(matches!(&error, CallError::Denied { reason, .. } if reason == "the lease is over"), "{error:?}");
    assert_eq!(error.to_string(), "/csi.v1.Controller/CreateVolume was not sent: the lease is over");
    assert!(!error.was_sent());
    assert_eq!(controller.in_flight(), 0);
    assert_eq!(driver.calls_of(Rpc::CreateVolume).len(), 1);
    assert_eq!(client.metrics().matches("CreateVolume\"} 1").count(), 1, "a call that was not sent is not counted");
}

#[tokio::test(start_paused = true)]
async fn an_admission_that_ends_while_the_call_waits_for_the_driver_counts() {
    let (driver, client) = connected().await;
    driver.stop().await;
    until("notice of the loss", || client.driver.waiting_for().is_some()).await;
    let door = Arc::new(Door::open());
    let controller = client.driver.controller(door.clone());
    let call = tokio::spawn(async move { controller.create_volume(volume("pvc-1")).await });
    tokio::time::sleep(Duration::from_secs(5)).await;
    door.close();
    driver.start_again().await;
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Denied { .. }), "{error}");
    assert_eq!(driver.calls_of(Rpc::CreateVolume).len(), 0);
}

/// What a call was decided for, as a condition that can end.
#[derive(Default)]
struct Wanted(CancellationToken);

impl Admission for Wanted {
    fn admit(&self) -> Result<(), Denied> {
        if self.0.is_cancelled() { Err(Denied("nobody wants it any more".to_owned())) } else { Ok(()) }
    }

    fn withdrawn(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.0.cancelled())
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_of_one_call_holds_beside_the_admission_of_all() {
    let (driver, client) = connected().await;
    let (door, wanted) = (Arc::new(Door::open()), Arc::new(Wanted::default()));
    let all = client.driver.controller(door.clone());
    let one = all.provided(wanted.clone());
    one.create_volume(volume("pvc-1")).await.unwrap();
    door.close();
    assert_eq!(one.create_volume(volume("pvc-2")).await.unwrap_err().code(), Code::Unavailable);
    let door = Arc::new(Door::open());
    let all = client.driver.controller(door);
    wanted.0.cancel();
    let error = all.provided(wanted).create_volume(volume("pvc-3")).await.unwrap_err();
    assert_eq!(error.to_string(), "/csi.v1.Controller/CreateVolume was not sent: nobody wants it any more");
    all.create_volume(volume("pvc-4")).await.unwrap();
    assert_eq!(driver.calls_of(Rpc::CreateVolume).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_the_driver_is_given_up_when_its_admission_is_withdrawn() {
    let (driver, client) = connected().await;
    driver.stop().await;
    until("notice of the loss", || client.driver.waiting_for().is_some()).await;
    let wanted = Arc::new(Wanted::default());
    let controller = client.controller().provided(wanted.clone());
    let withdraw = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        wanted.0.cancel();
    };
    let started = Instant::now();
    let (outcome, ()) = tokio::join!(controller.create_volume(volume("pvc-1")), withdraw);
    assert!(matches!(outcome, Err(CallError::Denied { .. })), "{outcome:?}");
    assert_eq!(started.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_call_longer_than_the_timeout_is_deadline_exceeded_and_abandoned() {
    let (driver, client) = connected().await;
    driver.script(Rpc::CreateVolume, Step::answer().answered_after(TIMEOUT * 2));
    let started = Instant::now();
    let error = client.controller().create_volume(volume("pvc-1")).await.unwrap_err();
    assert_eq!(started.elapsed(), TIMEOUT);
    assert_eq!(error.to_string(), "rpc error: code = DeadlineExceeded desc = context deadline exceeded");
    assert_eq!(meaning(ControllerRpc::CreateVolume, &error), Meaning::Uncertain);
    let calls = driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    assert_eq!(calls[0].outcome, Outcome::Abandoned);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_reset_at_the_driver_and_no_longer_counted() {
    let (driver, client) = connected().await;
    driver.script(Rpc::CreateVolume, Step::hang());
    let controller = client.controller();
    let calling = controller.clone();
    let call = tokio::spawn(async move { calling.create_volume(volume("pvc-1")).await });
    driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    assert_eq!(controller.in_flight(), 1);
    let dropped = Instant::now();
    call.abort();
    let calls = driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    assert_eq!(calls[0].outcome, Outcome::Abandoned);
    assert!(dropped.elapsed() < Duration::from_secs(1));
    assert_eq!(controller.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_drivers_error_reads_as_a_go_client_prints_it() {
    let (driver, client) = connected().await;
    let table = [
        (Code::ResourceExhausted, "no space on \"pool\": 100% full\nask ä", "ResourceExhausted", Meaning::Reschedule),
        (Code::InvalidArgument, "", "InvalidArgument", Meaning::Infeasible),
        (Code::Cancelled, "context canceled", "Canceled", Meaning::Uncertain),
        (Code::Internal, "rpc error: code = Aborted desc = inner", "Internal", Meaning::Final),
    ];
    for (code, message, name, expected) in table {
        driver.script(Rpc::CreateVolume, Step::fail(code, message));
        let error = client.controller().create_volume(volume("pvc-1")).await.unwrap_err();
        assert_eq!(error.to_string(), format!("rpc error: code = {name} desc = {message}"));
        assert!(matches!(error, CallError::Status { .. }));
        assert_eq!(meaning(ControllerRpc::CreateVolume, &error), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn every_sent_call_is_counted_under_the_name_of_the_driver() {
    let (driver, client) = connected().await;
    driver.script(Rpc::CreateVolume, Step::answer().after(Duration::from_secs(3)));
    client.controller().create_volume(volume("pvc-1")).await.unwrap();
    driver.script(Rpc::CreateVolume, Step::hang());
    client.controller().create_volume(volume("pvc-2")).await.unwrap_err();
    let text = client.metrics();
    let expected = [
        "_count{driver_name=\"unknown-driver\",grpc_status_code=\"OK\",method_name=\"/csi.v1.Identity/Probe\"} 1",
        "_count{driver_name=\"unknown-driver\",grpc_status_code=\"OK\",method_name=\"/csi.v1.Identity/GetPluginInfo\"} 1",
        "_count{driver_name=\"fake.csi.example.com\",grpc_status_code=\"OK\",method_name=\"/csi.v1.Identity/GetPluginCapabilities\"} 1",
        "_bucket{driver_name=\"fake.csi.example.com\",grpc_status_code=\"OK\",method_name=\"/csi.v1.Controller/CreateVolume\",le=\"2.5\"} 0",
        "_bucket{driver_name=\"fake.csi.example.com\",grpc_status_code=\"OK\",method_name=\"/csi.v1.Controller/CreateVolume\",le=\"5\"} 1",
        "_count{driver_name=\"fake.csi.example.com\",grpc_status_code=\"DeadlineExceeded\",method_name=\"/csi.v1.Controller/CreateVolume\"} 1",
    ];
    for line in expected {
        assert!(text.contains(&format!("csi_sidecar_operations_seconds{line}")), "{line}\nnot in\n{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn i2_a_secret_in_a_request_is_in_no_log_line() {
    const CANARY: &str = "canary-7b1f2c";
    let logs = Logs::capture();
    let (driver, client) = connected().await;
    let secrets: BTreeMap<_, _> = [("password".to_owned(), CANARY.to_owned())].into();
    driver.script(Rpc::CreateVolume, Step::fail(Code::Internal, "broken"));
    let request = csi::CreateVolumeRequest { secrets: secrets.clone(), ..volume("pvc-1") };
    client.controller().create_volume(request.clone()).await.unwrap_err();
    client.controller().create_volume(request).await.unwrap();
    driver.script(Rpc::DeleteVolume, Step::hang());
    let request = csi::DeleteVolumeRequest { volume_id: "v".to_owned(), secrets };
    client.controller().delete_volume(request).await.unwrap_err();
    let sent: Vec<csi::CreateVolumeRequest> = driver.requests();
    assert_eq!(sent[0].secrets["password"], CANARY, "the driver has it");

    let calls = logs.lines_with("GRPC call");
    assert!(calls.iter().any(|line| line.contains("pvc-1") && line.contains("***stripped***")), "{calls:#?}");
    assert!(logs.lines_with("GRPC response").iter().any(|line| line.contains("code = Internal desc = broken")));
    let text = logs.text();
    assert!(text.contains("h2::") || text.contains("hyper"), "the libraries are captured too");
    assert!(!text.contains(CANARY), "{:#?}", logs.lines_with(CANARY));
    assert!(!format!("{:?}", sent[0]).contains(CANARY));
}

/// Calls every method of the client, ignoring the answers.
async fn call_everything(controller: &ControllerClient) {
    let _ = controller.create_volume(volume("pvc-1")).await;
    let _ = controller.delete_volume(csi::DeleteVolumeRequest::default()).await;
    let _ = controller.controller_publish_volume(csi::ControllerPublishVolumeRequest::default()).await;
    let _ = controller.controller_unpublish_volume(csi::ControllerUnpublishVolumeRequest::default()).await;
    let _ = controller.validate_volume_capabilities(csi::ValidateVolumeCapabilitiesRequest::default()).await;
    let _ = controller.list_volumes(csi::ListVolumesRequest::default()).await;
    let _ = controller.controller_list_volume_health(csi::ControllerListVolumeHealthRequest::default()).await;
    let _ = controller.controller_get_volume_health(csi::ControllerGetVolumeHealthRequest::default()).await;
    let _ = controller.get_capacity(csi::GetCapacityRequest::default()).await;
    let _ = controller.controller_get_capabilities(csi::ControllerGetCapabilitiesRequest::default()).await;
    let _ = controller.create_snapshot(csi::CreateSnapshotRequest::default()).await;
    let _ = controller.delete_snapshot(csi::DeleteSnapshotRequest::default()).await;
    let _ = controller.list_snapshots(csi::ListSnapshotsRequest::default()).await;
    let _ = controller.get_snapshot(csi::GetSnapshotRequest::default()).await;
    let _ = controller.controller_expand_volume(csi::ControllerExpandVolumeRequest::default()).await;
    let _ = controller.controller_get_volume(csi::ControllerGetVolumeRequest::default()).await;
    let _ = controller.controller_modify_volume(csi::ControllerModifyVolumeRequest::default()).await;
}

#[tokio::test(start_paused = true)]
async fn every_method_reaches_the_rpc_of_its_name() {
    let (driver, client) = connected().await;
    let before = driver.calls().len();
    call_everything(&client.controller()).await;
    let reached: Vec<_> =
        driver.calls()[before..].iter().map(|call| format!("/csi.v1.Controller/{}", call.rpc)).collect();
    let expected: Vec<_> = ControllerRpc::ALL.iter().map(|rpc| rpc.method()).collect();
    assert_eq!(reached, expected);
}
