//! The fake driver through a real gRPC client, with the clock paused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use csi_proto::csi::v1::controller_client::ControllerClient;
use csi_proto::csi::v1::identity_client::IdentityClient;
use csi_proto::csi::v1::{
    CapacityRange, ControllerGetCapabilitiesRequest, ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest,
    CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, GetCapacityRequest, GetPluginCapabilitiesRequest,
    GetPluginInfoRequest, ListVolumesRequest, NodeGetInfoRequest, ProbeRequest, Topology, TopologyRequirement, Volume,
    VolumeCapability, VolumeContentSource, controller_service_capability::rpc::Type as ControllerCapability,
    node_client::NodeClient, volume_content_source,
};
use fake_driver::{Capacity, FakeDriver, Outcome, Placement, Release, Rpc, Step, topology};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

async fn connect(driver: &FakeDriver) -> Channel {
    let path = driver.socket_path();
    let connector = tower::service_fn(move |_| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector(connector).await.unwrap()
}

fn named(name: &str) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: 7, limit_bytes: 0 }),
        ..CreateVolumeRequest::default()
    }
}

#[tokio::test(start_paused = true)]
async fn one_name_is_one_volume_until_it_is_deleted() {
    let driver = FakeDriver::start().await;
    let mut client = ControllerClient::new(connect(&driver).await);
    let first = client.create_volume(named("a")).await.unwrap().into_inner().volume.unwrap();
    let again = client.create_volume(named("a")).await.unwrap().into_inner().volume.unwrap();
    assert_eq!((first.volume_id.as_str(), first.capacity_bytes), ("handle-1-of-a", 7));
    assert_eq!(first, again);
    let mut larger = named("a");
    larger.capacity_range = Some(CapacityRange { required_bytes: 8, limit_bytes: 0 });
    assert_eq!(client.create_volume(larger).await.unwrap_err().code(), Code::AlreadyExists);
    for id in ["handle-1-of-a", "handle-1-of-a", "never-there"] {
        client.delete_volume(DeleteVolumeRequest { volume_id: id.to_owned(), ..Default::default() }).await.unwrap();
    }
    assert!(driver.volumes().is_empty());
    let new = client.create_volume(named("a")).await.unwrap().into_inner().volume.unwrap();
    assert_eq!(new.volume_id, "handle-2-of-a");
}

#[tokio::test(start_paused = true)]
async fn volumes_are_published_at_nodes_and_listed_there() {
    let driver = FakeDriver::start().await;
    let mut client = ControllerClient::new(connect(&driver).await);
    let publish = |node: &str| ControllerPublishVolumeRequest {
        volume_id: "h".to_owned(),
        node_id: node.to_owned(),
        volume_capability: Some(VolumeCapability::default()),
        ..Default::default()
    };
    let unpublish = |node: &str| ControllerUnpublishVolumeRequest {
        volume_id: "h".to_owned(),
        node_id: node.to_owned(),
        ..Default::default()
    };
    for node in ["n1", "n1", "n2", "n3"] {
        client.controller_publish_volume(publish(node)).await.unwrap();
    }
    client.controller_unpublish_volume(unpublish("n2")).await.unwrap();
    client.controller_unpublish_volume(unpublish("never-there")).await.unwrap();
    assert_eq!(driver.published_nodes("h"), ["n1", "n3"]);
    let listed = client.list_volumes(ListVolumesRequest::default()).await.unwrap().into_inner();
    assert!(listed.entries[0].status.is_none(), "only a driver with the capability says where");
    driver.configure(|identity| identity.controller_capabilities.push(ControllerCapability::ListVolumesPublishedNodes));
    let listed = client.list_volumes(ListVolumesRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.entries[0].status.as_ref().unwrap().published_node_ids, ["n1", "n3"]);
    client.controller_unpublish_volume(unpublish("")).await.unwrap();
    assert!(driver.published_nodes("h").is_empty());
}

