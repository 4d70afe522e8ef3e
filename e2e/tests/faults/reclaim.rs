//! Volumes whose objects are edited, deleted in the wrong order, or outlive what they were made from.

use std::time::Duration;

use anyhow::Result;
use e2e::Cluster;
use e2e::eventually::{self, throughout};
use e2e::proxy::{Fault, On, Proxy};
use e2e::scene::{PATIENCE, Scene, leading};
use k8s_openapi::api::core::v1::{PersistentVolume, Secret};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::lease::Brief as _;

const FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

fn protected(volume: &PersistentVolume) -> bool {
    volume.metadata.finalizers.iter().flatten().any(|found| found == FINALIZER)
}

fn released(volume: &PersistentVolume) -> bool {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Released")
}

async fn patch(scene: &Scene, volume: &str, patch: Value) -> Result<()> {
    scene.volumes().patch(volume, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

async fn until(scene: &Scene, volume: &str, what: &str, condition: fn(&PersistentVolume) -> bool) -> Result<()> {
    eventually::object(&scene.volumes(), volume, what, PATIENCE, condition).await.map(drop)
}

/// One volume from before there was a finalizer, one whose policy was edited there and back, one made by hand.
#[tokio::test]
async fn a6_a_volume_object_deleted_before_its_claim_is_deleted_at_the_driver() -> Result<()> {
    let scene = Scene::start("a6", &[]).await?;
    let mut provisioner = leading(scene.replica()?.brief()).await?;
    scene.claim("older", &json!({})).await?;
    scene.claim("edited", &json!({})).await?;
    let (older, edited) = (scene.bound("older").await?, scene.bound("edited").await?);

    patch(&scene, &edited, json!({ "spec": { "persistentVolumeReclaimPolicy": "Retain" } })).await?;
    until(&scene, &edited, "our finalizer to go", |volume| !protected(volume)).await?;
    patch(&scene, &edited, json!({ "spec": { "persistentVolumeReclaimPolicy": "Delete" } })).await?;
    until(&scene, &edited, "our finalizer to come", protected).await?;

    provisioner.terminate()?;
    provisioner.process().ended(PATIENCE).await?;
    patch(&scene, &older, json!({ "metadata": { "finalizers": ["kubernetes.io/pv-protection"] } })).await?;
    let by_hand = json!({
        "metadata": { "name": format!("by-hand-{}", scene.class) },
        "spec": {
            "capacity": { "storage": "1Mi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": scene.class,
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": { "namespace": scene.namespace, "name": "by-hand" },
            "csi": { "driver": scene.driver.name(), "volumeHandle": "made-by-hand" },
        },
    });
    let by_hand = scene.volumes().create(&PostParams::default(), &serde_json::from_value(by_hand)?).await?;
    let by_hand = by_hand.metadata.name.expect("it has a name");
    scene.claim("by-hand", &json!({ "volumeName": by_hand })).await?;
    scene.bound("by-hand").await?;
    let _next = leading(scene.replica()?.brief()).await?;

    for (claim, volume) in [("older", &older), ("edited", &edited), ("by-hand", &by_hand)] {
        until(&scene, volume, "our finalizer to come", protected).await?;
        scene.volumes().delete(volume, &DeleteParams::default()).await?;
        scene.delete_claim(claim).await?;
    }
    for volume in [&older, &edited, &by_hand] {
        scene.gone(volume).await?;
    }
    assert_eq!(scene.codes("DeleteVolume")?, ["OK"; 3]);
    let deleted = scene.driver.calls("DeleteVolume")?;
    assert!(deleted.iter().any(|call| call.volume() == Some("made-by-hand")), "{deleted:#?}");
    Ok(())
}

#[tokio::test]
async fn a6_a_retained_volume_has_no_finalizer_and_stays_at_the_driver() -> Result<()> {
    let scene = Scene::start("a6-retain", &[]).await?;
    let _provisioner = leading(scene.replica()?.brief()).await?;
    scene.add_class(&json!({ "reclaimPolicy": "Retain" })).await?;
    scene.claim("data", &json!({})).await?;
    let name = scene.bound("data").await?;
    until(&scene, &name, "our finalizer to go", |volume| !protected(volume)).await?;
    scene.volumes().delete(&name, &DeleteParams::default()).await?;
    scene.delete_claim("data").await?;
    eventually::gone(&scene.volumes(), &name, PATIENCE).await?;
    let kept = async || Ok(scene.codes("DeleteVolume")?.is_empty() && scene.backend_volumes()? == 1);
    throughout("the volume stays at the driver", Duration::from_millis(500), kept).await
}

#[tokio::test]
async fn a19_delete_volume_carries_the_secret_when_the_class_is_gone_or_replaced() -> Result<()> {
    let scene = Scene::start("a19", &[]).await?;
    Cluster::shared().await?.grant_secrets(&scene.account).await?;
    let parameters = json!({ "parameters": {
        "csi.storage.k8s.io/provisioner-secret-name": "${pvc.name}-key",
        "csi.storage.k8s.io/provisioner-secret-namespace": "${pvc.namespace}",
    } });
    scene.add_class(&parameters).await?;
    let secrets: Api<Secret> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let _provisioner = leading(scene.replica()?.brief()).await?;
    let claims = ["class-replaced", "class-gone"];
    let mut volumes = Vec::new();
    for claim in claims {
        let secret = json!({ "metadata": { "name": format!("{claim}-key") }, "stringData": { "password": "hunter2" } });
        secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
        scene.claim(claim, &json!({})).await?;
        volumes.push(scene.bound(claim).await?);
    }
    scene.add_class(&json!({})).await?;
    scene.delete_claim("class-replaced").await?;
    eventually::gone(&scene.volumes(), &volumes[0], PATIENCE).await?;
    let classes: Api<StorageClass> = Api::all(scene.client.clone());
    classes.delete(&scene.class, &DeleteParams::default()).await?;
    scene.delete_claim("class-gone").await?;
    scene.gone(&volumes[1]).await?;
    let deleted = scene.driver.calls("DeleteVolume")?;
    assert_eq!(deleted.len(), 2);
    for call in deleted {
        assert_eq!((&*call.code, &call.request["secrets"]), ("OK", &json!("***stripped***")));
    }
    Ok(())
}

/// The watch is kept back while others edit the volume that was just written: what the process remembers of its own
/// write must not stand against what the cache shows later.
#[tokio::test]
async fn a22_an_edit_right_after_creation_wins_over_the_memory_of_the_own_write() -> Result<()> {
    let scene = Scene::start("a22", &[]).await?;
    let link = Proxy::start(&scene.account.kubeconfig).await?;
    let _provisioner = leading(scene.replica_behind(&link)?.brief()).await?;
    let behind = link.fault(On::only("watch", "persistentvolumes"), Fault::HoldAnswer);
    scene.claim("kept", &json!({})).await?;
    scene.claim("deleted", &json!({})).await?;
    let (kept, deleted) = (scene.bound("kept").await?, scene.bound("deleted").await?);
    patch(&scene, &kept, json!({ "spec": { "persistentVolumeReclaimPolicy": "Retain" } })).await?;
    scene.delete_claim("kept").await?;
    until(&scene, &kept, "the volume to be Released", released).await?;
    scene.delete_claim("deleted").await?;
    until(&scene, &deleted, "the volume to be Released", released).await?;
    assert_eq!(scene.codes("DeleteVolume")?, [""; 0]);

    drop(behind);
    eventually::gone(&scene.volumes(), &deleted, PATIENCE).await?;
    until(&scene, &kept, "our finalizer to go", |volume| !protected(volume)).await?;
    assert_eq!(scene.codes("CreateVolume")?, ["OK"; 2]);
    assert_eq!(scene.codes("DeleteVolume")?, ["OK"], "that of the other volume");
    assert_eq!(scene.backend_volumes()?, 1);
    Ok(())
}
