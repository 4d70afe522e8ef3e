//! Volumes in use: contract §4.4, §7.1 and §7.5, and C6.

use std::time::Duration;

use csi_proto::csi::v1::ControllerExpandVolumeRequest;
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::Step;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use storage_kube::wire::PodClaims;
use tonic::Code;

use super::growth::{GI, grows, refuses};
use super::objects::{CLAIM, HANDLE, NAMESPACE, claim, volume};
use super::scene::{Config, Scene, config};

fn pod(name: &str, claim: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": {
            "containers": [{ "name": "main", "image": "x" }],
            "volumes": [
                { "name": "scratch", "emptyDir": {} },
                { "name": "data", "persistentVolumeClaim": { "claimName": claim } },
            ],
        },
        "status": { "phase": "Running" },
    })
}

fn pod_requests(scene: &Scene) -> Vec<String> {
    let requests = scene.api.requests();
    let of_pods = requests.iter().filter(|request| request.resource == "pods");
    of_pods.map(|request| format!("{} in {:?}", request.verb, request.namespace)).collect()
}

/// Ten thousand pods and a driver that never says "in use": nobody looks at them. Then it says so, and only the pods of that
/// namespace are looked at.
#[tokio::test(start_paused = true)]
async fn c6_pods_are_looked_at_only_where_the_driver_has_called_a_volume_in_use() {
    let scene = Scene::start().await;
    for number in 0..10_000 {
        let mut pod = pod(&format!("pod-{number}"), &format!("claim-{number}"));
        pod["metadata"]["namespace"] = json!("elsewhere");
        scene.api.create_json::<Pod>(pod);
    }
    grows(&scene.driver, true);
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(Duration::from_mins(30)).await;
    assert_eq!((scene.asked(), pod_requests(&scene)), (vec![2 * GI], vec![]));

    refuses(&scene.driver, Code::FailedPrecondition);
    scene.merge_claim(&json!({ "status": { "capacity": { "storage": "2Gi" }, "allocatedResourceStatuses": null } }));
    scene.ask_for("3Gi");
    scene.pass(Duration::from_secs(30)).await;
    let requests = pod_requests(&scene);
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|request| request.ends_with(&format!("{NAMESPACE:?}"))), "{requests:?}");
}

/// While a pod uses the volume the driver is not called again; the moment the last one has ended it is.
#[tokio::test(start_paused = true)]
async fn a_volume_in_use_waits_for_its_pods_and_grows_as_soon_as_they_are_gone() {
    let scene = Scene::start().await;
    refuses(&scene.driver, Code::FailedPrecondition);
    for name in ["one", "two"] {
        scene.api.create_json::<Pod>(pod(name, CLAIM));
    }
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.asked().len(), 1, "the driver has said it once");
    let text = "Warning VolumeResizeFailed Unable to expand default/data because CSI driver csi.example.com only supports \
                offline expansion and volume is currently in-use";
    assert!(scene.events().iter().any(|event| event == text), "{:?}", scene.events());
    assert_eq!(scene.term().in_use.watched(), 1);

    grows(&scene.driver, true);
    scene.api.merge::<Pod>(NAMESPACE, "one", &json!({ "status": { "phase": "Succeeded" } }));
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.asked().len(), 1, "the other one uses it");
    scene.api.remove::<Pod>(NAMESPACE, "two");
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.asked().len(), 2, "at once, and not after a backoff");
    // The node has done its part: nothing is watched any more.
    scene.merge_claim(&json!({ "status": { "capacity": { "storage": "2Gi" }, "allocatedResourceStatuses": null } }));
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.term().in_use.watched(), 0);
}

