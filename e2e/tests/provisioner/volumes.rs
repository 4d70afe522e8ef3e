//! Claims become volumes, and go away again.

use anyhow::Result;
use e2e::scene::{PATIENCE, Scene};
use e2e::{Cluster, eventually};
use k8s_openapi::api::core::v1::{Event, PersistentVolume, Secret};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

#[tokio::test]
async fn a_claim_is_provisioned_bound_and_deleted() -> Result<()> {
    let scene = Scene::start("plain", &[]).await?;
    let provisioner = scene.leader().await?;
    scene.claim("data", &json!({})).await?;
    let name = scene.bound("data").await?;
    let volume = scene.volumes().get(&name).await?;
    let spec = volume.spec.expect("a volume has a spec");
    assert_eq!(spec.persistent_volume_reclaim_policy.as_deref(), Some("Delete"));
    assert_eq!(spec.storage_class_name.as_deref(), Some(scene.class.as_str()));
    assert_eq!(spec.csi.expect("it is a CSI volume").driver, scene.driver.name());
    scene.event("ProvisioningSucceeded", &format!("Successfully provisioned volume {name}")).await?;
    assert_eq!(scene.backend_volumes()?, 1);

    scene.delete_claim("data").await?;
    scene.gone(&name).await?;
    assert_eq!(scene.codes("CreateVolume")?, ["OK"], "exactly one call makes the volume");
    assert_eq!(scene.codes("DeleteVolume")?, ["OK"], "exactly one call deletes it");
    let line = format!(r#"controller_persistentvolume_delete_total{{class="{}"}} 1"#, scene.class);
    provisioner.metric(&line, PATIENCE).await
}

#[tokio::test]
async fn many_claims_at_once_take_one_call_each() -> Result<()> {
    let scene = Scene::start("many", &[]).await?;
    let _provisioner = scene.leader().await?;
    let claims: Vec<_> = (0..50).map(|n| format!("data-{n}")).collect();
    for claim in &claims {
        scene.claim(claim, &json!({})).await?;
    }
    let mut volumes = Vec::new();
    for claim in &claims {
        volumes.push(scene.bound(claim).await?);
    }
    for claim in &claims {
        scene.delete_claim(claim).await?;
    }
    for volume in &volumes {
        scene.gone(volume).await?;
    }
    assert_eq!(scene.codes("CreateVolume")?, vec!["OK"; 50]);
    assert_eq!(scene.codes("DeleteVolume")?, vec!["OK"; 50]);
    Ok(())
}

#[tokio::test]
async fn a_retained_volume_stays_until_its_policy_is_edited() -> Result<()> {
    let scene = Scene::start("retain", &[]).await?;
    let _provisioner = scene.leader().await?;
    scene.add_class(&json!({ "reclaimPolicy": "Retain" })).await?;
    scene.claim("data", &json!({})).await?;
    let name = scene.bound("data").await?;
    let finalizer = "external-provisioner.volume.kubernetes.io/finalizer";
    let unprotected =
        |volume: &PersistentVolume| !volume.metadata.finalizers.iter().flatten().any(|found| found == finalizer);
    eventually::object(&scene.volumes(), &name, "our finalizer to go", PATIENCE, unprotected).await?;

    scene.delete_claim("data").await?;
    let released = |volume: &PersistentVolume| {
        volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Released")
    };
    eventually::object(&scene.volumes(), &name, "the volume to be Released", PATIENCE, released).await?;
    assert_eq!(scene.codes("DeleteVolume")?, [""; 0]);

    let policy = json!({ "spec": { "persistentVolumeReclaimPolicy": "Delete" } });
    scene.volumes().patch(&name, &PatchParams::default(), &Patch::Merge(policy)).await?;
    scene.gone(&name).await
}

#[tokio::test]
async fn a_volume_deleted_before_its_claim_leaves_nothing_at_the_driver() -> Result<()> {
    let scene = Scene::start("volume-first", &[]).await?;
    let _provisioner = scene.leader().await?;
    scene.claim("data", &json!({})).await?;
    let name = scene.bound("data").await?;
    scene.volumes().delete(&name, &DeleteParams::default()).await?;
    scene.delete_claim("data").await?;
    scene.gone(&name).await?;
    assert_eq!(scene.codes("DeleteVolume")?, ["OK"]);
    Ok(())
}

#[tokio::test]
async fn a_block_claim_gets_a_block_volume() -> Result<()> {
    let scene = Scene::start("block", &[]).await?;
    let _provisioner = scene.leader().await?;
    scene.claim("data", &json!({ "volumeMode": "Block" })).await?;
    let name = scene.bound("data").await?;
    let spec = scene.volumes().get(&name).await?.spec.expect("a volume has a spec");
    assert_eq!(spec.volume_mode.as_deref(), Some("Block"));
    assert_eq!(spec.csi.expect("it is a CSI volume").fs_type, None);
    let calls = scene.driver.calls("CreateVolume")?;
    assert!(calls[0].request["volume_capabilities"][0].get("block").is_some(), "{}", calls[0].request);
    Ok(())
}

/// Upstream's rules leave Secrets out; who needs them adds them, here for one namespace.
#[tokio::test]
async fn the_provisioner_secret_goes_to_the_driver() -> Result<()> {
    let scene = Scene::start("secret", &[]).await?;
    let mut provisioner = scene.leader().await?;
    let parameters = json!({ "parameters": {
        "csi.storage.k8s.io/provisioner-secret-name": "${pvc.name}-key",
        "csi.storage.k8s.io/provisioner-secret-namespace": "${pvc.namespace}",
    } });
    scene.add_class(&parameters).await?;
    let secrets: Api<Secret> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let secret = json!({ "metadata": { "name": "data-key" }, "stringData": { "password": "canary-in-a-coalmine" } });
    secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    scene.claim("data", &json!({})).await?;
    scene.event("ProvisioningFailed", "data-key").await?;
    assert_eq!(scene.codes("CreateVolume")?, [""; 0], "nothing is made without the Secret");

    Cluster::shared().await?.grant_secrets(&scene.account).await?;
    let name = scene.bound("data").await?;
    let volume = scene.volumes().get(&name).await?;
    let annotations = volume.metadata.annotations.expect("a provisioned volume is annotated");
    assert_eq!(annotations["volume.kubernetes.io/provisioner-deletion-secret-name"], "data-key");
    scene.delete_claim("data").await?;
    scene.gone(&name).await?;
    for rpc in ["CreateVolume", "DeleteVolume"] {
        assert_eq!(scene.driver.calls(rpc)?[0].request["secrets"], "***stripped***", "{rpc} carries secrets");
    }
    assert!(!provisioner.process().log().contains("canary-in-a-coalmine"));
    Ok(())
}

#[tokio::test]
async fn a_claim_that_asks_for_what_is_missing_gets_one_warning() -> Result<()> {
    let scene = Scene::start("missing", &[]).await?;
    let _provisioner = scene.leader().await?;
    let source = json!({ "dataSource": { "kind": "PersistentVolumeClaim", "name": "other" } });
    scene.claim("data", &source).await?;
    scene.event("ProvisioningFailed", "CLONE_VOLUME").await?;
    assert_eq!(scene.codes("CreateVolume")?, [""; 0]);
    Ok(())
}

/// The driver has no PUBLISH_UNPUBLISH_VOLUME: its attachments are somebody else's work, and count all the same.
#[tokio::test]
async fn a12_a13_an_attached_volume_waits_quietly_and_goes_with_its_last_attachment() -> Result<()> {
    let scene = Scene::start("attached", &[]).await?;
    let _provisioner = scene.leader().await?;
    scene.claim("data", &json!({})).await?;
    let name = scene.bound("data").await?;
    let attachments: Api<VolumeAttachment> = Api::all(scene.client.clone());
    let source = json!({ "persistentVolumeName": name });
    let spec = json!({ "attacher": scene.driver.name(), "nodeName": "nowhere", "source": source });
    let attachment = format!("{}-a", scene.class);
    let object = json!({ "metadata": { "name": attachment }, "spec": spec });
    attachments.create(&PostParams::default(), &serde_json::from_value(object)?).await?;

    scene.delete_claim("data").await?;
    let events: Api<Event> = Api::namespaced(scene.client.clone(), "default");
    let of_volume = ListParams::default().fields(&format!("involvedObject.name={name}"));
    let told = eventually::eventually("an event of the volume", PATIENCE, async || {
        let all = events.list(&of_volume).await?.items;
        Ok((!all.is_empty()).then_some(all))
    });
    let told = told.await?;
    let kinds: Vec<_> = told.iter().map(|event| (event.type_.as_deref(), event.reason.as_deref())).collect();
    assert_eq!(kinds, [(Some("Normal"), Some("VolumeDelete"))]);
    assert_eq!(scene.codes("DeleteVolume")?, [""; 0]);
    attachments.delete(&attachment, &DeleteParams::default()).await?;
    scene.gone(&name).await?;
    assert_eq!(scene.codes("DeleteVolume")?, ["OK"]);
    Ok(())
}
