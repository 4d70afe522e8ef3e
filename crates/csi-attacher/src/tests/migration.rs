//! A driver that takes over a plugin built into Kubernetes (KEP-625): the contract's rows about volumes of GCE, and what else a
//! source can be.

use std::time::Duration;

use csi_proto::csi::v1::ControllerPublishVolumeRequest;
use csi_proto::csi::v1::volume_capability::access_mode::Mode;
use fake_driver::Rpc;
use k8s_openapi::api::core::v1::PersistentVolume;
use prometheus::TextEncoder;
use serde_json::{Value, json};

use super::objects::{attached, attachment, inline_attachment, secret, with};
use super::scene::{Scene, config, lists};

const GCE: &str = "pd.csi.storage.gke.io";
const FINALIZER: &str = "external-attacher/pd-csi-storage-gke-io";
const NODE_ID: &str = "projects/p/zones/europe-west1-b/instances/n";
const HANDLE: &str = "projects/UNSPECIFIED/zones/testZone/disks/testpd";

/// With the node `node1`.
async fn scene(driver: &str) -> Scene {
    furnished(driver, Scene::with(config(), |identity| identity.name = driver.to_owned()).await)
}

/// The same with a driver that lists where volumes are published.
async fn listing(driver: &str) -> Scene {
    let identity = |identity: &mut fake_driver::Identity| {
        lists(identity);
        identity.name = driver.to_owned();
    };
    furnished(driver, Scene::with(config(), identity).await)
}

fn furnished(driver: &str, scene: Scene) -> Scene {
    let drivers = json!([{ "name": driver, "nodeID": NODE_ID }]);
    scene.add_node(json!({ "metadata": { "name": "node1" }, "spec": { "drivers": drivers } }));
    scene
}

/// The volume `pv1` with our finalizer.
fn volume(source: Value) -> Value {
    let object = json!({
        "metadata": { "name": "pv1", "finalizers": [FINALIZER] },
        "spec": { "accessModes": ["ReadWriteMany"] },
    });
    with(object, json!({ "spec": source }))
}

fn gce_volume() -> Value {
    let labels = json!({ "topology.kubernetes.io/zone": "testZone" });
    let migrated = json!({ "pv.kubernetes.io/migrated-to": GCE });
    let metadata = json!({ "labels": labels, "annotations": migrated });
    with(volume(json!({ "gcePersistentDisk": { "pdName": "testpd" } })), json!({ "metadata": metadata }))
}

fn attachment_for(driver: &str) -> Value {
    with(attachment(), json!({ "spec": { "attacher": driver } }))
}

fn held(attachment: Value) -> Value {
    with(attached(attachment, NODE_ID), json!({ "metadata": { "finalizers": [FINALIZER] } }))
}