/// Pods come and go in a namespace that is watched: that is no reason to hurry for a claim that fails for another reason.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_pod_ends_no_backoff_but_of_a_volume_that_was_in_use() {
    let scene = Scene::start().await;
    scene.driver.script_by(|request: &ControllerExpandVolumeRequest| {
        let code = if request.volume_id == "failing" { Code::Internal } else { Code::FailedPrecondition };
        Some(Step::fail(code, "no"))
    });
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    let (mut other, mut its_volume) = (claim("2Gi", "1Gi"), volume("1Gi"));
    other["metadata"] = json!({ "name": "other", "namespace": NAMESPACE });
    other["spec"]["volumeName"] = json!("pv2");
    its_volume["metadata"]["name"] = json!("pv2");
    its_volume["spec"]["claimRef"]["name"] = json!("other");
    its_volume["spec"]["csi"]["volumeHandle"] = json!("failing");
    for (name, claim) in [("user", CLAIM), ("job-1", "other"), ("job-2", "other")] {
        scene.api.create_json::<Pod>(pod(name, claim));
    }
    scene.add_pair(other, its_volume);
    scene.pass(Duration::from_millis(4500)).await;
    assert_eq!(scene.term().in_use.watched(), 1);
    let asked_of = |handle: &str| {
        let requests: Vec<ControllerExpandVolumeRequest> = scene.driver.requests();
        requests.iter().filter(|request| request.volume_id == handle).count()
    };
    assert_eq!((asked_of("failing"), asked_of(HANDLE)), (3, 1));
    for name in ["job-1", "job-2"] {
        scene.api.remove::<Pod>(NAMESPACE, name);
        scene.pass(Duration::from_secs(1)).await;
    }
    assert_eq!((asked_of("failing"), asked_of(HANDLE)), (3, 1), "the next is due after seven seconds");
    // The driver says something else of the one that was in use: no pod matters any more.
    scene.driver.forget_script();
    refuses(&scene.driver, Code::Internal);
    scene.api.remove::<Pod>(NAMESPACE, "user");
    scene.pass(Duration::from_millis(200)).await;
    assert_eq!((asked_of(HANDLE), scene.term().in_use.watched()), (2, 0));
}

/// Contract §7.1, the rows about use: what was recorded, whether a pod is there, whether anybody looks.
#[tokio::test(start_paused = true)]
async fn the_driver_is_asked_again_unless_it_said_in_use_and_a_pod_is_there() {
    let rows = [
        ("recorded, and a pod", true, true, true, false),
        ("a pod, nothing recorded", false, true, true, true),
        ("recorded, no pod", true, false, true, true),
        ("nobody looks, recorded and a pod", true, true, false, true),
        ("nobody looks, a pod", false, true, false, true),
        ("nobody looks, recorded", true, false, false, true),
    ];
    for (row, recorded, with_pod, looks, called) in rows {
        let scene = Scene::with(Config { handle_in_use: looks, ..config() }, |_| ()).await;
        if with_pod {
            scene.api.create_json::<Pod>(pod("user", CLAIM));
        }
        refuses(&scene.driver, if recorded { Code::FailedPrecondition } else { Code::Internal });
        scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
        scene.pass(Duration::from_millis(500)).await;
        assert_eq!(scene.asked().len(), 1, "{row}");
        scene.pass(Duration::from_secs(12)).await;
        assert_eq!(scene.asked().len() > 1, called, "{row}");
        assert_eq!(pod_requests(&scene).is_empty(), !(recorded && looks), "{row}");
    }
}

/// Contract §7.5: which pods use a claim.
#[test]
fn pods_that_have_ended_use_nothing() {
    let used = |phase: &str| {
        let mut pod = pod("pod", CLAIM);
        pod["status"]["phase"] = json!(phase);
        let pod: PodClaims = serde_json::from_value(pod).unwrap();
        (pod.claims().map(str::to_owned).collect::<Vec<_>>(), pod.has_ended())
    };
    for (phase, ended) in [("Running", false), ("Pending", false), ("Failed", true), ("Succeeded", true)] {
        assert_eq!(used(phase), (vec![CLAIM.to_owned()], ended), "{phase}");
    }
}

/// Pods may not be listed: the driver is asked at the pace of a failure, and everything else goes on.
#[tokio::test(start_paused = true)]
async fn g11_without_the_right_to_see_pods_volumes_still_grow() {
    let scene = Scene::start().await;
    let refusal = Reaction::Refuse(Status::forbidden("pods is forbidden"));
    scene.api.react(Matcher::any().resource("pods"), refusal);
    scene.api.create_json::<Pod>(pod("user", CLAIM));
    refuses(&scene.driver, Code::FailedPrecondition);
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(Duration::from_secs(12)).await;
    assert_eq!(scene.asked().len(), 4);
    assert_eq!(pod_requests(&scene).len(), 1, "asked once");
    let metrics = prometheus::TextEncoder::new().encode_to_string(&scene.registry.gather()).unwrap();
    assert!(metrics.contains("csi_resizer_pods_forbidden 1"), "{metrics}");
    grows(&scene.driver, true);
    scene.pass(Duration::from_secs(10)).await;
    assert_eq!(scene.sizes()[2].as_deref(), Some("NodeResizePending"));
}
