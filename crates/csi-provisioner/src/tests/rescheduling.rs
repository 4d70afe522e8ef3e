//! Claims whose node cannot have the volume go back to the scheduler, and the one write that does it.

use std::time::Duration;

use csi_proto::csi::v1::CreateVolumeRequest;
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Release, Rpc, Step};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use serde_json::{Value, json};
use storage_kube::topology::Segment;
use tonic::Code;

use super::cluster::{NodeIs, late_class, node, scene, segments, selected, topology_driver};
use super::objects::{claim, class, with};
use super::scene::{Scene, flags};

const SELECTED: &str = "volume.kubernetes.io/selected-node";
const ZONE: &[&str] = &["zone"];
const N1: NodeIs = node("n1", ZONE, &[("zone", "z1")]);
const N2: NodeIs = node("n2", ZONE, &[("zone", "z2")]);

/// The node that is selected for the claim `data`.
fn selected_node(scene: &Scene) -> Option<String> {
    let object = scene.api.get_json::<PersistentVolumeClaim>("shop", "data").unwrap();
    object["metadata"]["annotations"][SELECTED].as_str().map(str::to_owned)
}

pub(super) async fn handed_back(scene: &Scene) {
    let gone = |_: &_| selected_node(scene).is_none().then_some(());
    scene.api.until("the claim to be handed back", Duration::from_mins(10), gone).await;
}

/// `verb name` of every request for claims other than those of the informer.
fn claim_requests(scene: &Scene) -> Vec<&'static str> {
    let requests = scene.api.requests();
    let ours = requests.iter().filter(|request| request.resource == "persistentvolumeclaims");
    ours.map(|request| request.verb).filter(|verb| !["list", "watch"].contains(verb)).collect()
}

/// Failed tries for claims of the class `late`.
pub(super) fn failed(scene: &Scene) -> u64 {
    let text = prometheus::TextEncoder::new().encode_to_string(&scene.registry.gather()).unwrap();
    let series = "controller_persistentvolumeclaim_provision_failed_total{class=\"late\",source=\"\"} ";
    text.lines().find_map(|line| line.strip_prefix(series)).map_or(0, |count| count.parse().unwrap())
}

fn exhausted() -> Step {
    Step::fail(Code::ResourceExhausted, "the pool is full")
}

fn preferred(scene: &Scene) -> Vec<Segment> {
    let requests = scene.driver.requests::<CreateVolumeRequest>();
    let first = |request: &CreateVolumeRequest| {
        segments(request.accessibility_requirements.as_ref().unwrap()).1.into_iter().next().unwrap()
    };
    requests.iter().map(first).collect()
}

fn zone(zone: &str) -> Segment {
    Segment::from_iter([("zone", zone)])
}