#[tokio::test(start_paused = true)]
async fn queued_steps_come_first_then_the_standing_one_then_the_default() {
    let driver = FakeDriver::start().await;
    let mut client = ControllerClient::new(connect(&driver).await);
    driver.script(Rpc::CreateVolume, Step::fail(Code::Aborted, "busy"));
    driver.script(Rpc::CreateVolume, Step::answer());
    driver.script_always(Rpc::CreateVolume, || Step::fail(Code::ResourceExhausted, "full"));
    let mut codes = Vec::new();
    for name in ["a", "a", "b", "c"] {
        codes.push(client.create_volume(named(name)).await.map_or_else(|status| status.code(), |_| Code::Ok));
    }
    driver.forget_script();
    client.create_volume(named("b")).await.unwrap();
    assert_eq!(codes, [Code::Aborted, Code::Ok, Code::ResourceExhausted, Code::ResourceExhausted]);
    let outcomes: Vec<_> = driver.calls().into_iter().map(|call| call.outcome).collect();
    assert_eq!(outcomes[0], Outcome::Failed(Code::Aborted, "busy".to_owned()));
    assert_eq!(outcomes[4], Outcome::Answered);
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_time_of_the_paused_clock_and_no_deadline_is_missed_without_one() {
    let driver = FakeDriver::start().await;
    let mut client = ControllerClient::new(connect(&driver).await);
    for n in 0..50 {
        let call = client.create_volume(named(&format!("quick-{n}")));
        timeout(Duration::from_millis(1), call).await.expect("an instant answer takes no time").unwrap();
    }
    driver.script(Rpc::CreateVolume, Step::answer().after(Duration::from_hours(1)));
    let began = Instant::now();
    client.create_volume(named("late")).await.unwrap();
    assert!(began.elapsed() >= Duration::from_hours(1));
    let call = driver.calls().pop().unwrap();
    assert!(call.ended.unwrap() - call.started >= Duration::from_hours(1));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_is_noticed_and_the_work_before_a_late_answer_stays() {
    let driver = FakeDriver::start().await;
    let client = ControllerClient::new(connect(&driver).await);
    driver.script(Rpc::CreateVolume, Step::hang());
    driver.script(Rpc::CreateVolume, Step::answer().answered_after(Duration::from_mins(1)));
    for name in ["hung", "late"] {
        let mut client = client.clone();
        timeout(Duration::from_secs(10), client.create_volume(named(name))).await.unwrap_err();
    }
    let calls = driver.wait_for_ended_calls(Rpc::CreateVolume, 2).await;
    assert!(calls.iter().all(|call| call.outcome == Outcome::Abandoned));
    let names: Vec<_> = driver.volumes().into_iter().map(|volume| volume.name).collect();
    assert_eq!(names, ["late"]);
}

#[tokio::test(start_paused = true)]
async fn held_calls_go_on_when_released() {
    let driver = FakeDriver::start().await;
    let mut client = ControllerClient::new(connect(&driver).await);
    let release = Release::new();
    driver.script(Rpc::CreateVolume, Step::answer().held_by(&release));
    let (answer, ()) = tokio::join!(client.create_volume(named("a")), async {
        driver.wait_for_calls(Rpc::CreateVolume, 1).await;
        assert_eq!((driver.running(Rpc::CreateVolume), driver.volumes().len()), (1, 0));
        release.release();
    });
    answer.unwrap();
    assert_eq!((driver.running(Rpc::CreateVolume), driver.volumes().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn work_that_answers_an_error_is_done() {
    let driver = FakeDriver::start().await;
    let mut client = ControllerClient::new(connect(&driver).await);
    driver.script(Rpc::CreateVolume, Step::work_then_fail(Code::Internal, "lost"));
    assert_eq!(client.create_volume(named("a")).await.unwrap_err().message(), "lost");
    assert_eq!(driver.volumes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_scripted_response_is_answered_as_it_is() {
    let driver = FakeDriver::start().await;
    let mut client = ControllerClient::new(connect(&driver).await);
    let step = Step::respond(|request: &CreateVolumeRequest| {
        let volume = Volume { volume_id: format!("for {}", request.name), ..Volume::default() };
        Ok(CreateVolumeResponse { volume: Some(volume) })
    });
    driver.script(Rpc::CreateVolume, step);
    let volume = client.create_volume(named("a")).await.unwrap().into_inner().volume.unwrap();
    assert_eq!(volume.volume_id, "for a");
    assert_eq!(driver.requests::<CreateVolumeRequest>(), [named("a")]);
}

#[tokio::test]
#[should_panic(expected = "a step that answers CreateVolume was queued for Probe")]
async fn a_response_cannot_be_queued_for_another_rpc() {
    let driver = FakeDriver::stopped();
    driver.script(Rpc::Probe, Step::respond(|_: &CreateVolumeRequest| Ok(CreateVolumeResponse::default())));
}

#[tokio::test(start_paused = true)]
async fn a_crash_ends_running_calls_leaves_a_stale_file_and_volumes_survive_it() {
    let driver = FakeDriver::start().await;
    let mut client = ControllerClient::new(connect(&driver).await);
    client.create_volume(named("kept")).await.unwrap();
    driver.script(Rpc::CreateVolume, Step::hang());
    let (answer, ()) = tokio::join!(client.create_volume(named("a")), async {
        driver.wait_for_calls(Rpc::CreateVolume, 2).await;
        driver.crash().await;
    });
    answer.unwrap_err();
    assert_eq!(driver.calls()[1].outcome, Outcome::Abandoned);
    let stale = std::fs::metadata(driver.socket_path()).unwrap();
    UnixStream::connect(driver.socket_path()).await.unwrap_err();

    driver.configure(|identity| identity.name = "other.example.com".to_owned());
    driver.start_again().await;
    assert_ne!(stale.ino(), std::fs::metadata(driver.socket_path()).unwrap().ino());
    let mut identity = IdentityClient::new(connect(&driver).await);
    let info = identity.get_plugin_info(GetPluginInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(info.name, "other.example.com");
    assert_eq!(driver.volumes().len(), 1);
    driver.stop().await;
    assert!(!driver.socket_path().exists());
}

#[tokio::test(start_paused = true)]
async fn a_replaced_socket_keeps_the_old_connections() {
    let driver = FakeDriver::start().await;
    let mut old = ControllerClient::new(connect(&driver).await);
    old.create_volume(named("a")).await.unwrap();
    driver.replace_socket().await;
    let mut new = ControllerClient::new(connect(&driver).await);
    old.create_volume(named("b")).await.unwrap();
    new.create_volume(named("c")).await.unwrap();
    assert_eq!(driver.volumes().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_journal_names_the_peer_and_the_authority() {
    let driver = FakeDriver::start().await;
    driver.configure(|identity| identity.ready = None);
    let mut client = IdentityClient::new(connect(&driver).await);
    assert_eq!(client.probe(ProbeRequest {}).await.unwrap().into_inner().ready, None);
    let call = driver.calls_of(Rpc::Probe).pop().unwrap();
    assert_eq!(call.peer_pid, i32::try_from(std::process::id()).ok());
    assert_eq!(call.authority.as_deref(), Some("localhost"));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "2 calls of Probe")]
async fn a_wait_in_vain_ends_with_what_it_waited_for() {
    let driver = FakeDriver::start().await;
    driver.wait_for_calls(Rpc::Probe, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_made_where_it_was_asked_for_first_unless_told_otherwise() {
    let driver = FakeDriver::start().await;
    let mut client = ControllerClient::new(connect(&driver).await);
    let (a, b, c) = (topology(&[("zone", "a")]), topology(&[("zone", "b")]), topology(&[("zone", "c")]));
    let asked = |requisite: &[&Topology], preferred: &[&Topology]| {
        let list = |places: &[&Topology]| places.iter().copied().cloned().collect();
        Some(TopologyRequirement { requisite: list(requisite), preferred: list(preferred) })
    };
    let cases = [
        ("p", Placement::FirstAsked, asked(&[&a, &b], &[&b, &a]), vec![b.clone()]),
        ("r", Placement::FirstAsked, asked(&[&a, &b], &[]), vec![a.clone()]),
        ("n", Placement::FirstAsked, None, vec![]),
        ("all", Placement::AllRequisite, asked(&[&a, &b], &[&b]), vec![a.clone(), b.clone()]),
        ("at", Placement::At(vec![c.clone()]), asked(&[&a], &[]), vec![c]),
        ("out", Placement::At(Vec::new()), asked(&[&a], &[]), vec![]),
    ];
    for (name, placement, accessibility_requirements, expected) in cases {
        driver.configure(|identity| identity.placement = placement);
        let request = CreateVolumeRequest { accessibility_requirements, ..named(name) };
        let volume = client.create_volume(request).await.unwrap().into_inner().volume.unwrap();
        assert_eq!(volume.accessible_topology, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_content_source_is_answered_and_belongs_to_the_volume() {
    let driver = FakeDriver::start().await;
    let mut client = ControllerClient::new(connect(&driver).await);
    let snapshot = volume_content_source::SnapshotSource { snapshot_id: "s".to_owned() };
    let source = VolumeContentSource { r#type: Some(volume_content_source::Type::Snapshot(snapshot)) };
    let request = CreateVolumeRequest { volume_content_source: Some(source.clone()), ..named("a") };
    let volume = client.create_volume(request).await.unwrap().into_inner().volume.unwrap();
    assert_eq!(volume.content_source, Some(source));
    assert_eq!(client.create_volume(named("a")).await.unwrap_err().code(), Code::AlreadyExists);
}

#[tokio::test(start_paused = true)]
async fn each_place_has_a_capacity_and_a_pace_of_its_own() {
    let driver = FakeDriver::start().await;
    let mut client = ControllerClient::new(connect(&driver).await);
    let (a, b, c) = (topology(&[("zone", "a")]), topology(&[("zone", "b")]), topology(&[("zone", "c")]));
    driver.set_capacity_elsewhere(1);
    driver.set_capacity(&a, 5);
    driver.set_capacity(&b, Capacity { available: 7, maximum_volume_size: Some(3), minimum_volume_size: Some(2) });
    driver.script_always(Rpc::GetCapacity, || Step::answer().after(Duration::from_secs(1)));
    let slow = b.clone();
    driver.script_by(move |request: &GetCapacityRequest| {
        (request.accessible_topology.as_ref() == Some(&slow)).then(|| Step::answer().after(Duration::from_hours(1)))
    });
    let mut answers = Vec::new();
    for place in [Some(a), Some(b), Some(c), None] {
        let began = Instant::now();
        let request = GetCapacityRequest { accessible_topology: place, ..GetCapacityRequest::default() };
        let answer = client.get_capacity(request).await.unwrap().into_inner();
        let sizes = (answer.available_capacity, answer.maximum_volume_size, answer.minimum_volume_size);
        answers.push((sizes, began.elapsed() >= Duration::from_hours(1)));
    }
    let plain = |available| ((available, None, None), false);
    assert_eq!(answers, [plain(5), ((7, Some(3), Some(2)), true), plain(1), plain(1)]);
}

#[tokio::test(start_paused = true)]
async fn what_it_says_of_itself_can_be_switched() {
    let driver = FakeDriver::start().await;
    driver.configure(|identity| {
        identity.set(ControllerCapability::CloneVolume, true);
        identity.set(ControllerCapability::CloneVolume, true);
        identity.set(ControllerCapability::CreateDeleteVolume, false);
        identity.set_node_topology(&[("zone", "a")]);
    });
    let channel = connect(&driver).await;
    let mut controller = ControllerClient::new(channel.clone());
    let mut identity = IdentityClient::new(channel.clone());
    let listed = controller.controller_get_capabilities(ControllerGetCapabilitiesRequest {}).await.unwrap();
    assert_eq!(listed.into_inner().capabilities.len(), 1);
    let node = NodeClient::new(channel).node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner();
    assert_eq!(node.accessible_topology, Some(topology(&[("zone", "a")])));
    for (on, services) in [(true, 2), (true, 2), (false, 1)] {
        driver.configure(|identity| identity.set_topology(on));
        let plugin = identity.get_plugin_capabilities(GetPluginCapabilitiesRequest {}).await.unwrap();
        assert_eq!(plugin.into_inner().capabilities.len(), services);
    }
}
