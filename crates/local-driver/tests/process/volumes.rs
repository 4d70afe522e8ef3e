//! Volumes made, listed and deleted; starts and ends of the process; faults and the journal.

use std::time::Duration;

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::controller_client::ControllerClient;
use csi_proto::csi::v1::identity_client::IdentityClient;
use csi_proto::csi::v1::volume_capability::AccessType;
use rustix::process::Signal;
use tokio::time::{Instant, timeout};
use tonic::Code;

use crate::driver::{Driver, PATIENCE, create, deletion, named};

#[tokio::test]
async fn volumes_outlive_a_killed_process_and_a_stale_socket_is_taken_over() {
    let mut driver = Driver::start(&[]).await;
    let id = create(&mut driver.controller().await, "a").await.unwrap();
    driver.signal(Signal::KILL).await;
    assert!(driver.socket().exists());
    driver.start_again().await;
    let mut client = driver.controller().await;
    assert_eq!(create(&mut client, "a").await, Ok(id.clone()));
    let volume = client.controller_get_volume(csi::ControllerGetVolumeRequest { volume_id: id.clone() }).await.unwrap();
    assert_eq!(volume.into_inner().volume.unwrap().capacity_bytes, 1 << 30);
    client.delete_volume(deletion(id.clone())).await.unwrap();
    let gone = client.controller_get_volume(csi::ControllerGetVolumeRequest { volume_id: id }).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
}

#[tokio::test]
async fn told_to_stop_it_removes_the_socket_ends_calls_and_exits_with_0() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut driver = Driver::start(&["--fault", "CreateVolume:delay=500ms"]).await;
        let channel = driver.channel().await;
        let mut client = ControllerClient::new(channel.clone());
        let (created, (code, log)) = tokio::join!(create(&mut client, "a"), async {
            // On one connection the answer to the later request says that the earlier one was read.
            IdentityClient::new(channel).probe(csi::ProbeRequest {}).await.unwrap();
            driver.signal(signal).await
        });
        assert_eq!(code, Some(0), "{log}");
        assert!(created.is_ok());
        assert!(!driver.socket().exists());
    }
}

#[tokio::test]
async fn faults_are_injected_and_the_journal_tells_who_asked_what_and_when() {
    let mut driver = Driver::start(&[
        "--fault=CreateVolume:code=ABORTED,times=1",
        "--fault=CreateVolume:after=DEADLINE_EXCEEDED,times=1",
        "--fault=DeleteVolume:delay=100ms",
        "--log-level=debug",
    ])
    .await;
    let mut client = driver.controller().await;
    assert_eq!(create(&mut client, "a").await, Err(Code::Aborted));
    let volumes = |list: csi::ListVolumesResponse| list.entries.len();
    let list = client.list_volumes(csi::ListVolumesRequest::default()).await.unwrap().into_inner();
    assert_eq!(volumes(list), 0);
    assert_eq!(create(&mut client, "a").await, Err(Code::DeadlineExceeded));
    let list = client.list_volumes(csi::ListVolumesRequest::default()).await.unwrap().into_inner();
    assert_eq!(volumes(list), 1);
    let mut request = named("a");
    request.secrets.insert("password".to_owned(), "hunter2".to_owned());
    let id = client.create_volume(request).await.unwrap().into_inner().volume.unwrap().volume_id;
    let began = Instant::now();
    client.delete_volume(deletion(id)).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(100));

    let journal = driver.journal();
    let codes: Vec<_> = journal.iter().map(|line| (line.rpc.as_str(), line.code.as_str())).collect();
    let expected = [
        ("CreateVolume", "ABORTED"),
        ("ListVolumes", "OK"),
        ("CreateVolume", "DEADLINE_EXCEEDED"),
        ("ListVolumes", "OK"),
        ("CreateVolume", "OK"),
        ("DeleteVolume", "OK"),
    ];
    assert_eq!(codes, expected);
    let own_pid = i32::try_from(std::process::id()).ok();
    assert!(journal.iter().all(|line| line.peer_pid == own_pid));
    let deleted = journal.last().unwrap();
    assert!(deleted.ended_monotonic_nanos - deleted.started_monotonic_nanos >= 100_000_000);
    assert!(deleted.started_unix_nanos > 1_600_000_000_000_000_000);
    assert_eq!(journal[4].request["secrets"], "***stripped***");
    assert_eq!(journal[4].request["name"], "a");
    let (_, log) = driver.signal(Signal::TERM).await;
    assert!(log.contains("CreateVolume") && !log.contains("hunter2"), "{log}");
    assert!(!driver.everything_written().contains("hunter2"));
}

