//! Growing under way: contract §7.1 and §7.3, and field reports.

use std::time::Duration;

use fake_apiserver::{FakeApiServer, Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use serde_json::{Value, json};
use tonic::Code;

use super::objects::{CLAIM, NAMESPACE, claim, volume};
use super::scene::{AS_ASKED, Config, Scene, config, create, grown, node_expands};

const GIB: i64 = 1 << 30;

fn with(mut object: Value, change: Value) -> Value {
    merge(&mut object, change);
    object
}

fn merge(target: &mut Value, change: Value) {
    match change {
        Value::Object(fields) if target.is_object() => {
            for (key, value) in fields {
                merge(&mut target[key], value);
            }
        }
        change => *target = change,
    }
}

async fn scene_of(config: Config, claim: Value, volume: Value) -> Scene {
    Scene::prepared(
        config,
        |_| (),
        |api, _| {
            create(api, claim, volume);
        },
    )
    .await
}

async fn scene(requested: &str, capacity: &str) -> Scene {
    scene_of(config(), claim(requested, capacity), volume(capacity)).await
}

/// Rows of contract §7.1 in which the driver is not called.
#[tokio::test(start_paused = true)]
async fn what_needs_nothing_or_is_not_ours_is_left_alone() {
    let rows = [
        ("nothing more is asked for", claim("1Gi", "1Gi"), volume("1Gi")),
        (
            "there is no such volume",
            with(claim("2Gi", "1Gi"), json!({ "spec": { "volumeName": "other" } })),
            volume("1Gi"),
        ),
        (
            "another claim",
            claim("2Gi", "1Gi"),
            with(volume("1Gi"), json!({ "spec": { "claimRef": { "uid": "foobaz" } } })),
        ),
        (
            "another namespace",
            claim("2Gi", "1Gi"),
            with(volume("1Gi"), json!({ "spec": { "claimRef": { "namespace": "test1" } } })),
        ),
        ("no claim", claim("2Gi", "1Gi"), with(volume("1Gi"), json!({ "spec": { "claimRef": null } }))),
        (
            "another driver",
            claim("2Gi", "1Gi"),
            with(volume("1Gi"), json!({ "spec": { "csi": { "driver": "other" } } })),
        ),
        (
            "not CSI",
            claim("2Gi", "1Gi"),
            with(volume("1Gi"), json!({ "spec": { "csi": null, "hostPath": { "path": "/" } } })),
        ),
        ("not bound", with(claim("2Gi", "1Gi"), json!({ "status": { "phase": "Pending" } })), volume("1Gi")),
        ("no size that can be read", claim("much", "1Gi"), volume("1Gi")),
    ];
    for (what, claim, volume) in rows {
        let scene = scene_of(config(), claim, volume).await;
        scene.pass(Duration::from_secs(30)).await;
        assert_eq!(scene.sizes(), [0; 0], "{what}");
        assert_eq!(scene.writes(), [""; 0], "{what}");
        assert_eq!(scene.events(), [""; 0], "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_grows_and_the_node_is_told_to_do_its_part() {
    let scene = scene("2Gi", "1Gi").await;
    scene.until("pending node", |scene| scene.resize_status() == "NodeResizePending").await;
    assert_eq!(scene.sizes(), [2 * GIB]);
    assert_eq!(scene.volume_json()["spec"]["capacity"]["storage"], "2Gi");
    let claim = scene.claim_json();
    assert_eq!(claim["status"]["capacity"]["storage"], "1Gi", "the node says when it is bigger");
    assert_eq!(claim["status"]["allocatedResources"]["storage"], "2Gi");
    assert_eq!(scene.conditions(), ["Resizing", "FileSystemResizePending"]);
    assert_eq!(scene.writes(), ["persistentvolumeclaims status", "persistentvolumes", "persistentvolumeclaims status"]);
    scene.pass(Duration::from_mins(30)).await;
    assert_eq!(scene.sizes().len(), 1, "the rest is the node's");
    assert_eq!(
        scene.events(),
        [
            "Resizing: External resizer is resizing volume pv1",
            "FileSystemResizeRequired: Require file system resize of volume on node",
        ]
    );
    // The kubelet has done it.
    scene.change_claim(json!({ "status": {
        "capacity": { "storage": "2Gi" }, "allocatedResourceStatuses": null, "conditions": [] } }));
    scene.until("nothing to do", |scene| scene.process.caches.claims.is_empty()).await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!((scene.term().memories.len(), scene.term().pace.len()), (0, 0), "nothing is remembered");
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_needs_nothing_of_the_node_is_done_at_once() {
    let scene = scene("2Gi", "1Gi").await;
    scene.driver.script_always(Rpc::ControllerExpandVolume, || grown(AS_ASKED, false));
    scene.until("the end", |scene| scene.claim_json()["status"]["capacity"]["storage"] == "2Gi").await;
    let claim = scene.claim_json();
    assert_eq!(scene.resize_status(), "");
    assert_eq!(claim["status"]["allocatedResources"]["storage"], "2Gi", "kept");
    assert_eq!(claim["metadata"]["annotations"]["volume.kubernetes.io/node-expansion-not-required"], "true");
    assert_eq!(scene.conditions(), [""; 0]);
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.events()[1], "VolumeResizeSuccessful: Resize volume succeeded");
}

#[tokio::test(start_paused = true)]
async fn the_driver_is_told_how_the_volume_is_used_and_gets_its_secret() {
    let block = with(volume("1Gi"), json!({ "spec": { "volumeMode": "Block" } }));
    let secret = json!({ "metadata": { "name": "expand", "namespace": "kube-system" }, "data": { "key": "dmFsdWU=" } });
    let with_secret = with(
        volume("1Gi"),
        json!({ "spec": { "csi": { "fsType": "ext4",
            "controllerExpandSecretRef": { "name": "expand", "namespace": "kube-system" } }, "mountOptions": ["noatime"] } }),
    );
    for (volume, is_block) in [(block, true), (with_secret, false)] {
        let scene = scene_of(config(), claim("1500M", "1Gi"), volume).await;
        scene.api.create_json::<Secret>(secret.clone());
        scene.until("a call", |scene| !scene.sizes().is_empty()).await;
        let request: csi_proto::csi::v1::ControllerExpandVolumeRequest = scene.driver.requests().remove(0);
        assert_eq!(request.capacity_range.unwrap().required_bytes, 1_500_000_000);
        let capability = request.volume_capability.unwrap();
        use csi_proto::csi::v1::volume_capability::AccessType;
        match capability.access_type.unwrap() {
            AccessType::Block(_) => assert!(is_block && request.secrets.is_empty()),
            AccessType::Mount(mount) => {
                assert_eq!((mount.fs_type.as_str(), mount.mount_flags), ("ext4", vec!["noatime".to_owned()]));
                assert_eq!(request.secrets["key"], "value");
            }
        }
    }
}

/// Contract §4.3, the classes of errors, each code once: how often the driver is called in twelve seconds (upstream: up to
/// twelve times), and what the status says.
#[tokio::test(start_paused = true)]
async fn a_failing_driver_is_called_at_the_pace_of_the_backoff_whatever_is_written_meanwhile() {
    for code in (1..=16).map(Code::from) {
        let scene = Scene::start().await;
        scene.driver.script_always(Rpc::ControllerExpandVolume, move || Step::fail(code, "mock"));
        scene.add(claim("2Gi", "1Gi"), volume("1Gi"));
        scene.pass(Duration::from_secs(12)).await;
        let infeasible = [Code::InvalidArgument, Code::OutOfRange, Code::NotFound].contains(&code);
        let uncertain =
            [Code::Cancelled, Code::DeadlineExceeded, Code::Unavailable, Code::ResourceExhausted, Code::Aborted]
                .contains(&code);
        assert_eq!(scene.sizes().len(), if infeasible { 1 } else { 4 }, "{code:?}");
        let expected = if infeasible { "ControllerResizeInfeasible" } else { "ControllerResizeInProgress" };
        assert_eq!(scene.resize_status(), expected, "{code:?}");
        let error = scene.conditions().contains(&"ControllerResizeError".to_owned());
        assert_eq!(error, !uncertain, "{code:?}");
        let failed = scene.events().into_iter().find(|event| event.starts_with("VolumeResizeFailed")).unwrap();
        assert!(
            failed.starts_with(
                "VolumeResizeFailed: resize volume \"pv1\" by resizer \"csi.example.com\" failed: rpc error: code = "
            ),
            "{failed}"
        );
        if infeasible {
            scene.pass(Duration::from_mins(11)).await;
            assert_eq!(scene.sizes().len(), 3, "one call in five minutes");
        }
    }
}

/// The KEP's matrix: how the driver fails, whether the user lowers the size then, and whether the resizer is another one by
/// then. What may have been done must never be asked for with less.
#[tokio::test(start_paused = true)]
async fn g1_a_size_that_cannot_be_had_can_be_taken_back_and_never_below_what_may_have_been_done() {
    let infeasible = (Code::OutOfRange, "infeasible");
    let (is_final, uncertain) = ((Code::Internal, "final"), (Code::Unavailable, "uncertain"));
    let rows = [
        // Fails with, lowered, restarted, asked for afterwards.
        (infeasible, false, false, 10),
        (infeasible, true, false, 5),
        (infeasible, false, true, 10),
        (infeasible, true, true, 5),
        (is_final, false, false, 10),
        (is_final, true, false, 5),
        (is_final, false, true, 10),
        // Nobody knows any more that it was final.
        (is_final, true, true, 10),
        (uncertain, false, false, 10),
        (uncertain, true, false, 10),
        (uncertain, false, true, 10),
        (uncertain, true, true, 10),
    ];
    for ((code, what), lowered, restarted, asked) in rows {
        let row = format!("{what}, lowered: {lowered}, restarted: {restarted}");
        let mut scene = Scene::start().await;
        scene.driver.script_always(Rpc::ControllerExpandVolume, move || Step::fail(code, "mock"));
        scene.add(claim("10Gi", "3Gi"), volume("3Gi"));
        scene.until("a failure", |scene| scene.sizes() == [10 * GIB]).await;
        scene.pass(Duration::from_millis(500)).await;
        if restarted {
            let (api, _) = scene.stop().await;
            if lowered {
                lower(&api);
            }
            scene = Scene::over(api, config()).await;
        } else {
            scene.driver.script_always(Rpc::ControllerExpandVolume, || grown(AS_ASKED, true));
            if lowered {
                lower(&scene.api);
            }
        }
        scene.until("success", |scene| scene.resize_status() == "NodeResizePending").await;
        let last = *scene.sizes().last().unwrap();
        assert_eq!(last, asked * GIB, "{row}");
        let size = format!("{asked}Gi");
        assert_eq!(scene.claim_json()["status"]["allocatedResources"]["storage"], size, "{row}");
        assert_eq!(scene.volume_json()["spec"]["capacity"]["storage"], size, "{row}");
    }
}

fn lower(api: &FakeApiServer) {
    let change = json!({ "spec": { "resources": { "requests": { "storage": "5Gi" } } } });
    api.merge::<PersistentVolumeClaim>(NAMESPACE, CLAIM, &change);
}

/// What the node says about its part, with a user who asks for less or more then.
#[tokio::test(start_paused = true)]
async fn g1_what_the_node_cannot_do_is_begun_again_by_the_controller() {
    let rows =
        [("NodeResizeInfeasible", 10, true), ("NodeResizePending", 10, false), ("NodeResizeInProgress", 10, false)];
    for (status, allocated, called) in rows {
        let claim = with(
            claim("10Gi", "3Gi"),
            json!({ "status": { "allocatedResources": { "storage": format!("{allocated}Gi") },
                "allocatedResourceStatuses": { "storage": status } } }),
        );
        let scene = scene_of(config(), claim, volume("10Gi")).await;
        scene.pass(Duration::from_secs(30)).await;
        assert_eq!(!scene.sizes().is_empty(), called, "{status}");
        let expected = if called { "NodeResizePending" } else { status };
        assert_eq!(scene.resize_status(), expected, "{status}");
    }
}

/// Without the gate there are conditions only.
#[tokio::test(start_paused = true)]
async fn g1_without_recovery_no_size_is_noted() {
    let scene = scene_of(Config { recovers: false, ..config() }, claim("2Gi", "1Gi"), volume("1Gi")).await;
    scene.until("pending node", |scene| scene.conditions() == ["FileSystemResizePending"]).await;
    let status = &scene.claim_json()["status"];
    assert_eq!((status.get("allocatedResources"), status.get("allocatedResourceStatuses")), (None, None));
    assert_eq!(scene.volume_json()["spec"]["capacity"]["storage"], "2Gi");
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.sizes().len(), 1);
}

/// The size that was reached is told when it is written, not before.
#[tokio::test(start_paused = true)]
async fn g3_success_is_told_only_when_volume_and_claim_say_so_and_the_driver_is_not_asked_again() {
    for resource in ["persistentvolumes", "persistentvolumeclaims"] {
        let scene = Scene::start().await;
        scene.driver.script_always(Rpc::ControllerExpandVolume, || grown(AS_ASKED, false));
        let refusal = Reaction::Refuse(Status::internal_error("the store is full"));
        let first = usize::from(resource == "persistentvolumeclaims");
        scene.api.react(Matcher::of("patch", resource).after(first).times(2), refusal);
        scene.add(claim("2Gi", "1Gi"), volume("1Gi"));
        scene.until("a failure", |scene| scene.reasons().contains("VolumeResizeFailed")).await;
        assert!(!scene.reasons().contains("VolumeResizeSuccessful"), "{resource}");
        scene.until("success", |scene| scene.reasons().contains("VolumeResizeSuccessful")).await;
        assert_eq!(scene.claim_json()["status"]["capacity"]["storage"], "2Gi");
        assert_eq!(scene.sizes().len(), 1, "{resource}: what the driver has done is remembered");
    }
}

/// A hundred claims fail at once, with volumes of no driver around.
#[tokio::test(start_paused = true)]
async fn g4_many_failures_at_once_are_each_their_own() {
    let scene = Scene::start().await;
    scene.driver.script_always(Rpc::ControllerExpandVolume, || Step::fail(Code::Internal, "mock"));
    let number = |object: Value, number: usize| {
        let (claim, uid) = (format!("data-{number}"), format!("uid-{number}"));
        let (kind, own) = if object["spec"]["volumeName"].is_string() { ("claim", &claim) } else { ("volume", &claim) };
        let change = if kind == "claim" {
            json!({ "metadata": { "name": own, "uid": uid }, "spec": { "volumeName": format!("pv-{number}") } })
        } else {
            json!({ "metadata": { "name": format!("pv-{number}") },
                "spec": { "claimRef": { "name": claim, "uid": uid } } })
        };
        with(object, change)
    };
    for index in 0..110 {
        let mut volume = number(volume("1Gi"), index);
        if index >= 100 {
            volume["spec"]["csi"] = Value::Null;
            volume["spec"]["hostPath"] = json!({ "path": "/" });
        }
        scene.add(number(claim("2Gi", "1Gi"), index), volume);
    }
    scene.until("all have failed", |scene| scene.sizes().len() >= 100).await;
    scene.driver.script_always(Rpc::ControllerExpandVolume, || grown(AS_ASKED, true));
    let pending = |scene: &Scene| {
        let claims: Vec<PersistentVolumeClaim> = scene.api.list();
        let is_pending = |claim: &PersistentVolumeClaim| {
            let statuses = claim.status.as_ref().and_then(|status| status.allocated_resource_statuses.as_ref());
            statuses.is_some_and(|statuses| statuses.get("storage").map(String::as_str) == Some("NodeResizePending"))
        };
        claims.iter().filter(|claim| is_pending(claim)).count()
    };
    scene.until("all have grown", |scene| pending(scene) == 100).await;
}

/// Somebody else writes the claim at the same time: that is no failure of anybody.
#[tokio::test(start_paused = true)]
async fn g12_a_conflict_is_no_failure() {
    let scene = Scene::start().await;
    let conflict = Status::new(409, "Conflict", "the object has been modified");
    scene.api.react(Matcher::of("patch", "persistentvolumeclaims").once(), Reaction::Refuse(conflict));
    scene.add(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.until("pending node", |scene| scene.resize_status() == "NodeResizePending").await;
    scene.pass(Duration::from_secs(1)).await;
    assert!(!scene.reasons().contains("VolumeResizeFailed"), "{:?}", scene.events());
    assert_eq!(scene.sizes().len(), 1);
}

/// Whatever the kubelet sees first, it is told what it has to do: nothing, in the write that ends the growth.
#[tokio::test(start_paused = true)]
async fn g10_a_claim_never_says_that_the_node_has_work_when_it_has_none() {
    let scene = scene("2Gi", "1Gi").await;
    scene.driver.script_always(Rpc::ControllerExpandVolume, || grown(AS_ASKED, false));
    scene.until("the end", |scene| scene.claim_json()["status"]["capacity"]["storage"] == "2Gi").await;
    let requests = scene.api.requests();
    let claims =
        requests.iter().filter(|request| request.verb == "patch" && request.resource == "persistentvolumeclaims");
    for request in claims {
        let status = &request.body["status"]["allocatedResourceStatuses"]["storage"];
        assert!(!status.as_str().unwrap_or_default().starts_with("Node"), "{}", request.body);
    }
    let order: Vec<&str> = requests
        .iter()
        .filter(|request| request.verb == "patch" && request.resource != "events")
        .map(|request| request.resource.as_str())
        .collect();
    assert_eq!(order, ["persistentvolumeclaims", "persistentvolumes", "persistentvolumeclaims"]);
}

#[tokio::test(start_paused = true)]
async fn answers_that_make_no_sense_change_nothing() {
    for bytes in [0, -5, GIB / 2] {
        let scene = scene("2Gi", "1Gi").await;
        scene.driver.script_always(Rpc::ControllerExpandVolume, move || grown(bytes, true));
        scene.pass(Duration::from_secs(12)).await;
        assert_eq!(scene.sizes().len(), 4, "{bytes}: tried again with backoff");
        assert_eq!(scene.volume_json()["spec"]["capacity"]["storage"], "1Gi");
        assert_eq!(scene.resize_status(), "ControllerResizeInProgress");
        assert!(scene.reasons().contains("VolumeResizeFailed"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_came_out_smaller_or_bigger_is_what_it_is() {
    let scene = scene("4Gi", "1Gi").await;
    scene.driver.script_always(Rpc::ControllerExpandVolume, || grown(2 * GIB, false));
    scene.pass(Duration::from_secs(12)).await;
    assert_eq!(scene.volume_json()["spec"]["capacity"]["storage"], "2Gi");
    assert_eq!(scene.claim_json()["status"]["capacity"]["storage"], "2Gi");
    assert_eq!(scene.sizes(), [4 * GIB; 4], "more is still wanted, at the pace of a failure");

    let scene = self::scene("4Gi", "1Gi").await;
    scene.driver.script_always(Rpc::ControllerExpandVolume, || grown(8 * GIB, false));
    scene.until("the end", |scene| scene.claim_json()["status"]["capacity"]["storage"] == "8Gi").await;
    assert_eq!(scene.volume_json()["spec"]["capacity"]["storage"], "8Gi");
    assert_eq!(scene.claim_json()["status"]["allocatedResources"]["storage"], "4Gi");
}

/// The node alone makes it bigger: the size is noted, and nobody is called.
#[tokio::test(start_paused = true)]
async fn a_driver_that_grows_volumes_on_the_node_only_is_not_called() {
    let scene = Scene::prepared(
        config(),
        |driver| driver.controller_capabilities.clear(),
        |api, driver| {
            driver.script_always(Rpc::NodeGetCapabilities, || node_expands(true));
            create(api, claim("2G", "1Gi"), volume("1Gi"));
        },
    )
    .await;
    scene.until("pending node", |scene| scene.resize_status() == "NodeResizePending").await;
    assert_eq!(scene.sizes(), [0; 0]);
    assert_eq!(scene.volume_json()["spec"]["capacity"]["storage"], "2G", "as it was asked for");
}

const NOTE: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

/// With gate `AnnotateFsResize` the next claim of a retained volume finds out how big the file system was.
#[tokio::test(start_paused = true)]
async fn g9_a_volume_says_how_big_its_file_system_was_until_the_node_has_grown_it() {
    let scene = scene_of(Config { annotates: true, ..config() }, claim("2Gi", "1Gi"), volume("1Gi")).await;
    scene.until("pending node", |scene| scene.resize_status() == "NodeResizePending").await;
    assert_eq!(scene.volume_json()["metadata"]["annotations"][NOTE], "1Gi");
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(scene.volume_json()["metadata"]["annotations"][NOTE], "1Gi", "the node has not done it");
    scene.change_claim(json!({ "status": {
        "capacity": { "storage": "2Gi" }, "allocatedResourceStatuses": null, "conditions": [] } }));
    scene.until("no note", |scene| scene.volume_json()["metadata"]["annotations"].get(NOTE).is_none()).await;
    // Of a driver that is not ours it stays.
    let scene = scene_of(
        Config { annotates: true, ..config() },
        claim("1Gi", "1Gi"),
        with(
            volume("1Gi"),
            json!({ "metadata": { "annotations": { NOTE: "1Gi" } }, "spec": { "csi": { "driver": "other" } } }),
        ),
    )
    .await;
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(scene.volume_json()["metadata"]["annotations"][NOTE], "1Gi");
}
