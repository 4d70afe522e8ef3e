//! How big a volume is made: the table of the rule, and that of whole runs.

use std::time::Duration;

use fake_driver::Rpc;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Value, json};
use storage_kube::quantity::Quantity;
use storage_kube::wire::ResizeStatus::{
    self, ControllerResizeInProgress, ControllerResizeInfeasible, NodeResizeInProgress, NodeResizeInfeasible,
    NodeResizePending, Other,
};
use tonic::Code;

use super::growth::{ONE_TRY, grows, node_expands, node_only, refuses};
use super::objects::{CLAIM, NAMESPACE, claim, volume};
use super::scene::{Scene, config};
use crate::expand::decision::{SizeDecision, SizeView, decide};
use crate::records::claim::ClaimSize;
use crate::settings::Expansion;

fn size(requested: &str, allocated: Option<&str>, status: Option<ResizeStatus>) -> ClaimSize {
    ClaimSize {
        requested: requested.to_owned(),
        capacity: Some("1Gi".to_owned()),
        allocated: allocated.map(str::to_owned),
        status,
        resizer: None,
        node_not_required: false,
    }
}

fn view<'a>(size: &'a ClaimSize, volume: &str) -> SizeView<'a> {
    SizeView {
        size,
        volume: Quantity::parse(volume).unwrap(),
        expansion: Expansion::Controller,
        recovers: true,
        failed_finally: false,
        waits_for_node: false,
    }
}

fn answer(view: SizeView<'_>) -> Option<String> {
    match decide(view) {
        SizeDecision::Nothing | SizeDecision::AwaitNode { .. } => None,
        SizeDecision::Grow(size) => Some(size),
    }
}

/// Requested 5Gi; what was begun, if anything, is 10Gi.
#[test]
fn each_status_has_its_size() {
    let begun = Some("10Gi");
    // Status, begun, volume → size.
    let cases = [
        // The volume has less than is asked for.
        (Some(NodeResizeInfeasible), begun, "3Gi", Some("10Gi")),
        (Some(NodeResizeInfeasible), None, "3Gi", Some("5Gi")),
        (Some(NodeResizePending), begun, "3Gi", Some("10Gi")),
        (Some(NodeResizePending), Some("3Gi"), "3Gi", None),
        (Some(NodeResizePending), None, "3Gi", Some("5Gi")),
        (Some(NodeResizeInProgress), begun, "3Gi", Some("10Gi")),
        (Some(NodeResizeInProgress), Some("3Gi"), "3Gi", None),
        (Some(ControllerResizeInProgress), begun, "3Gi", Some("10Gi")),
        (Some(ControllerResizeInProgress), None, "3Gi", Some("5Gi")),
        (Some(ControllerResizeInfeasible), begun, "3Gi", Some("5Gi")),
        (Some(Other), begun, "3Gi", Some("5Gi")),
        (None, begun, "3Gi", Some("5Gi")),
        (None, None, "3Gi", Some("5Gi")),
        // The volume has as much.
        (Some(NodeResizePending), begun, "10Gi", None),
        (Some(NodeResizeInProgress), begun, "10Gi", None),
        (Some(NodeResizeInfeasible), begun, "10Gi", Some("10Gi")),
        (Some(NodeResizeInfeasible), None, "10Gi", Some("5Gi")),
        (Some(ControllerResizeInProgress), begun, "10Gi", Some("10Gi")),
        (Some(ControllerResizeInProgress), None, "10Gi", Some("5Gi")),
        (Some(ControllerResizeInfeasible), begun, "10Gi", Some("10Gi")),
        (Some(ControllerResizeInfeasible), None, "10Gi", Some("5Gi")),
        (None, begun, "10Gi", Some("10Gi")),
        (None, None, "10Gi", Some("5Gi")),
        (Some(Other), begun, "10Gi", Some("5Gi")),
    ];
    assert_eq!(cases.len(), 24);
    for (status, allocated, has, expected) in cases {
        let size = size("5Gi", allocated, status);
        assert_eq!(answer(view(&size, has)).as_deref(), expected, "{status:?} {allocated:?} of {has}");
    }
}

