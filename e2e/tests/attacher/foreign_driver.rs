//! A driver that others wrote: Kubernetes' own mock driver, with our provisioner and our attacher.

use anyhow::{Context as _, Result};
use e2e::attach_scene::{AttachScene, driver_name};
use e2e::scene::{PATIENCE, leading};
use e2e::sidecar::{Role, Settings};
use e2e::{Cluster, eventually, mock_driver};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

#[tokio::test]
async fn a_volume_is_made_attached_detached_and_deleted() -> Result<()> {
    let cluster = Cluster::shared().await?;
    let driver = mock_driver::start(&driver_name("mock")).await?;
    let scene = AttachScene::start_with(cluster, "mock", driver).await?;
    let driver = scene.driver.name();
    // The only node that it knows.
    scene.add_node("node", driver).await?;
    let account = cluster.upstream_provisioner_account(&scene.namespace).await?;
    let provisioner = Settings::new(Role::Provisioner, &account.kubeconfig, &scene.driver.address())?;
    let _provisioner = leading(scene.competing(provisioner)).await?;
    let _attacher = scene.leader().await?;

    let classes: Api<StorageClass> = Api::all(scene.client.clone());
    let class = json!({ "metadata": { "name": driver }, "provisioner": driver });
    classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let claim = json!({ "metadata": { "name": "data" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": driver,
        "resources": { "requests": { "storage": "1Mi" } },
    } });
    claims.create(&PostParams::default(), &serde_json::from_value(claim)?).await?;
    let bound = |claim: &PersistentVolumeClaim| {
        claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
    };
    let claim = eventually::object(&claims, "data", "the claim to be Bound", PATIENCE, bound).await?;
    let volume = claim.spec.and_then(|spec| spec.volume_name).context("a Bound claim names its volume")?;

    let source = json!({ "source": { "persistentVolumeName": volume } });
    scene.add_attachment("data", "node", &source).await?;
    let attachment = scene.attached("data").await?;
    let metadata = attachment.status.and_then(|status| status.attachment_metadata).context("a publish context")?;
    assert_eq!((metadata["device"].as_str(), metadata["readonly"].as_str()), ("/dev/mock", "false"));
    let object = scene.volumes().get(&volume).await?;
    let handle = handle(&object).context("a CSI volume")?;
    scene.detach("data").await?;
    scene.detached("data").await?;
    claims.delete("data", &DeleteParams::default()).await?;
    eventually::gone(&scene.volumes(), &volume, PATIENCE).await?;

    let created = scene.driver.calls("CreateVolume")?;
    assert_eq!(created.iter().map(|call| &*call.code).collect::<Vec<_>>(), ["OK"]);
    let course = ["ControllerPublishVolume OK", "ControllerUnpublishVolume OK", "DeleteVolume OK"];
    assert_eq!(scene.course_of(&handle)?, course);
    Ok(())
}

fn handle(volume: &PersistentVolume) -> Option<String> {
    Some(volume.spec.as_ref()?.csi.as_ref()?.volume_handle.clone())
}
