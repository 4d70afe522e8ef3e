//! ControllerPublishVolume and ControllerUnpublishVolume, and where they show.

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::controller_client::ControllerClient;
use csi_proto::csi::v1::volume_capability::AccessMode;
use csi_proto::csi::v1::volume_capability::access_mode::Mode;
use rustix::process::Signal;
use tonic::Code;
use tonic::transport::Channel;

use crate::driver::{Driver, create, deletion, named};

const CAPABILITIES: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,LIST_VOLUMES,GET_VOLUME,\
    PUBLISH_UNPUBLISH_VOLUME,PUBLISH_READONLY,LIST_VOLUMES_PUBLISHED_NODES";

fn publication(volume_id: &str, node_id: &str) -> csi::ControllerPublishVolumeRequest {
    csi::ControllerPublishVolumeRequest {
        volume_id: volume_id.to_owned(),
        node_id: node_id.to_owned(),
        volume_capability: named("").volume_capabilities.pop(),
        ..csi::ControllerPublishVolumeRequest::default()
    }
}

/// For many nodes.
fn shared(volume_id: &str, node_id: &str) -> csi::ControllerPublishVolumeRequest {
    let mut request = publication(volume_id, node_id);
    let mode = AccessMode { mode: Mode::MultiNodeMultiWriter.into() };
    request.volume_capability.as_mut().unwrap().access_mode = Some(mode);
    request
}

async fn publish(
    client: &mut ControllerClient<Channel>,
    request: csi::ControllerPublishVolumeRequest,
) -> Result<String, Code> {
    let answer = client.controller_publish_volume(request).await.map_err(|status| status.code())?.into_inner();
    assert_eq!(answer.publish_context.len(), 1);
    Ok(answer.publish_context["local.outrigger.dev/published-to"].clone())
}

async fn unpublish(client: &mut ControllerClient<Channel>, volume_id: &str, node_id: &str) -> Result<(), Code> {
    let request = csi::ControllerUnpublishVolumeRequest {
        volume_id: volume_id.to_owned(),
        node_id: node_id.to_owned(),
        ..csi::ControllerUnpublishVolumeRequest::default()
    };
    client.controller_unpublish_volume(request).await.map(drop).map_err(|status| status.code())
}

async fn listed(client: &mut ControllerClient<Channel>) -> Vec<Vec<String>> {
    let list = client.list_volumes(csi::ListVolumesRequest::default()).await.unwrap().into_inner();
    list.entries.into_iter().map(|entry| entry.status.unwrap().published_node_ids).collect()
}

#[tokio::test]
async fn a_publication_outlives_a_killed_process_and_is_listed_until_it_is_taken_back() {
    let mut driver = Driver::start(&[CAPABILITIES]).await;
    let mut client = driver.controller().await;
    let id = create(&mut client, "a").await.unwrap();
    create(&mut client, "b").await.unwrap();
    for _ in 0..2 {
        assert_eq!(publish(&mut client, publication(&id, "n1")).await.as_deref(), Ok("n1"));
    }
    driver.crash().await;
    let mut client = driver.controller().await;
    assert_eq!(listed(&mut client).await, [vec!["n1".to_owned()], vec![]]);
    let request = csi::ControllerGetVolumeRequest { volume_id: id.clone() };
    let volume = client.controller_get_volume(request).await.unwrap().into_inner();
    assert_eq!(volume.status.unwrap().published_node_ids, ["n1"]);
    assert_eq!(publish(&mut client, publication(&id, "n2")).await, Err(Code::FailedPrecondition));
    for _ in 0..2 {
        unpublish(&mut client, &id, "n1").await.unwrap();
    }
    driver.crash().await;
    let mut client = driver.controller().await;
    assert_eq!(listed(&mut client).await, [vec![], vec![]] as [Vec<String>; 2]);
    assert_eq!(publish(&mut client, publication(&id, "n2")).await.as_deref(), Ok("n2"));
}

#[tokio::test]
async fn a_published_volume_is_not_deleted() {
    let driver = Driver::start(&[CAPABILITIES]).await;
    let mut client = driver.controller().await;
    let id = create(&mut client, "a").await.unwrap();
    publish(&mut client, publication(&id, "node-7")).await.unwrap();
    let refused = client.delete_volume(deletion(id.clone())).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("node-7"), "{}", refused.message());
    unpublish(&mut client, &id, "node-7").await.unwrap();
    client.delete_volume(deletion(id.clone())).await.unwrap();
    assert_eq!(publish(&mut client, publication(&id, "n")).await, Err(Code::NotFound));
    unpublish(&mut client, &id, "n").await.unwrap();
}

#[tokio::test]
async fn unpublishing_without_a_node_is_from_all_nodes() {
    let driver = Driver::start(&[CAPABILITIES]).await;
    let mut client = driver.controller().await;
    let id = create(&mut client, "a").await.unwrap();
    for node in ["n1", "n2", "n3"] {
        publish(&mut client, shared(&id, node)).await.unwrap();
    }
    unpublish(&mut client, &id, "n2").await.unwrap();
    assert_eq!(listed(&mut client).await, [["n1", "n3"]]);
    unpublish(&mut client, &id, "").await.unwrap();
    assert_eq!(listed(&mut client).await, [[]; 1] as [[&str; 0]; 1]);
}