#[test]
fn what_else_counts() {
    let begun = size("5Gi", Some("10Gi"), Some(ControllerResizeInProgress));
    let failed = SizeView { failed_finally: true, ..view(&begun, "3Gi") };
    assert_eq!(answer(failed).as_deref(), Some("5Gi"), "what has failed for good need not be finished");
    let failed = SizeView { failed_finally: true, ..view(&begun, "10Gi") };
    assert_eq!(answer(failed).as_deref(), Some("10Gi"), "the volume has it");

    let infeasible = size("5Gi", Some("10Gi"), Some(NodeResizeInfeasible));
    let on_node = SizeView { expansion: Expansion::NodeOnly, ..view(&infeasible, "10Gi") };
    assert_eq!(answer(on_node).as_deref(), Some("5Gi"), "nobody but the node has seen the bigger size");

    let plain = size("5Gi", None, None);
    let waits = SizeView { waits_for_node: true, ..view(&plain, "10Gi") };
    assert_eq!(answer(waits), None, "an API server without statuses: the condition tells");
    let waits = SizeView { waits_for_node: true, ..view(&plain, "3Gi") };
    assert_eq!(answer(waits).as_deref(), Some("5Gi"));
}

#[test]
fn without_recovery_the_request_is_the_size() {
    let begun = size("5Gi", Some("10Gi"), Some(NodeResizePending));
    // Volume, condition → size.
    let cases =
        [("3Gi", false, Some("5Gi")), ("3Gi", true, Some("5Gi")), ("5Gi", false, Some("5Gi")), ("5Gi", true, None)];
    assert_eq!(cases.len(), 4);
    for (has, waits_for_node, expected) in cases {
        let legacy = SizeView { recovers: false, waits_for_node, ..view(&begun, has) };
        assert_eq!(answer(legacy).as_deref(), expected, "{has} {waits_for_node}");
    }
}

/// What a row begins with besides sizes.
#[derive(Clone, Copy, PartialEq)]
enum Given {
    Nothing,
    /// The last call of this term has failed for good.
    Failed,
    /// The same, and the driver refuses again.
    FailedAndRefused(Code),
    /// Only the node grows volumes.
    NodeOnly,
    /// The node need not do anything.
    NodeNotRequired,
}

fn row_claim(sizes: [&str; 3], status: &str) -> Value {
    let [requested, capacity, allocated] = sizes;
    let mut claim = claim(requested, capacity);
    if !allocated.is_empty() {
        claim["status"]["allocatedResources"] = json!({ "storage": allocated });
    }
    if !status.is_empty() {
        claim["status"]["allocatedResourceStatuses"] = json!({ "storage": status });
    }
    claim
}

