//! A driver that replaces a plugin built into Kubernetes (KEP-625): claims, classes and volumes of the plugin.

use std::time::Duration;

use csi_proto::csi::v1::plugin_capability::service::Type as PluginService;
use csi_proto::csi::v1::{CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, Topology, Volume};
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Identity, Rpc, Step};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use prometheus::TextEncoder;
use serde_json::{Value, json};
use tonic::Code;

use super::eligibility::class_record_of;
use super::objects::{claim, class, secret, volume, with};
use super::scene::{Scene, flags};
use crate::migration::{ProvisionerNames, csi_class};
use crate::records::class::ClassOwner;

const EBS: &str = "ebs.csi.aws.com";
const EBS_PLUGIN: &str = "kubernetes.io/aws-ebs";
const GCE: &str = "pd.csi.storage.gke.io";
const GCE_PLUGIN: &str = "kubernetes.io/gce-pd";

async fn scene(driver: &str) -> Scene {
    Scene::with(flags(), |identity| identity.name = driver.to_owned()).await
}

fn class_of(provisioner: &str, parameters: Value) -> Value {
    with(class("fast", parameters), &json!({ "provisioner": provisioner }))
}

/// A claim with the annotations as kube-controller-manager writes them.
fn claim_for(ga: Option<&str>, beta: Option<&str>, migrated_to: Option<&str>) -> Value {
    let annotations = json!({
        "volume.kubernetes.io/storage-provisioner": ga,
        "volume.beta.kubernetes.io/storage-provisioner": beta,
        "pv.kubernetes.io/migrated-to": migrated_to,
    });
    with(claim("data", "fast"), &json!({ "metadata": { "annotations": annotations } }))
}

fn migrated_claim(plugin: &str, driver: &str) -> Value {
    claim_for(Some(plugin), Some(plugin), Some(driver))
}

/// What the driver answers to `CreateVolume`.
fn answer(id: &'static str, context: &'static [(&str, &str)]) -> Step {
    Step::respond(move |request: &CreateVolumeRequest| {
        let capacity_bytes = request.capacity_range.as_ref().map_or(0, |range| range.required_bytes);
        let volume_context = context.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let volume = Volume { volume_id: id.to_owned(), capacity_bytes, volume_context, ..Volume::default() };
        Ok(CreateVolumeResponse { volume: Some(volume) })
    })
}

fn metrics(scene: &Scene) -> String {
    TextEncoder::new().encode_to_string(&scene.registry.gather()).unwrap()
}

/// How many calls of `rpc` are counted with the label `migrated` of this value.
fn counted(scene: &Scene, rpc: &str, migrated: bool) -> Option<String> {
    let method = format!("method_name=\"/csi.v1.Controller/{rpc}\",migrated=\"{migrated}\"");
    let text = metrics(scene);
    let line = text.lines().find(|line| line.contains("_count{") && line.contains(&method))?;
    Some(line.rsplit_once(' ').unwrap().1.to_owned())
}