/// Before any call: one of the objects of the selected node is not there, or the driver is not registered there.
#[tokio::test(start_paused = true)]
async fn a8_a26_a_claim_for_a_node_that_cannot_have_it_goes_back_at_once() {
    let without_driver = json!({ "metadata": { "name": "n1" }, "spec": { "drivers": [
        { "name": "other.example.com", "nodeID": "o", "topologyKeys": ["zone"] }] } });
    let cases = [
        ("no CSINode", NodeIs { keys: None, ..N1 }, None, "node \"n1\" was selected for the claim and has no CSINode"),
        ("no Node", NodeIs { labels: None, ..N1 }, None, "node \"n1\" was selected for the claim and does not exist"),
        ("neither", NodeIs { keys: None, labels: None, ..N1 }, None, "no CSINode"),
        (
            "not registered",
            NodeIs { keys: None, ..N1 },
            Some(without_driver),
            "CSI driver fake.csi.example.com is not registered on node \"n1\"",
        ),
    ];
    assert_eq!(cases.len(), 4);
    for (case, node, csi_node, text) in cases {
        let scene = scene(flags(), &[node, N2]).await;
        if let Some(csi_node) = csi_node {
            scene.api.create_json::<CSINode>(csi_node);
        }
        scene.pass(Duration::from_secs(1)).await;
        scene.add_class(late_class("late"));
        let uid = scene.add_claim(with(claim("data", "late"), &selected("n1")));
        handed_back(&scene).await;
        let told = scene.event("ProvisioningFailed").await;
        assert!(told.contains(text), "{case}: {told}");
        scene.pass(Duration::from_hours(1)).await;
        assert_eq!(scene.events("ProvisioningFailed").len(), 1, "{case}: no loop");
        assert_eq!((failed(&scene), scene.count(Rpc::CreateVolume)), (1, 0), "{case}");
        assert_eq!(claim_requests(&scene), ["get", "update"], "{case}");
        // The scheduler chooses again.
        scene.api.merge::<PersistentVolumeClaim>("shop", "data", &selected("n2"));
        scene.volume(&format!("pvc-{uid}")).await;
        assert_eq!(preferred(&scene), [zone("z2")], "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a25_a_full_node_gives_the_claim_back_without_a_retry() {
    let scene = scene(flags(), &[N1, N2]).await;
    scene.add_class(late_class("late"));
    scene.driver.script(Rpc::CreateVolume, exhausted());
    let uid = scene.add_claim(with(claim("data", "late"), &selected("n1")));
    handed_back(&scene).await;
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!((failed(&scene), scene.count(Rpc::CreateVolume)), (1, 1));
    let told = scene.events("ProvisioningFailed");
    assert_eq!(told, ["rpc error: code = ResourceExhausted desc = the pool is full"]);
    scene.api.merge::<PersistentVolumeClaim>("shop", "data", &selected("n2"));
    scene.volume(&format!("pvc-{uid}")).await;
    assert_eq!(preferred(&scene), [zone("z1"), zone("z2")]);
}

/// Everything else in the claim is as others have written it.
#[tokio::test(start_paused = true)]
async fn only_the_annotation_goes() {
    let scene = scene(flags(), &[N1, N2]).await;
    scene.add_class(late_class("late"));
    scene.driver.script(Rpc::CreateVolume, exhausted());
    let more = json!({
        "metadata": { "finalizers": ["kubernetes.io/pvc-protection"], "labels": { "a": "b" } },
        "spec": { "unknownField": { "kept": true } },
    });
    scene.add_claim(with(with(claim("data", "late"), &selected("n1")), &more));
    let before = scene.api.get_json::<PersistentVolumeClaim>("shop", "data").unwrap();
    handed_back(&scene).await;
    let mut after = scene.api.get_json::<PersistentVolumeClaim>("shop", "data").unwrap();
    after["metadata"]["annotations"][SELECTED] = json!("n1");
    after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    assert_eq!(after, before);
}

/// The last call of a claim may have made a volume at its node, so the node stays until the driver has said that it has not.
#[tokio::test(start_paused = true)]
async fn a7_the_node_stays_selected_until_the_answer_is_final() {
    let scene = scene(flags(), &[N1, N2]).await;
    scene.add_class(late_class("late"));
    for _ in 0..6 {
        scene.driver.script(Rpc::CreateVolume, Step::fail(Code::DeadlineExceeded, "slow"));
    }
    scene.driver.script(Rpc::CreateVolume, exhausted());
    scene.add_claim(with(claim("data", "late"), &selected("n1")));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.api.delete::<CSINode>(None, "n1");
    scene.api.delete::<Node>(None, "n1");
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 6).await;
    assert_eq!(selected_node(&scene).as_deref(), Some("n1"));
    assert_eq!(claim_requests(&scene), Vec::<&str>::new());
    handed_back(&scene).await;
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 7);
}

/// The same with a final answer that says nothing of another node: the next try finds that the node is gone.
#[tokio::test(start_paused = true)]
async fn a7_after_any_final_answer_a_node_that_is_gone_is_given_up() {
    let scene = scene(flags(), &[N1, N2]).await;
    scene.add_class(late_class("late"));
    scene.driver.script(Rpc::CreateVolume, Step::fail(Code::Unavailable, "busy"));
    scene.driver.script(Rpc::CreateVolume, Step::fail(Code::Internal, "broken"));
    scene.add_claim(with(claim("data", "late"), &selected("n1")));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.api.delete::<Node>(None, "n1");
    handed_back(&scene).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 2);
}

