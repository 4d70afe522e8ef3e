//! Claims that are filled from another claim: the rows of the Go provisioner's own table.

use csi_proto::csi::v1::{CreateVolumeRequest, CreateVolumeResponse, Volume};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::{Value, json};

use super::objects::{class, with};
use super::scene::{Scene, flags};
use super::source_objects::{CLONING, add_source, clone_of, contents, fills, puts};

async fn scene() -> Scene {
    let scene = Scene::with(flags(), fills).await;
    scene.add_class(class("fast", json!({})));
    scene.add_class(class("slow", json!({})));
    scene
}

/// The source is protected before the call, and released after it: the Go provisioner leaves the finalizer until the source is
/// deleted.
#[tokio::test(start_paused = true)]
async fn claims_that_are_cloned() {
    let modes = |source: Value, claim: Value| {
        (json!({ "spec": { "volumeMode": source } }), json!({ "spec": { "volumeMode": claim } }))
    };
    let nothing = || json!({});
    let cases = [
        ("plain", (nothing(), nothing())),
        ("no modes", modes(Value::Null, Value::Null)),
        ("both with a file system", modes(json!("Filesystem"), json!("Filesystem"))),
        ("file system from a volume without mode", modes(Value::Null, json!("Filesystem"))),
        ("both block", modes(json!("Block"), json!("Block"))),
        ("another class of the driver", (nothing(), json!({ "spec": { "storageClassName": "slow" } }))),
        ("larger", (nothing(), json!({ "spec": { "resources": { "requests": { "storage": "2Gi" } } } }))),
        ("by dataSourceRef alone", (nothing(), json!({ "spec": { "dataSource": null } }))),
    ];
    assert_eq!(cases.len(), 8);
    for (case, (volume, change)) in cases {
        let scene = scene().await;
        add_source(&scene.api, &json!({}), &volume);
        let uid = scene.add_claim(with(clone_of("data", "source"), &change));
        scene.volume(&format!("pvc-{uid}")).await;
        assert_eq!(contents(&scene), ["volume handle-of-source"], "{case}");
        scene.pass(std::time::Duration::from_secs(10)).await;
        assert_eq!(puts(&scene.api, "persistentvolumeclaims", CLONING), [1, 1], "{case}");
    }
}

/// What is changed of the source, its volume and the claim, and what the one event must say.
type Refusal = (&'static str, Value, Value, Value, &'static str);

