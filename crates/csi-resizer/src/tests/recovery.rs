//! A claim that asks for a size which cannot be had, and what becomes of it (KEP-1790).

use std::time::Duration;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;
use tonic::Code;

use super::growth::{GI, ONE_TRY, answers, grows, node_expands, node_only, refuses};
use super::objects::{CLAIM, NAMESPACE, claim, volume};
use super::scene::{Scene, config};

/// The driver refuses 10Gi; the user lowers the claim to 5Gi, or does not; the process is started anew, or is not. Then the
/// driver grows volumes.
#[tokio::test(start_paused = true)]
async fn g1_a_refused_size_is_given_up_only_when_nothing_can_be_left_of_it() {
    // Code, lowered, restarted → asked for first.
    let cases = [
        (Code::Internal, false, false, 10),
        (Code::Internal, true, false, 5),
        (Code::Internal, false, true, 10),
        // Nobody knows any more how the last call ended.
        (Code::Internal, true, true, 10),
        (Code::Aborted, false, false, 10),
        (Code::Aborted, true, false, 10),
        (Code::Aborted, false, true, 10),
        (Code::Aborted, true, true, 10),
        (Code::OutOfRange, false, false, 10),
        (Code::OutOfRange, true, false, 5),
        (Code::OutOfRange, false, true, 10),
        // The status knows.
        (Code::OutOfRange, true, true, 5),
    ];
    assert_eq!(cases.len(), 12);
    for (code, lowered, restarted, first) in cases {
        for node_required in [true, false] {
            let what = format!("{code:?} lowered {lowered} restarted {restarted} node {node_required}");
            let mut scene = Scene::start().await;
            refuses(&scene.driver, code);
            scene.add_pair(claim("10Gi", "1Gi"), volume("1Gi"));
            scene.pass(Duration::from_secs(2)).await;
            let before = scene.asked().len();
            assert!(scene.asked().iter().all(|bytes| *bytes == 10 * GI), "{what}");
            grows_after(&mut scene, node_required, lowered, restarted).await;
            scene.pass(Duration::from_mins(6)).await;
            assert_eq!(scene.asked()[before..], [first * GI], "{what}");
            let size = format!("{first}Gi");
            let [capacity, allocated, status] = scene.sizes();
            assert_eq!(scene.volume_json()["spec"]["capacity"]["storage"], size.as_str(), "{what}");
            assert_eq!(allocated.as_ref(), Some(&size), "{what}");
            let (has, state) = if node_required { ("1Gi", Some("NodeResizePending")) } else { (size.as_str(), None) };
            assert_eq!((capacity.as_deref(), status.as_deref()), (Some(has), state), "{what}");
        }
    }
}

async fn grows_after(scene: &mut Scene, node_required: bool, lowered: bool, restarted: bool) {
    if restarted {
        let stopped = std::mem::replace(scene, Scene::start().await).stop().await;
        if lowered {
            let smaller = json!({ "spec": { "resources": { "requests": { "storage": "5Gi" } } } });
            stopped.0.merge::<PersistentVolumeClaim>(NAMESPACE, CLAIM, &smaller);
        }
        grows(&stopped.1, node_required);
        *scene = Scene::again(config(), stopped).await;
    } else {
        grows(&scene.driver, node_required);
        if lowered {
            scene.ask_for("5Gi");
        }
    }
}

/// After a start the bigger size is asked for once more; when that fails for good, the smaller one is next.
#[tokio::test(start_paused = true)]
async fn g1_after_a_restart_a_final_answer_lets_go_of_the_bigger_size() {
    let scene = Scene::start().await;
    refuses(&scene.driver, Code::Internal);
    scene.add_pair(claim("10Gi", "1Gi"), volume("1Gi"));
    scene.pass(ONE_TRY).await;
    let stopped = scene.stop().await;
    let scene = Scene::again(config(), stopped).await;
    scene.ask_for("5Gi");
    scene.pass(Duration::from_secs(2)).await;
    assert_eq!(scene.asked()[..3], [10 * GI, 10 * GI, 5 * GI]);
}

/// A call that may be going on at the driver: the size does not change until the driver has said how it ended.
#[tokio::test(start_paused = true)]
async fn g1_less_than_what_may_have_succeeded_is_never_asked_for() {
    for code in [Code::Aborted, Code::DeadlineExceeded, Code::Unavailable, Code::Cancelled, Code::ResourceExhausted] {
        let scene = Scene::start().await;
        refuses(&scene.driver, code);
        scene.add_pair(claim("10Gi", "1Gi"), volume("1Gi"));
        scene.pass(ONE_TRY).await;
        for size in ["8Gi", "6Gi", "9Gi", "5Gi"] {
            scene.ask_for(size);
            scene.pass(ONE_TRY).await;
        }
        assert_eq!(scene.asked(), [10 * GI; 5], "{code:?}");
        assert_eq!(scene.sizes()[1].as_deref(), Some("10Gi"));
        refuses(&scene.driver, Code::Internal);
        scene.pass(Duration::from_secs(3)).await;
        assert_eq!(scene.asked()[5..], [10 * GI, 5 * GI], "{code:?}");
    }
}

