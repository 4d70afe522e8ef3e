//! Snapshots, clones, topology and mutable parameters, as callers see them.

use std::collections::BTreeMap;

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::controller_client::ControllerClient;
use csi_proto::csi::v1::identity_client::IdentityClient;
use csi_proto::csi::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use tonic::Code;
use tonic::transport::Channel;

use crate::driver::{Driver, create, deletion, named};

const CAPABILITIES: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,LIST_VOLUMES,GET_VOLUME,GET_CAPACITY,\
    CREATE_DELETE_SNAPSHOT,LIST_SNAPSHOTS,GET_SNAPSHOT,CLONE_VOLUME,MODIFY_VOLUME";

const GIB: i64 = 1 << 30;

async fn snapshot(client: &mut ControllerClient<Channel>, name: &str, volume: &str) -> Result<csi::Snapshot, Code> {
    let request = csi::CreateSnapshotRequest {
        name: name.to_owned(),
        source_volume_id: volume.to_owned(),
        ..csi::CreateSnapshotRequest::default()
    };
    let answer = client.create_snapshot(request).await.map_err(|status| status.code())?;
    Ok(answer.into_inner().snapshot.unwrap())
}

async fn copy(client: &mut ControllerClient<Channel>, name: &str, source: Type) -> Result<csi::Volume, Code> {
    let source = csi::VolumeContentSource { r#type: Some(source) };
    let request = csi::CreateVolumeRequest { volume_content_source: Some(source.clone()), ..named(name) };
    let answer = client.create_volume(request).await.map_err(|status| status.code())?;
    let volume = answer.into_inner().volume.unwrap();
    assert_eq!(volume.content_source, Some(source));
    Ok(volume)
}

fn of_snapshot(id: &str) -> Type {
    Type::Snapshot(SnapshotSource { snapshot_id: id.to_owned() })
}

fn of_volume(id: &str) -> Type {
    Type::Volume(VolumeSource { volume_id: id.to_owned() })
}

async fn listed(client: &mut ControllerClient<Channel>, request: csi::ListSnapshotsRequest) -> Vec<String> {
    let list = client.list_snapshots(request).await.unwrap().into_inner();
    list.entries.into_iter().map(|entry| entry.snapshot.unwrap().snapshot_id).collect()
}

fn segments(list: &[(&str, &str)]) -> csi::Topology {
    csi::Topology { segments: map(list) }
}

fn map(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn a_snapshot_outlives_a_killed_process_and_its_volume() {
    let mut driver = Driver::start(&[CAPABILITIES]).await;
    let mut client = driver.controller().await;
    let volume = create(&mut client, "v").await.unwrap();
    std::fs::write(driver.path(&format!("state/data/{volume}/mount/file")), "content").unwrap();
    let taken = snapshot(&mut client, "s", &volume).await.unwrap();
    assert!(taken.ready_to_use && taken.creation_time.unwrap().seconds > 1_600_000_000);
    assert_eq!((taken.size_bytes, &taken.source_volume_id), (GIB, &volume));
    driver.crash().await;
    let mut client = driver.controller().await;
    client.delete_volume(deletion(volume.clone())).await.unwrap();
    assert_eq!(snapshot(&mut client, "s", &volume).await.as_ref(), Ok(&taken));
    let id = taken.snapshot_id.clone();
    let restored = copy(&mut client, "r", of_snapshot(&id)).await.unwrap();
    let clone = copy(&mut client, "c", of_volume(&restored.volume_id)).await.unwrap();
    for copy in [restored, clone] {
        let file = driver.path(&format!("state/data/{}/mount/file", copy.volume_id));
        assert_eq!(std::fs::read(file).unwrap(), b"content");
    }
    let by_volume = csi::ListSnapshotsRequest { source_volume_id: volume, ..Default::default() };
    let by_id = csi::ListSnapshotsRequest { snapshot_id: id.clone(), ..Default::default() };
    let unknown = csi::ListSnapshotsRequest { snapshot_id: "x".to_owned(), ..Default::default() };
    let both = csi::ListSnapshotsRequest { source_volume_id: "x".to_owned(), ..by_id.clone() };
    for request in [by_volume, by_id] {
        assert_eq!(listed(&mut client, request).await, [id.as_str()]);
    }
    assert!(listed(&mut client, unknown).await.is_empty() && listed(&mut client, both).await.is_empty());
    let one = csi::GetSnapshotRequest { snapshot_id: id.clone(), ..Default::default() };
    assert_eq!(client.get_snapshot(one.clone()).await.unwrap().into_inner().snapshot, Some(taken));
    let gone = csi::DeleteSnapshotRequest { snapshot_id: id, ..Default::default() };
    client.delete_snapshot(gone.clone()).await.unwrap();
    client.delete_snapshot(gone).await.unwrap();
    assert_eq!(client.get_snapshot(one).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(copy(&mut client, "n", of_snapshot("x")).await, Err(Code::NotFound));
    assert_eq!(copy(&mut client, "n", of_volume("x")).await, Err(Code::NotFound));
}

#[tokio::test]
async fn faults_reach_the_rpcs_of_snapshots_and_the_journal_hides_their_secrets() {
    let driver = Driver::start(&[
        CAPABILITIES,
        "--fault=CreateSnapshot:after=DEADLINE_EXCEEDED,times=1",
        "--fault=ControllerModifyVolume:code=OUT_OF_RANGE,times=1",
        "--fault=DeleteSnapshot:code=FAILED_PRECONDITION,times=1",
    ])
    .await;
    let mut client = driver.controller().await;
    let volume = create(&mut client, "v").await.unwrap();
    assert_eq!(snapshot(&mut client, "s", &volume).await, Err(Code::DeadlineExceeded));
    assert_eq!(listed(&mut client, csi::ListSnapshotsRequest::default()).await.len(), 1);
    let taken = snapshot(&mut client, "s", &volume).await.unwrap();
    let modify = csi::ControllerModifyVolumeRequest {
        volume_id: volume,
        secrets: map(&[("password", "hunter2")]),
        mutable_parameters: map(&[("iops", "5")]),
    };
    assert_eq!(client.controller_modify_volume(modify.clone()).await.unwrap_err().code(), Code::OutOfRange);
    client.controller_modify_volume(modify).await.unwrap();
    let request = csi::DeleteSnapshotRequest { snapshot_id: taken.snapshot_id, secrets: map(&[("k", "hunter2")]) };
    assert_eq!(client.delete_snapshot(request).await.unwrap_err().code(), Code::FailedPrecondition);
    let journal = driver.journal();
    let modified = journal.iter().rfind(|line| line.rpc == "ControllerModifyVolume").unwrap();
    assert_eq!(modified.request["mutable_parameters"]["iops"], "5");
    assert_eq!(modified.request["secrets"], "***stripped***");
    assert_eq!(journal.last().unwrap().rpc, "DeleteSnapshot");
    assert!(!driver.everything_written().contains("hunter2"));
}

#[tokio::test]
async fn only_known_mutable_parameters_are_taken() {
    let driver = Driver::start(&[CAPABILITIES, "--mutable-parameter=tier"]).await;
    let mut client = driver.controller().await;
    let with =
        |name: &str, key: &str| csi::CreateVolumeRequest { mutable_parameters: map(&[(key, "a")]), ..named(name) };
    let refused = client.create_volume(with("v", "iops")).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "the default keys are replaced: {refused}");
    let volume_id = client.create_volume(with("v", "tier")).await.unwrap().into_inner().volume.unwrap().volume_id;
    let modify = |volume_id: &str, key: &str| csi::ControllerModifyVolumeRequest {
        volume_id: volume_id.to_owned(),
        mutable_parameters: map(&[(key, "b")]),
        ..csi::ControllerModifyVolumeRequest::default()
    };
    client.controller_modify_volume(modify(&volume_id, "tier")).await.unwrap();
    for (id, key, code) in [
        (volume_id.as_str(), "x", Code::InvalidArgument),
        ("x", "tier", Code::NotFound),
        ("", "tier", Code::InvalidArgument),
    ] {
        assert_eq!(client.controller_modify_volume(modify(id, key)).await.unwrap_err().code(), code, "{id} {key}");
    }
    let record = std::fs::read_to_string(driver.path(&format!("state/volumes/{volume_id}.json"))).unwrap();
    assert!(record.contains("\"tier\": \"b\""), "{record}");
}

#[tokio::test]
async fn volumes_are_made_in_the_places_that_are_known_and_stay_there() {
    let flags = [CAPABILITIES, "--topology=zone=a", "--known-topology=zone=b,rack=1", "--capacity=3221225472"];
    let mut driver = Driver::start(&flags).await;
    let mut client = driver.controller().await;
    let at = |name: &str, zone: &str| {
        let requisite = vec![segments(&[("zone", zone)])];
        let requirement = csi::TopologyRequirement { preferred: requisite.clone(), requisite };
        csi::CreateVolumeRequest { accessibility_requirements: Some(requirement), ..named(name) }
    };
    let b = segments(&[("zone", "b"), ("rack", "1")]);
    for (request, place) in [(named("1"), segments(&[("zone", "a")])), (at("2", "b"), b.clone())] {
        let volume = client.create_volume(request).await.unwrap().into_inner().volume.unwrap();
        assert_eq!(volume.accessible_topology, [place]);
    }
    assert_eq!(client.create_volume(at("3", "c")).await.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(client.create_volume(at("2", "a")).await.unwrap_err().code(), Code::AlreadyExists);
    for (place, available) in [(None, GIB), (Some(b.clone()), GIB), (Some(segments(&[("zone", "c")])), 0)] {
        let request = csi::GetCapacityRequest { accessible_topology: place, ..Default::default() };
        let capacity = client.get_capacity(request).await.unwrap().into_inner();
        assert_eq!(capacity.available_capacity, available);
    }
    driver.crash().await;
    let again = driver.controller().await.create_volume(at("2", "b")).await.unwrap().into_inner().volume.unwrap();
    assert_eq!(again.accessible_topology, [b]);
    let mut identity = IdentityClient::new(driver.channel().await);
    let plugin = identity.get_plugin_capabilities(csi::GetPluginCapabilitiesRequest {}).await.unwrap().into_inner();
    assert_eq!(plugin.capabilities.len(), 2);
}

#[tokio::test]
async fn without_the_capabilities_there_are_no_copies_and_nothing_to_modify() {
    let driver = Driver::start(&[]).await;
    let mut client = driver.controller().await;
    let volume = create(&mut client, "v").await.unwrap();
    assert_eq!(snapshot(&mut client, "s", &volume).await, Err(Code::Unimplemented));
    assert_eq!(copy(&mut client, "c", of_volume(&volume)).await, Err(Code::InvalidArgument));
    let request = csi::CreateVolumeRequest { mutable_parameters: map(&[("iops", "1")]), ..named("m") };
    assert_eq!(client.create_volume(request).await.unwrap_err().code(), Code::InvalidArgument);
    let list = client.list_snapshots(csi::ListSnapshotsRequest::default()).await;
    let modify = client.controller_modify_volume(csi::ControllerModifyVolumeRequest::default()).await;
    assert_eq!([list.unwrap_err().code(), modify.unwrap_err().code()], [Code::Unimplemented; 2]);
}