#[tokio::test(start_paused = true)]
async fn claims_that_cannot_be_cloned() {
    let nothing = || json!({});
    let phase = |phase: &str| json!({ "status": { "phase": phase } });
    let claim_ref = |change: Value| json!({ "spec": { "claimRef": change } });
    let mode = |mode: Value| json!({ "spec": { "volumeMode": mode } });
    let no_class = || json!({ "spec": { "storageClassName": null } });
    let beta = json!({
        "metadata": { "annotations": { "volume.beta.kubernetes.io/storage-class": "fast" } },
        "spec": { "storageClassName": null },
    });
    let cases: Vec<Refusal> = vec![
        (
            "smaller than the source",
            nothing(),
            nothing(),
            json!({ "spec": { "resources": { "requests": { "storage": "999Mi" } } } }),
            "1073741824",
        ),
        (
            "source missing",
            nothing(),
            nothing(),
            json!({ "spec": { "dataSource": { "name": "gone" } } }),
            "no such claim",
        ),
        ("source without class", no_class(), nothing(), nothing(), "no storageClassName"),
        ("claim without class", nothing(), nothing(), beta, "no storageClassName: give it one"),
        ("volume missing", json!({ "spec": { "volumeName": "gone" } }), nothing(), nothing(), "gone is not there"),
        ("source names no volume", json!({ "spec": { "volumeName": null } }), nothing(), nothing(), "names no volume"),
        ("source Pending", phase("Pending"), nothing(), nothing(), "phase is Pending"),
        ("source Lost", phase("Lost"), nothing(), nothing(), "phase is Lost"),
        (
            "volume Released",
            nothing(),
            with(phase("Released"), &json!({ "spec": { "persistentVolumeReclaimPolicy": "Retain" } })),
            nothing(),
            "is Released",
        ),
        ("volume Failed", nothing(), phase("Failed"), nothing(), "is Failed"),
        ("volume Pending", nothing(), phase("Pending"), nothing(), "is Pending"),
        ("volume Available", nothing(), phase("Available"), nothing(), "is Available"),
        ("volume without claim", nothing(), claim_ref(Value::Null), nothing(), "another claim"),
        ("volume of another uid", nothing(), claim_ref(json!({ "uid": "other" })), nothing(), "another claim"),
        (
            "volume of another namespace",
            nothing(),
            claim_ref(json!({ "namespace": "other" })),
            nothing(),
            "another claim",
        ),
        ("volume of another name", nothing(), claim_ref(json!({ "name": "other" })), nothing(), "another claim"),
        (
            "volume of another driver",
            nothing(),
            json!({ "spec": { "csi": { "driver": "wrong.com" } } }),
            nothing(),
            "wrong.com",
        ),
        (
            "volume of another kind",
            nothing(),
            json!({ "spec": { "csi": null, "nfs": { "server": "s" } } }),
            nothing(),
            "not a CSI volume",
        ),
        ("block from a file system", nothing(), mode(json!("Filesystem")), mode(json!("Block")), "has mode Filesystem"),
        ("block from a volume without mode", nothing(), mode(Value::Null), mode(json!("Block")), "has mode Filesystem"),
        ("file system from block", nothing(), mode(json!("Block")), mode(json!("Filesystem")), "has mode Block"),
        ("file system by default from block", nothing(), mode(json!("Block")), mode(Value::Null), "has mode Block"),
    ];
    assert_eq!(cases.len(), 22);
    for (case, source, volume, change, expected) in cases {
        let scene = scene().await;
        add_source(&scene.api, &source, &volume);
        scene.add_claim(with(clone_of("data", "source"), &change));
        let told = scene.api.until(case, super::scene::PATIENCE, |_| {
            scene
                .events("ProvisioningFailed")
                .into_iter()
                .find(|text| text.contains("shop/") || text.contains("cloned"))
        });
        let text = told.await;
        assert!(text.contains(expected), "{case}: {text}");
        assert_eq!(scene.count(Rpc::CreateVolume), 0, "{case}");
        assert_eq!(puts(&scene.api, "persistentvolumeclaims", CLONING), [0, 0], "{case}");
    }
}

/// The driver copies the source as it is: smaller than asked for.
#[tokio::test(start_paused = true)]
async fn a_clone_that_comes_out_too_small_is_deleted_again_and_its_source_released() {
    let scene = scene().await;
    add_source(&scene.api, &json!({}), &json!({}));
    scene.driver.script_always(Rpc::CreateVolume, || {
        Step::respond(|request: &CreateVolumeRequest| {
            let volume = Volume {
                volume_id: "copy".into(),
                capacity_bytes: 1 << 30,
                content_source: request.volume_content_source.clone(),
                ..Volume::default()
            };
            Ok(CreateVolumeResponse { volume: Some(volume) })
        })
    });
    let larger = json!({ "spec": { "resources": { "requests": { "storage": "1025Mi" } } } });
    scene.add_claim(with(clone_of("data", "source"), &larger));
    let text = scene.event("ProvisioningFailed").await;
    assert!(text.contains("1074790400"), "{text}");
    assert_eq!((scene.count(Rpc::CreateVolume), scene.count(Rpc::DeleteVolume)), (1, 1));
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    scene.pass(std::time::Duration::from_millis(500)).await;
    assert_eq!(puts(&scene.api, "persistentvolumeclaims", CLONING), [1, 1], "it is not tried again");
}