/// What an answer that makes no sense has left is not known.
#[tokio::test(start_paused = true)]
async fn g1_an_answer_without_a_size_does_not_let_go_of_it() {
    let scene = Scene::start().await;
    refuses(&scene.driver, Code::Internal);
    scene.add_pair(claim("10Gi", "1Gi"), volume("1Gi"));
    scene.pass(ONE_TRY).await;
    answers(&scene.driver, 0, false);
    scene.ask_for("5Gi");
    scene.pass(ONE_TRY).await;
    scene.ask_for("3Gi");
    scene.pass(ONE_TRY).await;
    assert_eq!(scene.asked(), [10 * GI, 5 * GI, 5 * GI]);
}

/// What the node makes of a volume of 10Gi, and the user lowers the claim to 5Gi or does not.
#[tokio::test(start_paused = true)]
async fn g1_node_errors() {
    // Status, lowered, only the node grows volumes → size that is settled on; `None`: nothing is done.
    let cases = [
        ("NodeResizePending", false, false, None),
        ("NodeResizePending", true, false, None),
        ("NodeResizePending", false, true, None),
        ("NodeResizePending", true, true, None),
        ("NodeResizeInProgress", false, false, None),
        ("NodeResizeInProgress", true, false, None),
        ("NodeResizeInProgress", false, true, None),
        ("NodeResizeInProgress", true, true, None),
        ("NodeResizeInfeasible", false, false, Some("10Gi")),
        // The driver has made it 10Gi, and cannot take that back.
        ("NodeResizeInfeasible", true, false, Some("10Gi")),
        ("NodeResizeInfeasible", false, true, Some("10Gi")),
        ("NodeResizeInfeasible", true, true, Some("5Gi")),
    ];
    assert_eq!(cases.len(), 12);
    for (status, lowered, on_node, settled) in cases {
        let what = format!("{status} lowered {lowered} on the node {on_node}");
        let identity = |identity: &mut _| {
            if on_node {
                node_only(identity);
            }
        };
        let scene = Scene::prepared(config(), identity, node_expands).await;
        grows(&scene.driver, true);
        let mut claim = claim(if lowered { "5Gi" } else { "10Gi" }, "1Gi");
        claim["status"]["allocatedResources"] = json!({ "storage": "10Gi" });
        claim["status"]["allocatedResourceStatuses"] = json!({ "storage": status });
        scene.add_pair(claim, volume("10Gi"));
        scene.pass(Duration::from_mins(30)).await;
        let calls = usize::from(settled.is_some() && !on_node);
        assert_eq!(scene.asked(), vec![10 * GI; calls], "{what}");
        assert_eq!(scene.patches().is_empty(), settled.is_none(), "{what}");
        let size = settled.unwrap_or("10Gi");
        assert_eq!(scene.volume_json()["spec"]["capacity"]["storage"], size, "{what}");
        let state = if settled.is_some() { "NodeResizePending" } else { status };
        let [_, allocated, found] = scene.sizes();
        assert_eq!((allocated.as_deref(), found.as_deref()), (Some(size), Some(state)), "{what}");
    }
}

/// The node gives up while the process runs: that is news.
#[tokio::test(start_paused = true)]
async fn g1_a_node_that_gives_up_is_heard_at_once() {
    let scene = Scene::start().await;
    grows(&scene.driver, true);
    scene.add_pair(claim("10Gi", "1Gi"), volume("1Gi"));
    scene.pass(ONE_TRY).await;
    for state in ["NodeResizeInProgress", "NodeResizeInfeasible"] {
        scene.merge_claim(&json!({ "status": { "allocatedResourceStatuses": { "storage": state } } }));
        scene.pass(ONE_TRY).await;
    }
    assert_eq!(scene.asked(), [10 * GI, 10 * GI]);
    assert_eq!(scene.sizes()[2].as_deref(), Some("NodeResizePending"));
}

/// The API server knows nothing of KEP-1790: what is written of it is dropped.
#[tokio::test(start_paused = true)]
async fn g1_an_api_server_without_the_feature_is_served_all_the_same() {
    for node_required in [true, false] {
        let scene = Scene::start().await;
        for field in ["allocatedResources", "allocatedResourceStatuses"] {
            scene.api.drop_field("persistentvolumeclaims", "status", field);
        }
        refuses(&scene.driver, Code::Internal);
        scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
        scene.pass(Duration::from_secs(12)).await;
        assert_eq!(scene.asked(), [2 * GI; 4], "the delays hold");
        grows(&scene.driver, node_required);
        scene.pass(Duration::from_hours(1)).await;
        assert_eq!(scene.asked().len(), 5, "the node is waited for");
        let waits = scene.conditions().iter().any(|kind| kind == "FileSystemResizePending");
        assert_eq!(waits, node_required);
        assert_eq!(scene.sizes()[0].as_deref(), Some(if node_required { "1Gi" } else { "2Gi" }));
    }
}

/// The size that may have succeeded is finished first; the bigger one follows at once.
#[tokio::test(start_paused = true)]
async fn a_bigger_size_follows_the_one_that_was_uncertain() {
    let scene = Scene::start().await;
    refuses(&scene.driver, Code::Aborted);
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(ONE_TRY).await;
    scene.ask_for("3Gi");
    scene.pass(ONE_TRY).await;
    grows(&scene.driver, false);
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.asked(), [2 * GI, 2 * GI, 2 * GI, 3 * GI]);
    assert_eq!(scene.sizes(), [Some("3Gi".to_owned()), Some("3Gi".to_owned()), None]);
}