/// How many calls of `rpc` are counted with the label `migrated` of this value.
fn counted(scene: &Scene, rpc: &str, migrated: bool) -> Option<String> {
    let method = format!("method_name=\"/csi.v1.Controller/{rpc}\",migrated=\"{migrated}\"");
    let text = TextEncoder::new().encode_to_string(&scene.registry.gather()).unwrap();
    let line = text.lines().find(|line| line.contains("_count{") && line.contains(&method))?;
    Some(line.rsplit_once(' ').unwrap().1.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_volume_of_the_plugin_is_attached_by_the_drivers_name_for_it() {
    let scene = scene(GCE).await;
    scene.add_volume(gce_volume());
    scene.add_attachment(attachment_for(GCE));
    scene.attached("pv1-node1").await;
    assert_eq!(scene.writes(), ["hold", "attached"]);
    let request = scene.published().remove(0);
    assert_eq!((request.volume_id.as_str(), request.node_id.as_str()), (HANDLE, NODE_ID));
    assert_eq!(json!(request.volume_context), json!({ "partition": "" }));
    // The plugin never attached a disk for writing twice, whatever the volume says.
    assert_eq!(request.volume_capability.unwrap().access_mode.unwrap().mode(), Mode::SingleNodeWriter);
    assert_eq!(counted(&scene, "ControllerPublishVolume", true).as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn a_volume_of_the_plugin_is_detached_by_the_drivers_name_for_it() {
    let scene = scene(GCE).await;
    scene.add_volume(gce_volume());
    scene.add_attachment(held(attachment_for(GCE)));
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    assert_eq!(scene.writes(), ["release"]);
    assert_eq!(scene.unpublished()[0].volume_id, HANDLE);
    assert_eq!(counted(&scene, "ControllerUnpublishVolume", true).as_deref(), Some("1"));
}

/// Put on by us before the first call, and taken off when the volume is deleted and nothing is attached.
#[tokio::test(start_paused = true)]
async fn our_finalizer_comes_and_goes_on_a_volume_of_the_plugin() {
    let scene = scene(GCE).await;
    scene.add_volume(with(gce_volume(), json!({ "metadata": { "finalizers": null } })));
    scene.add_attachment(attachment_for(GCE));
    scene.attached("pv1-node1").await;
    assert_eq!(scene.writes(), ["protect", "hold", "attached"]);
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    scene.api.delete::<PersistentVolume>(None, "pv1");
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.writes().last().unwrap(), "unprotect");
    assert!(scene.api.get_json::<PersistentVolume>(None, "pv1").is_none());
}

/// The volume's object is deleted by force: what was attached is detached all the same.
#[tokio::test(start_paused = true)]
async fn d4_a_volume_of_the_plugin_deleted_by_force_is_detached() {
    let scene = scene(GCE).await;
    scene.add_volume(gce_volume());
    scene.add_attachment(held(attachment_for(GCE)));
    scene.pass(Duration::from_secs(1)).await;
    scene.api.remove::<PersistentVolume>(None, "pv1");
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    assert_eq!(scene.unpublished()[0].volume_id, HANDLE);
}

/// The driver lists the disk with the project that the plugin's source does not tell, and the zone of the node.
#[tokio::test(start_paused = true)]
async fn a_volume_of_the_plugin_is_looked_for_under_its_full_handle() {
    let of_node = "projects/p/zones/europe-west1-b/disks/testpd";
    let unlabelled = with(gce_volume(), json!({ "metadata": { "labels": null } }));
    let inline = json!({ "accessModes": ["ReadWriteOnce"], "csi": { "driver": GCE, "volumeHandle": "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/testpd" } });
    let inline_attachment = with(inline_attachment(inline), json!({ "spec": { "attacher": GCE } }));
    let rows = [
        ("labelled, listed", gce_volume(), attachment_for(GCE), "projects/p/zones/testZone/disks/testpd", 0),
        ("labelled, elsewhere", gce_volume(), attachment_for(GCE), of_node, 1),
        ("unlabelled, listed", unlabelled.clone(), attachment_for(GCE), of_node, 0),
        ("inline, listed", unlabelled.clone(), inline_attachment.clone(), of_node, 0),
        ("inline, not listed", unlabelled, inline_attachment, "projects/p/zones/z/disks/testpd", 1),
    ];
    assert_eq!(rows.len(), 5);
    for (case, volume, attachment, listed, calls) in rows {
        let scene = listing(GCE).await;
        scene.add_volume(volume);
        scene.driver.publish(listed, NODE_ID);
        scene.add_attachment(held(attachment));
        scene.pass(Duration::from_secs(150)).await;
        assert_eq!(scene.count(Rpc::ControllerPublishVolume), calls, "{case}");
        assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0, "{case}");
    }
}

/// A handle that is not of the driver's form cannot be looked for, and is no reason for a call.
#[tokio::test(start_paused = true)]
async fn an_inline_volume_whose_handle_cannot_be_completed_is_not_compared() {
    let scene = listing(GCE).await;
    let inline = json!({ "accessModes": ["ReadWriteOnce"], "csi": { "driver": GCE, "volumeHandle": "odd" } });
    scene.add_attachment(held(with(inline_attachment(inline), json!({ "spec": { "attacher": GCE } }))));
    scene.pass(Duration::from_mins(10)).await;
    assert!(scene.count(Rpc::ListVolumes) >= 9);
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), 0);
}