/// While the driver was asked, somebody chose another node, or made the claim anew.
#[tokio::test(start_paused = true)]
async fn what_was_not_decided_about_is_left_alone() {
    for anew in [false, true] {
        let scene = scene(flags(), &[N1, N2]).await;
        scene.add_class(late_class("late"));
        let release = Release::new();
        scene.driver.script(Rpc::CreateVolume, exhausted().held_by(&release));
        let mut uid = scene.add_claim(with(claim("data", "late"), &selected("n1")));
        scene
            .api
            .until("the call", Duration::from_mins(1), |_| (scene.driver.running(Rpc::CreateVolume) == 1).then_some(()))
            .await;
        // The cache must not show it before the write is decided on.
        scene.api.react(Matcher::of("watch", "persistentvolumeclaims"), Reaction::Delay(Duration::from_secs(5)));
        scene.api.break_watches();
        if anew {
            scene.api.delete::<PersistentVolumeClaim>("shop", "data");
            uid = scene.add_claim(with(claim("data", "late"), &selected("n1")));
        } else {
            scene.api.merge::<PersistentVolumeClaim>("shop", "data", &selected("n2"));
        }
        release.release();
        scene.volume(&format!("pvc-{uid}")).await;
        assert_eq!(claim_requests(&scene), ["get"], "anew: {anew}");
        assert_eq!(selected_node(&scene).as_deref(), Some(if anew { "n1" } else { "n2" }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_others_write_meanwhile_is_read_again() {
    let scene = scene(flags(), &[N1, N2]).await;
    scene.add_class(late_class("late"));
    scene.driver.script(Rpc::CreateVolume, exhausted());
    scene.api.react(Matcher::of("update", "persistentvolumeclaims").once(), Reaction::Delay(Duration::from_secs(2)));
    scene.add_claim(with(claim("data", "late"), &selected("n1")));
    let asked = Matcher::of("update", "persistentvolumeclaims");
    scene
        .api
        .until("the write", Duration::from_mins(1), |api| (!api.requests_of(&asked).is_empty()).then_some(()))
        .await;
    scene.api.merge::<PersistentVolumeClaim>(
        "shop",
        "data",
        &json!({ "metadata": { "labels": { "theirs": "kept" } } }),
    );
    handed_back(&scene).await;
    assert_eq!(claim_requests(&scene), ["get", "update", "get", "update"]);
    let object = scene.api.get_json::<PersistentVolumeClaim>("shop", "data").unwrap();
    assert_eq!(object["metadata"]["labels"]["theirs"], "kept");
}

/// Told, and tried again with backoff until it works.
#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_handed_back_is_told_and_tried_again() {
    for (verb, text) in [("update", "could not be written"), ("get", "could not be read")] {
        let scene = scene(flags(), &[NodeIs { keys: None, ..N1 }, N2]).await;
        scene.add_class(late_class("late"));
        let refused = Reaction::Refuse(Status::forbidden("no update on persistentvolumeclaims"));
        scene.api.react(Matcher::of(verb, "persistentvolumeclaims"), refused);
        scene.add_claim(with(claim("data", "late"), &selected("n1")));
        scene.pass(Duration::from_mins(10)).await;
        let told = scene.events("ProvisioningFailed");
        assert!(told.iter().any(|told| told.contains(text) && told.contains("no update on")), "{told:?}");
        assert!((8..12).contains(&failed(&scene)), "{} tries", failed(&scene));
        scene.api.clear_reactions();
        handed_back(&scene).await;
        assert_eq!(scene.count(Rpc::CreateVolume), 0);
    }
}

/// What brings the claim back before the cache shows the write must not be taken for the scheduler's word.
#[tokio::test(start_paused = true)]
async fn a_cache_that_stands_still_does_not_ask_the_full_node_again() {
    let scene = scene(flags(), &[N1, N2]).await;
    scene.add_class(late_class("late"));
    let release = Release::new();
    scene.driver.script(Rpc::CreateVolume, exhausted().held_by(&release));
    let uid = scene.add_claim(with(claim("data", "late"), &selected("n1")));
    scene
        .api
        .until("the call", Duration::from_mins(1), |_| (scene.driver.running(Rpc::CreateVolume) == 1).then_some(()))
        .await;
    scene.api.react(Matcher::of("watch", "persistentvolumeclaims"), Reaction::Delay(Duration::from_secs(20)));
    scene.api.break_watches();
    release.release();
    handed_back(&scene).await;
    scene.api.delete::<StorageClass>(None, "late");
    scene.add_class(late_class("late"));
    scene.pass(Duration::from_secs(15)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 1);
    scene.pass(Duration::from_mins(1)).await;
    scene.api.clear_reactions();
    scene.api.merge::<PersistentVolumeClaim>("shop", "data", &selected("n1"));
    scene.volume(&format!("pvc-{uid}")).await;
}

/// Nor does it keep the claim for ever: after a minute the API server's own refusals have to do.
#[tokio::test(start_paused = true)]
async fn k5_an_own_write_that_the_cache_never_shows_is_waited_for_for_a_minute() {
    let scene = scene(flags(), &[N1, N2]).await;
    scene.add_class(late_class("late"));
    let release = Release::new();
    scene.driver.script(Rpc::CreateVolume, exhausted().held_by(&release));
    scene.add_claim(with(claim("data", "late"), &selected("n1")));
    scene.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    for verb in ["watch", "list"] {
        scene.api.react(Matcher::of(verb, "persistentvolumeclaims"), Reaction::Hang);
    }
    scene.api.break_watches();
    scene.pass(Duration::from_secs(1)).await;
    release.release();
    handed_back(&scene).await;
    for (minutes, calls) in [(0, 1), (2, 2)] {
        scene.pass(Duration::from_mins(minutes)).await;
        scene.api.delete::<StorageClass>(None, "late");
        scene.add_class(late_class("late"));
        scene.pass(Duration::from_secs(10)).await;
        assert_eq!(scene.count(Rpc::CreateVolume), calls, "after {minutes} minutes");
    }
}

/// There is nobody to hand the claim back to.
#[tokio::test(start_paused = true)]
async fn a_node_selected_under_the_alpha_annotation_alone_is_never_taken_back() {
    let scene = scene(flags(), &[N2]).await;
    scene.add_class(class("late", json!({})));
    let alpha = json!({ "metadata": { "annotations": { "volume.alpha.kubernetes.io/selected-node": "n1" } } });
    let uid = scene.add_claim(with(claim("data", "late"), &alpha));
    scene.pass(Duration::from_mins(1)).await;
    assert!(failed(&scene) > 3, "tried again with backoff");
    assert_eq!(claim_requests(&scene), Vec::<&str>::new());
    super::cluster::create(&scene.api, &[N1]);
    scene.volume(&format!("pvc-{uid}")).await;
}

/// What a code means: the claim goes back, the request is repeated even without the claim, or it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Rescheduled,
    InProgress,
    Final,
}

/// The error-code matrix for {driver with topology} × {node selected}.
#[tokio::test(start_paused = true)]
async fn every_code_with_and_without_topology_and_a_selected_node() {
    use After::{Final, InProgress, Rescheduled};
    let cases = [
        (Code::Cancelled, InProgress),
        (Code::DeadlineExceeded, InProgress),
        (Code::Unavailable, InProgress),
        (Code::Aborted, InProgress),
        (Code::ResourceExhausted, Rescheduled),
        (Code::Unknown, Final),
        (Code::InvalidArgument, Final),
        (Code::NotFound, Final),
        (Code::AlreadyExists, Final),
        (Code::PermissionDenied, Final),
        (Code::FailedPrecondition, Final),
        (Code::OutOfRange, Final),
        (Code::Unimplemented, Final),
        (Code::Internal, Final),
        (Code::DataLoss, Final),
        (Code::Unauthenticated, Final),
    ];
    assert_eq!(cases.len(), 16);
    for (code, expected) in cases {
        for (topology, is_selected) in [(false, false), (false, true), (true, false), (true, true)] {
            let expected = match expected {
                Rescheduled if !(topology && is_selected) => Final,
                other => other,
            };
            let found = after(code, topology, is_selected).await;
            assert_eq!(found, expected, "{code:?}, topology {topology}, selected {is_selected}");
        }
    }
}

async fn after(code: Code, topology: bool, is_selected: bool) -> After {
    let identity = |driver: &mut fake_driver::Identity| {
        if topology {
            topology_driver(driver);
        }
    };
    let scene = Scene::configured(|_| (), identity, |api| super::cluster::create(api, &[N1])).await;
    scene.add_class(class("late", json!({})));
    scene.driver.script_always(Rpc::CreateVolume, move || Step::fail(code, "why"));
    let change = if is_selected { selected("n1") } else { json!({}) };
    scene.add_claim(with(claim("data", "late"), &change));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.pass(Duration::from_millis(500)).await;
    if is_selected && selected_node(&scene).is_none() {
        return After::Rescheduled;
    }
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    scene.pass(Duration::from_mins(20)).await;
    if scene.count(Rpc::CreateVolume) > 1 { After::InProgress } else { After::Final }
}

/// For whoever sets the annotation with the same write.
#[tokio::test(start_paused = true)]
async fn the_write_sets_a_node_where_none_was_selected() {
    use crate::claim::selected_node::{Written, write};
    use storage_kube::names::NodeName;
    let scene = Scene::start().await;
    let object = scene.api.create_json::<PersistentVolumeClaim>(claim("data", "late"));
    let record = |object: Value| {
        let uid = json!({ "metadata": { "uid": object["metadata"]["uid"] } });
        let mut record = super::claims::record(super::objects::DRIVER, object).unwrap();
        record.uid = storage_kube::names::ClaimUid::from(uid["metadata"]["uid"].as_str().unwrap());
        record
    };
    let claim = record(object);
    let n1 = NodeName::from("n1");
    let written = write(&scene.api.client(), &claim, Some(&n1)).await.unwrap();
    assert!(matches!(written, Written::Version(_)));
    assert_eq!(selected_node(&scene).as_deref(), Some("n1"));
    let again = write(&scene.api.client(), &claim, Some(&NodeName::from("n2"))).await.unwrap();
    assert_eq!((again, selected_node(&scene).as_deref()), (Written::Overtaken, Some("n1")));
    scene.bind("data", "pv");
    let bound = record(
        scene
            .api
            .get_json::<PersistentVolumeClaim>("shop", "data")
            .map(|mut claim| {
                claim["spec"]["volumeName"] = Value::Null;
                claim
            })
            .unwrap(),
    );
    assert_eq!(write(&scene.api.client(), &bound, None).await.unwrap(), Written::Overtaken);
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    assert_eq!(write(&scene.api.client(), &bound, None).await.unwrap(), Written::Overtaken);
}