/// Migration on provision, as the Go provisioner's own table has it.
#[tokio::test(start_paused = true)]
async fn whose_class_it_is_decides_what_the_volume_becomes() {
    let other = "foo.csi.example.com";
    // provisioner of the class; GA, beta and migrated-to annotation of the claim; the field of the volume
    let rows = [
        (EBS_PLUGIN, claim_for(None, Some(EBS), None), Some("awsElasticBlockStore")),
        (EBS_PLUGIN, claim_for(Some(EBS), None, None), Some("awsElasticBlockStore")),
        (EBS_PLUGIN, claim_for(None, Some(EBS_PLUGIN), Some(EBS)), Some("awsElasticBlockStore")),
        (EBS_PLUGIN, claim_for(Some(EBS_PLUGIN), None, Some(EBS)), Some("awsElasticBlockStore")),
        (EBS_PLUGIN, claim_for(Some(EBS), None, Some(EBS)), Some("awsElasticBlockStore")),
        (EBS, claim_for(Some(EBS), None, None), Some("csi")),
        (EBS, claim_for(Some(EBS_PLUGIN), None, Some(EBS)), Some("csi")),
        (EBS_PLUGIN, claim_for(Some(EBS_PLUGIN), None, Some(other)), None),
        (EBS_PLUGIN, claim_for(Some(other), None, Some(other)), None),
        (EBS_PLUGIN, claim_for(Some(EBS_PLUGIN), None, None), None),
    ];
    assert_eq!(rows.len(), 10);
    for (provisioner, object, field) in rows {
        let scene = scene(EBS).await;
        scene.add_class(class_of(provisioner, json!({})));
        let uid = scene.add_claim(object.clone());
        let Some(field) = field else {
            scene.pass(Duration::from_hours(1)).await;
            assert_eq!(scene.count(Rpc::CreateVolume), 0, "{provisioner} {object}");
            continue;
        };
        let volume = scene.volume(&format!("pvc-{uid}")).await;
        let spec = &volume["spec"];
        assert!(spec[field].is_object(), "{provisioner} {object} {volume}");
        assert_eq!(spec["csi"].is_object(), field == "csi", "{volume}");
        assert_eq!(volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"], provisioner);
        assert_eq!(counted(&scene, "CreateVolume", field != "csi").as_deref(), Some("1"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_plugin_becomes_a_volume_of_the_plugin_and_goes_again() {
    let scene = scene(GCE).await;
    scene.add_class(class_of(GCE_PLUGIN, json!({ "fstype": "xfs", "type": "pd-ssd" })));
    scene.driver.script(Rpc::CreateVolume, answer("projects/p/zones/europe-west1-b/disks/pvc-x", &[]));
    let uid = scene.add_claim(migrated_claim(GCE_PLUGIN, GCE));
    let name = format!("pvc-{uid}");
    let volume = scene.volume(&name).await;
    assert_eq!(volume["spec"]["gcePersistentDisk"], json!({ "pdName": "pvc-x", "fsType": "xfs" }));
    assert_eq!(volume["spec"]["claimRef"]["uid"], uid.as_str());
    assert_eq!(volume["spec"]["storageClassName"], "fast");
    assert_eq!(volume["metadata"]["finalizers"], json!(["external-provisioner.volume.kubernetes.io/finalizer"]));
    let parameters = &scene.driver.requests::<CreateVolumeRequest>()[0].parameters;
    assert_eq!(json!(parameters), json!({ "type": "pd-ssd" }));
    scene.event("ProvisioningSucceeded").await;

    scene.bind("data", &name);
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    scene.release(&name);
    scene.volume_gone(&name).await;
    let deleted = scene.driver.requests::<DeleteVolumeRequest>();
    assert_eq!(deleted.len(), 1);
    assert_eq!(deleted[0].volume_id, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/pvc-x");
    assert_eq!(counted(&scene, "DeleteVolume", true).as_deref(), Some("1"));
}

/// Zones of the class go to the driver under its key, and come back under Kubernetes' own, with the region.
#[tokio::test(start_paused = true)]
async fn the_zones_of_a_plugins_class_reach_the_driver_and_the_volume() {
    let zoned = |identity: &mut Identity| {
        identity.name = EBS.to_owned();
        identity.plugin_capabilities.push(PluginService::VolumeAccessibilityConstraints);
    };
    let scene = Scene::with(flags(), zoned).await;
    scene.add_class(class_of(EBS_PLUGIN, json!({ "zones": "us-east-1a" })));
    let place = Topology { segments: [("topology.ebs.csi.aws.com/zone".to_owned(), "us-east-1a".to_owned())].into() };
    let accessible_topology = vec![place.clone()];
    let made = move |_: &CreateVolumeRequest| {
        let volume = Volume { volume_id: "vol-1".to_owned(), accessible_topology, ..Volume::default() };
        Ok(CreateVolumeResponse { volume: Some(volume) })
    };
    scene.driver.script(Rpc::CreateVolume, Step::respond(made));
    let uid = scene.add_claim(migrated_claim(EBS_PLUGIN, EBS));
    let volume = scene.volume(&format!("pvc-{uid}")).await;
    let asked = scene.driver.requests::<CreateVolumeRequest>().remove(0);
    assert_eq!(asked.accessibility_requirements.unwrap().requisite, [place]);
    assert!(asked.parameters.is_empty());
    let (zone, region) = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region");
    assert_eq!(volume["metadata"]["labels"], json!({ zone: "us-east-1a", region: "us-east-1" }));
    let expressions = json!([
        { "key": zone, "operator": "In", "values": ["us-east-1a"] },
        { "key": region, "operator": "In", "values": ["us-east-1"] },
    ]);
    let terms = json!([{ "matchExpressions": expressions }]);
    assert_eq!(volume["spec"]["nodeAffinity"], json!({ "required": { "nodeSelectorTerms": terms } }));
}

/// The handle that the object tells is not the one that the driver gave: it is the same volume all the same.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_the_write_of_such_a_volume_is_found_out() {
    let scene = scene(GCE).await;
    scene.add_class(class_of(GCE_PLUGIN, json!({})));
    scene.driver.script(Rpc::CreateVolume, answer("projects/p/zones/z/disks/d", &[]));
    let busy = Reaction::Refuse(Status::new(500, "InternalError", "etcd is busy"));
    scene.api.react(Matcher::of("create", "persistentvolumes").once(), busy);
    scene.api.react(Matcher::of("create", "persistentvolumes").once(), Reaction::LoseAnswer);
    scene.add_claim(migrated_claim(GCE_PLUGIN, GCE));
    scene.event("ProvisioningSucceeded").await;
    scene.pass(Duration::from_hours(1)).await;
    assert!(scene.events("ProvisioningFailed").iter().all(|text| !text.contains("another claim")));
    assert_eq!((scene.count(Rpc::CreateVolume), scene.count(Rpc::DeleteVolume)), (1, 0));
}

/// What the driver has made and nobody could find again is deleted before it is forgotten.
#[tokio::test(start_paused = true)]
async fn a_volume_that_cannot_be_one_of_the_plugin_is_deleted_again() {
    let rows = [
        (EBS, EBS_PLUGIN, "vol-1", &[("partition", "first")][..], "partition is \"first\""),
        (GCE, GCE_PLUGIN, "disk-1", &[], "\"disk-1\" is no volume of kubernetes.io/gce-pd"),
        ("csi.vsphere.vmware.com", "kubernetes.io/vsphere-volume", "id", &[], "no name for it that the plugin knows"),
    ];
    for (driver, plugin, handle, context, expected) in rows {
        let scene = scene(driver).await;
        scene.add_class(class_of(plugin, json!({})));
        scene.driver.script_always(Rpc::CreateVolume, move || answer(handle, context));
        scene.add_claim(migrated_claim(plugin, driver));
        let text = scene.event("ProvisioningFailed").await;
        assert!(text.contains(expected) && text.contains("it was deleted again"), "{text}");
        scene.pass(Duration::from_secs(100)).await;
        let (made, deleted) = (scene.count(Rpc::CreateVolume), scene.count(Rpc::DeleteVolume));
        assert_eq!(made, deleted, "tried again with a growing delay, and nothing is left");
        assert!((2..=8).contains(&made), "{made}");
        assert!(scene.driver.requests::<DeleteVolumeRequest>().iter().all(|request| request.volume_id == handle));
        assert!(scene.writes().is_empty());
        scene.api.delete::<PersistentVolumeClaim>("shop", "data");
        scene.pass(Duration::from_hours(1)).await;
        let made = scene.count(Rpc::CreateVolume);
        scene.pass(Duration::from_hours(10)).await;
        assert_eq!((scene.count(Rpc::CreateVolume), scene.count(Rpc::DeleteVolume)), (made, made));
    }
}

/// While it cannot be deleted the call is remembered, with or without the claim.
#[tokio::test(start_paused = true)]
async fn a_volume_that_cannot_be_one_of_the_plugin_is_not_forgotten_before_it_is_deleted() {
    let scene = scene(EBS).await;
    scene.add_class(class_of(EBS_PLUGIN, json!({})));
    scene.driver.script_always(Rpc::CreateVolume, || answer("vol-1", &[("partition", "first")]));
    scene.driver.script_always(Rpc::DeleteVolume, || Step::fail(Code::Internal, "busy"));
    scene.add_claim(migrated_claim(EBS_PLUGIN, EBS));
    assert!(scene.event("ProvisioningFailed").await.contains("deleting it again failed"));
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    scene.pass(Duration::from_hours(1)).await;
    scene.driver.forget_script();
    scene.driver.script(Rpc::CreateVolume, answer("vol-1", &[("partition", "first")]));
    let before = scene.count(Rpc::DeleteVolume);
    scene.pass(Duration::from_mins(10)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), before + 1);
    let made = scene.count(Rpc::CreateVolume);
    scene.pass(Duration::from_hours(10)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), made);
}

#[tokio::test(start_paused = true)]
async fn a_class_that_cannot_be_translated_is_told_and_nothing_is_asked_for() {
    let scene = scene(EBS).await;
    let zones = json!([{ "matchLabelExpressions": [{ "key": "topology.kubernetes.io/zone", "values": ["a"] }] }]);
    scene.add_class(with(class_of(EBS_PLUGIN, json!({ "zone": "a" })), &json!({ "allowedTopologies": zones })));
    scene.add_claim(migrated_claim(EBS_PLUGIN, EBS));
    assert!(scene.event("ProvisioningFailed").await.contains("allowedTopologies and a parameter zone"));
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
}

#[test]
fn the_translated_class_carries_the_drivers_topology_and_stays_the_plugins() {
    let names = ProvisionerNames::of(EBS);
    let in_tree = class_record_of(EBS, class_of(EBS_PLUGIN, json!({ "zones": "a,b", "fstype": "xfs" })));
    let translated = csi_class(&names, &in_tree).unwrap();
    assert_eq!(json!(translated.parameters), json!({ "csi.storage.k8s.io/fstype": "xfs" }));
    let expression = &translated.allowed_topologies[0].match_label_expressions[0];
    assert_eq!(
        (expression.key.as_str(), &expression.values[..]),
        ("topology.ebs.csi.aws.com/zone", &["a", "b"].map(String::from)[..])
    );
    assert_eq!((translated.owner, &translated.uid), (ClassOwner::InTree, &in_tree.uid));
    let own = class_record_of(EBS, class_of(EBS, json!({ "zones": "a" })));
    assert_eq!(csi_class(&names, &own).unwrap(), own);
}

/// With the Go provisioner a class of a plugin cannot clone or restore, except for Portworx's.
#[test]
fn the_driver_that_a_source_must_belong_to() {
    let portworx = ("pxd.portworx.com", "kubernetes.io/portworx-volume");
    let rows = [
        (EBS, EBS, EBS),
        (EBS, EBS_PLUGIN, EBS_PLUGIN),
        (GCE, GCE_PLUGIN, GCE_PLUGIN),
        (portworx.0, portworx.1, portworx.0),
        (portworx.0, portworx.0, portworx.0),
    ];
    assert_eq!(rows.len(), 5);
    for (driver, provisioner, expected) in rows {
        let class = class_record_of(driver, class_of(provisioner, json!({})));
        let names = ProvisionerNames::of(driver);
        assert_eq!(names.driver_of_source(&class), expected, "{provisioner}");
        assert_eq!(names.provisioned_by(&class), provisioner);
    }
}

/// Volumes made by hand, or by the plugin in its day: no annotation names the Secret, so the translated class does.
#[tokio::test(start_paused = true)]
async fn the_secret_of_a_deletion_is_found_in_the_translated_class() {
    let (driver, plugin) = ("pxd.portworx.com", "kubernetes.io/portworx-volume");
    let scene = scene(driver).await;
    let parameters =
        json!({ "openstorage.io/auth-secret-name": "px", "openstorage.io/auth-secret-namespace": "vault" });
    scene.add_class(class_of(plugin, parameters));
    scene.add_secret(secret("vault", "px", "token", "c2VjcmV0"));
    let in_tree = json!({
        "metadata": { "annotations": {
            "pv.kubernetes.io/provisioned-by": plugin,
            "pv.kubernetes.io/migrated-to": driver,
            "volume.kubernetes.io/provisioner-deletion-secret-name": null,
            "volume.kubernetes.io/provisioner-deletion-secret-namespace": null } },
        "spec": { "csi": null, "portworxVolume": { "volumeID": "p1" } },
    });
    scene.pass(Duration::from_secs(1)).await;
    scene.add_volume(with(volume("pv", "h", "Released", "Delete"), &in_tree));
    scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, 1).await;
    let request = scene.driver.requests::<DeleteVolumeRequest>().remove(0);
    assert_eq!(request.volume_id, "p1");
    assert_eq!(json!(request.secrets), json!({ "token": "secret" }));
}

#[tokio::test(start_paused = true)]
async fn volumes_that_the_driver_cannot_know_are_not_deleted() {
    let rows = [
        (json!({ "awsElasticBlockStore": { "volumeID": "aws://a/disk-1" } }), "no volume of kubernetes.io/aws-ebs"),
        (json!({ "gcePersistentDisk": { "pdName": "d" } }), "belongs to CSI driver pd.csi.storage.gke.io"),
        (json!({ "nfs": { "server": "s", "path": "/" } }), "no CSI source"),
    ];
    for (source, expected) in rows {
        let scene = scene(EBS).await;
        let annotations = json!({ "pv.kubernetes.io/provisioned-by": EBS_PLUGIN, "pv.kubernetes.io/migrated-to": EBS });
        let object =
            with(volume("pv", "h", "Released", "Delete"), &json!({ "metadata": { "annotations": annotations } }));
        scene.add_volume(with(with(object, &json!({ "spec": { "csi": null } })), &json!({ "spec": source })));
        let text = scene.event("VolumeFailedDelete").await;
        assert!(text.contains(expected), "{text}");
        assert_eq!(scene.count(Rpc::DeleteVolume), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_driver_that_replaces_a_plugin_has_the_label() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.volume(&format!("pvc-{uid}")).await;
    assert!(!metrics(&scene).contains("migrated="));
}