#[tokio::test]
async fn a_call_whose_caller_is_gone_is_carried_out() {
    let driver = Driver::start(&["--fault=CreateVolume:delay=1s,times=1"]).await;
    let channel = driver.channel().await;
    let mut client = ControllerClient::new(channel.clone());
    let mut identity = IdentityClient::new(channel);
    tokio::select! {
        biased;
        _ = create(&mut client, "a") => panic!("answered in spite of the delay"),
        // On one connection the answer to the later request says that the earlier one was read.
        _ = identity.probe(csi::ProbeRequest {}) => {}
    }
    let done = async {
        while driver.journal().len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, done).await.expect("the call ends");
    let list = client.list_volumes(csi::ListVolumesRequest::default()).await.unwrap().into_inner();
    assert_eq!(list.entries.len(), 1);
}

#[tokio::test]
async fn what_is_switched_off_or_not_there_is_unimplemented() {
    let driver = Driver::start(&["--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME"]).await;
    let mut client = driver.controller().await;
    let codes = [
        client.list_volumes(csi::ListVolumesRequest::default()).await.unwrap_err().code(),
        client.get_capacity(csi::GetCapacityRequest::default()).await.unwrap_err().code(),
        client.create_snapshot(csi::CreateSnapshotRequest::default()).await.unwrap_err().code(),
    ];
    assert_eq!(codes, [Code::Unimplemented; 3]);
    create(&mut client, "a").await.unwrap();
}

#[tokio::test]
async fn a_second_driver_on_the_same_state_or_socket_does_not_start() {
    let driver = Driver::start(&[]).await;
    let second = driver.command().output().await.unwrap();
    let log = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{log}");
    assert!(log.contains("in use by another local-driver"), "{log}");
    let other_state = driver.command().arg("--state-dir").arg(driver.dir.path().join("other")).output().await.unwrap();
    assert_eq!(other_state.status.code(), Some(2), "a flag given twice is a usage error");
    IdentityClient::new(driver.channel().await).probe(csi::ProbeRequest {}).await.unwrap();
}

#[tokio::test]
async fn lists_come_in_pages_and_capacity_is_what_is_left() {
    let list = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,LIST_VOLUMES,GET_CAPACITY";
    let driver = Driver::start(&[list, "--capacity=3221225472"]).await;
    let mut client = driver.controller().await;
    for name in ["a", "b", "c"] {
        create(&mut client, name).await.unwrap();
    }
    assert_eq!(create(&mut client, "d").await, Err(Code::ResourceExhausted));
    let mut ids = std::collections::BTreeSet::new();
    let mut starting_token = String::new();
    loop {
        let request = csi::ListVolumesRequest { max_entries: 2, starting_token };
        let page = client.list_volumes(request).await.unwrap().into_inner();
        ids.extend(page.entries.into_iter().map(|entry| entry.volume.unwrap().volume_id));
        starting_token = page.next_token;
        if starting_token.is_empty() {
            break;
        }
    }
    assert_eq!(ids.len(), 3);
    let request = csi::ListVolumesRequest { max_entries: 0, starting_token: "next".to_owned() };
    assert_eq!(client.list_volumes(request).await.unwrap_err().code(), Code::Aborted);
    client.delete_volume(deletion(ids.pop_first().unwrap())).await.unwrap();
    let capacity = client.get_capacity(csi::GetCapacityRequest::default()).await.unwrap().into_inner();
    assert_eq!(capacity.available_capacity, 1 << 30);
}

#[tokio::test]
async fn capabilities_are_confirmed_only_for_what_the_volume_is() {
    let driver = Driver::start(&[]).await;
    let mut client = driver.controller().await;
    let volume_id = create(&mut client, "a").await.unwrap();
    let mount = named("a").volume_capabilities;
    let mut block = mount.clone();
    block[0].access_type = Some(AccessType::Block(csi::volume_capability::BlockVolume {}));
    for (volume_capabilities, confirmed) in [(mount, true), (block, false)] {
        let request = csi::ValidateVolumeCapabilitiesRequest {
            volume_id: volume_id.clone(),
            volume_capabilities,
            ..csi::ValidateVolumeCapabilitiesRequest::default()
        };
        let answer = client.validate_volume_capabilities(request).await.unwrap().into_inner();
        assert_eq!((answer.confirmed.is_some(), answer.message.is_empty()), (confirmed, confirmed));
    }
}