/// Requested, capacity and allocated; status; volume; the rest; status and allocated afterwards; whether the driver is called.
type Case = ([&'static str; 3], &'static str, &'static str, Given, &'static str, &'static str, bool);

/// Sizes of claims in powers of ten, those of volumes in powers of two, so that a volume of 3Gi has more than 3G.
#[tokio::test(start_paused = true)]
async fn a_run_leaves_the_claim_as_it_should() {
    use Given::{Failed, FailedAndRefused, Nothing};
    let (pending, in_progress) = ("NodeResizePending", "ControllerResizeInProgress");
    let begun = ["5G", "3G", "10G"];
    // Requested, capacity, allocated; status; volume; given → status, allocated, called.
    let cases: [Case; 12] = [
        (["2G", "1G", ""], "", "1Gi", Nothing, pending, "2G", true),
        // There is nothing to be done for a claim that has all it asks for: it is not looked at.
        (["1G", "1G", ""], "", "1Gi", Nothing, "", "", false),
        (begun, "ControllerResizeInfeasible", "3Gi", Nothing, pending, "5G", true),
        (begun, in_progress, "3Gi", Failed, pending, "5G", true),
        (begun, in_progress, "3Gi", FailedAndRefused(Code::FailedPrecondition), in_progress, "5G", true),
        (begun, in_progress, "3Gi", FailedAndRefused(Code::InvalidArgument), "ControllerResizeInfeasible", "5G", true),
        (begun, in_progress, "3Gi", Nothing, pending, "10G", true),
        (begun, "NodeResizeInfeasible", "10Gi", Given::NodeOnly, pending, "5G", false),
        (["1G", "1G", "1G"], pending, "1Gi", Nothing, pending, "1G", false),
        (["2G", "1G", ""], "", "1Gi", Given::NodeNotRequired, "", "2G", true),
        (["2G", "1G", "2G"], "NodeResizeInfeasible", "2Gi", Nothing, pending, "2G", true),
        (["10G", "1G", "3G"], pending, "3Gi", Nothing, pending, "3G", false),
    ];
    for (sizes, status, has, given, expected_status, expected_allocated, called) in cases {
        let identity = |identity: &mut _| {
            if given == Given::NodeOnly {
                node_only(identity);
            }
        };
        let scene = Scene::prepared(config(), identity, node_expands).await;
        match given {
            FailedAndRefused(code) => refuses(&scene.driver, code),
            given => grows(&scene.driver, given != Given::NodeNotRequired),
        }
        scene.pass(ONE_TRY).await;
        let uid = scene.add_pair(row_claim(sizes, status), volume(has));
        if matches!(given, Failed | FailedAndRefused(_)) {
            scene.term().memories.change(&uid, |memory| memory.expand_failed_finally = true);
        }
        scene.pass(ONE_TRY).await;
        let what = format!("{sizes:?} {status:?} of {has}");
        let [_, allocated, found] = scene.sizes();
        assert_eq!(found.unwrap_or_default(), expected_status, "status of {what}");
        assert_eq!(allocated.unwrap_or_default(), expected_allocated, "allocated of {what}");
        assert_eq!(scene.driver.calls_of(Rpc::ControllerExpandVolume).len(), usize::from(called), "calls of {what}");
        let annotations = &scene.claim_json()["metadata"]["annotations"];
        let told = annotations["volume.kubernetes.io/node-expansion-not-required"] == "true";
        assert_eq!(told, given == Given::NodeNotRequired, "annotation of {what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_at_work_is_left_alone() {
    let scene = Scene::start().await;
    grows(&scene.driver, true);
    scene.add_pair(row_claim(["10G", "1G", "3G"], "NodeResizeInProgress"), volume("3Gi"));
    scene.pass(ONE_TRY).await;
    assert!(scene.asked().is_empty() && scene.patches().is_empty());
    let [_, allocated, status] = scene.sizes();
    assert_eq!((allocated.as_deref(), status.as_deref()), (Some("3G"), Some("NodeResizeInProgress")));
}

/// A claim as a node left it that has grown the file system to 600Mi and not taken the status away.
fn left_over(requested: &str, capacity: &str, status: &str) -> Value {
    let mut claim = claim(requested, capacity);
    claim["status"]["allocatedResources"] = json!({ "storage": "600Mi" });
    claim["status"]["allocatedResourceStatuses"] = json!({ "storage": status });
    claim
}

#[tokio::test(start_paused = true)]
async fn n7_what_the_node_has_done_counts_by_the_capacity_of_the_claim() {
    for status in ["NodeResizePending", "NodeResizeInProgress"] {
        for has in ["600Mi", "800Mi"] {
            let scene = Scene::start().await;
            grows(&scene.driver, false);
            scene.add_pair(left_over("700Mi", "600Mi", status), volume(has));
            scene.pass(ONE_TRY).await;
            let claim = scene.claim_json();
            let wanted = if has == "600Mi" { "700Mi" } else { has };
            assert_eq!(claim["status"]["capacity"]["storage"], wanted, "{status} {has}");
            assert_eq!(scene.resize_status(), "", "{status} {has}");
            assert_eq!(scene.driver.calls_of(Rpc::ControllerExpandVolume).len(), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn n7_a_claim_that_waits_for_a_pod_says_so_once() {
    let scene = Scene::start().await;
    grows(&scene.driver, true);
    scene.add_pair(left_over("700Mi", "500Mi", "NodeResizePending"), volume("600Mi"));
    scene.pass(Duration::from_hours(2)).await;
    assert_eq!(scene.driver.calls_of(Rpc::ControllerExpandVolume).len(), 0);
    let told: Vec<_> = scene.events().into_iter().filter(|event| event.contains("FileSystemResizeRequired")).collect();
    let text = "Normal FileSystemResizeRequired Require file system resize of volume on node to 600Mi first, which a pod that uses \
        the claim brings about; then the volume is grown to 700Mi";
    assert_eq!(told, [text]);
    let node_has_done = json!({ "status": { "capacity": { "storage": "600Mi" }, "allocatedResourceStatuses": null } });
    scene.api.merge::<PersistentVolumeClaim>(NAMESPACE, CLAIM, &node_has_done);
    scene.pass(ONE_TRY).await;
    assert_eq!(scene.driver.calls_of(Rpc::ControllerExpandVolume).len(), 1);
    assert_eq!(scene.resize_status(), "NodeResizePending");
}