/// kube-controller-manager has translated it; it counts as one of the driver's.
#[tokio::test(start_paused = true)]
async fn an_inline_volume_is_published_under_the_handle_it_has() {
    let scene = scene(GCE).await;
    let inline = json!({ "accessModes": ["ReadWriteOnce"], "csi": { "driver": GCE, "volumeHandle": HANDLE } });
    scene.add_attachment(with(inline_attachment(inline), json!({ "spec": { "attacher": GCE } })));
    scene.attached("pv1-node1").await;
    assert_eq!(scene.published()[0].volume_id, HANDLE);
    assert_eq!(counted(&scene, "ControllerPublishVolume", false).as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn the_secret_of_a_portworx_volume_goes_with_the_call() {
    let portworx = "pxd.portworx.com";
    let scene = scene(portworx).await;
    scene.add_secret(secret("px", json!({ "token": "c2VjcmV0" })));
    let annotations =
        json!({ "openstorage.io/auth-secret-name": "px", "openstorage.io/auth-secret-namespace": "default" });
    let source = json!({ "portworxVolume": { "volumeID": "p1", "fsType": "xfs" } });
    scene.add_volume(with(volume(source), json!({ "metadata": { "annotations": annotations } })));
    scene.add_attachment(attachment_for(portworx));
    scene.attached("pv1-node1").await;
    let request: ControllerPublishVolumeRequest = scene.published().remove(0);
    assert_eq!(request.volume_id, "p1");
    assert_eq!(json!(request.secrets), json!({ "token": "secret" }));
}

/// Attached by a Go attacher in its time, or never: without a handle there is no call, and nothing is let go.
#[tokio::test(start_paused = true)]
async fn a_volume_that_the_driver_cannot_know_says_so() {
    let ebs = "ebs.csi.aws.com";
    let rows = [
        (
            json!({ "awsElasticBlockStore": { "volumeID": "aws://a/disk-1" } }),
            "\"aws://a/disk-1\" is no volume of kubernetes.io/aws-ebs",
        ),
        (json!({ "gcePersistentDisk": { "pdName": "d" } }), "belongs to CSI driver pd.csi.storage.gke.io"),
        (json!({ "nfs": { "server": "s", "path": "/" } }), "could not find a CSI volume source"),
    ];
    for (source, expected) in rows {
        let scene = scene(ebs).await;
        scene.add_volume(volume(source));
        scene.add_attachment(attachment_for(ebs));
        let found = scene.status("pv1-node1", |status| status.get("attachError").is_some()).await;
        let message = found["status"]["attachError"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");

        let ours = json!({ "metadata": { "name": "old", "finalizers": ["external-attacher/ebs-csi-aws-com"] } });
        scene.add_attachment(with(held(attachment_for(ebs)), ours));
        scene.delete_attachment("old");
        let found = scene.status("old", |status| status.get("detachError").is_some()).await;
        let message = found["status"]["detachError"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
        assert_eq!(found["metadata"]["finalizers"], json!(["external-attacher/ebs-csi-aws-com"]));
        assert_eq!(scene.count(Rpc::ControllerPublishVolume) + scene.count(Rpc::ControllerUnpublishVolume), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_inline_volume_with_the_source_of_a_plugin_is_none_of_the_driver() {
    let scene = scene(GCE).await;
    let inline = json!({ "accessModes": ["ReadWriteOnce"], "gcePersistentDisk": { "pdName": "d" } });
    scene.add_attachment(with(inline_attachment(inline), json!({ "spec": { "attacher": GCE } })));
    let found = scene.status("pv1-node1", |status| status.get("attachError").is_some()).await;
    let message = found["status"]["attachError"]["message"].as_str().unwrap();
    assert!(message.contains("could not find a CSI volume source"), "{message}");
}