#[tokio::test]
async fn calls_for_one_volume_that_come_together_all_count() {
    let driver = Driver::start(&[CAPABILITIES]).await;
    let mut client = driver.controller().await;
    let id = create(&mut client, "a").await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for node in 0..20 {
        let (mut client, request) = (client.clone(), shared(&id, &format!("n{node}")));
        calls.spawn(async move { publish(&mut client, request).await });
    }
    assert!(calls.join_all().await.iter().all(Result::is_ok));
    assert_eq!(listed(&mut client).await[0].len(), 20);
}

#[tokio::test]
async fn a_node_takes_as_many_volumes_as_it_may_and_only_known_nodes_take_any() {
    let driver = Driver::start(&[CAPABILITIES, "--node-id=n1", "--known-node=n2", "--max-volumes-per-node=1"]).await;
    let mut client = driver.controller().await;
    let (a, b) = (create(&mut client, "a").await.unwrap(), create(&mut client, "b").await.unwrap());
    assert_eq!(publish(&mut client, publication(&a, "n3")).await, Err(Code::NotFound));
    publish(&mut client, publication(&a, "n1")).await.unwrap();
    publish(&mut client, publication(&a, "n1")).await.unwrap();
    assert_eq!(publish(&mut client, publication(&b, "n1")).await, Err(Code::ResourceExhausted));
    publish(&mut client, publication(&b, "n2")).await.unwrap();
    unpublish(&mut client, &b, "n2").await.unwrap();
    unpublish(&mut client, &a, "n1").await.unwrap();
    publish(&mut client, publication(&b, "n1")).await.unwrap();
    // A node that is gone has nothing: it must not keep a volume from being detached.
    unpublish(&mut client, &b, "n3").await.unwrap();
}

#[tokio::test]
async fn the_kind_of_the_volume_and_what_is_switched_off_are_respected() {
    let driver = Driver::start(&[]).await;
    let mut client = driver.controller().await;
    let id = create(&mut client, "a").await.unwrap();
    assert_eq!(publish(&mut client, publication(&id, "n")).await, Err(Code::Unimplemented));
    assert_eq!(unpublish(&mut client, &id, "n").await, Err(Code::Unimplemented));
    let list = client.list_volumes(csi::ListVolumesRequest::default()).await.unwrap().into_inner();
    assert_eq!(list.entries[0].status, None);

    let driver = Driver::start(&[CAPABILITIES]).await;
    let mut client = driver.controller().await;
    let id = create(&mut client, "a").await.unwrap();
    let mut request = publication(&id, "n");
    let block = csi::volume_capability::AccessType::Block(csi::volume_capability::BlockVolume {});
    request.volume_capability.as_mut().unwrap().access_type = Some(block);
    assert_eq!(publish(&mut client, request).await, Err(Code::InvalidArgument));
}

#[tokio::test]
async fn faults_and_the_journal_cover_publishing_and_the_node() {
    let mut driver = Driver::start(&[
        CAPABILITIES,
        "--fault=ControllerPublishVolume:after=DEADLINE_EXCEEDED,times=1",
        "--fault=NodePublishVolume:code=ABORTED",
        "--log-level=debug",
    ])
    .await;
    let mut client = driver.controller().await;
    let id = create(&mut client, "a").await.unwrap();
    let mut request = publication(&id, "n");
    request.secrets.insert("password".to_owned(), "hunter2".to_owned());
    assert_eq!(publish(&mut client, request.clone()).await, Err(Code::DeadlineExceeded));
    assert_eq!(listed(&mut client).await, [["n"]]);
    publish(&mut client, request).await.unwrap();
    let mut request = csi::NodePublishVolumeRequest { volume_id: id, ..csi::NodePublishVolumeRequest::default() };
    request.secrets.insert("password".to_owned(), "hunter2".to_owned());
    let refused = driver.node().await.node_publish_volume(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::Aborted);
    let journal = driver.journal();
    let last = journal.last().unwrap();
    assert_eq!((last.rpc.as_str(), last.code.as_str()), ("NodePublishVolume", "ABORTED"));
    assert_eq!(last.request["secrets"], "***stripped***");
    let (_, log) = driver.signal(Signal::TERM).await;
    assert!(log.contains("ControllerPublishVolume") && !log.contains("hunter2"), "{log}");
    assert!(!driver.everything_written().contains("hunter2"));
}

#[tokio::test]
async fn a_node_tells_its_topology_and_its_limit_and_volumes_are_where_it_is() {
    let driver = Driver::start(&["--node-id=n1", "--topology=zone=a", "--max-volumes-per-node=3"]).await;
    let info = driver.node().await.node_get_info(csi::NodeGetInfoRequest {}).await.unwrap().into_inner();
    assert_eq!((info.node_id.as_str(), info.max_volumes_per_node), ("n1", 3));
    assert_eq!(info.accessible_topology.clone().unwrap().segments["zone"], "a");
    let mut request = named("a");
    let requisite = vec![info.accessible_topology.unwrap()];
    request.accessibility_requirements = Some(csi::TopologyRequirement { requisite, preferred: Vec::new() });
    let volume = driver.controller().await.create_volume(request).await.unwrap().into_inner().volume.unwrap();
    assert_eq!(volume.accessible_topology[0].segments["zone"], "a");
    let mut identity = csi::identity_client::IdentityClient::new(driver.channel().await);
    let capabilities = identity.get_plugin_capabilities(csi::GetPluginCapabilitiesRequest {}).await.unwrap();
    assert_eq!(capabilities.into_inner().capabilities.len(), 2);
}
