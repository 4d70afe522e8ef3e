//! Volumes made of other volumes.

use anyhow::Result;
use e2e::eventually;
use e2e::scene::{PATIENCE, Scene, leading};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;

const CLONES: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,CLONE_VOLUME";
const CLONE_SOURCE_PROTECTION: &str = "provisioner.storage.kubernetes.io/cloning-protection";
/// So long that no try of a test comes by itself.
const NO_RETRY: &str = "--retry-interval-start=1h";

/// kube-controller-manager takes its own finalizer off a claim that no pod uses (`pvcprotection.Controller.processPVC`): ours
/// alone keeps the source.
fn is_kept_by_the_clone(source: &PersistentVolumeClaim) -> bool {
    let metadata = &source.metadata;
    metadata.deletion_timestamp.is_some() && metadata.finalizers.iter().flatten().eq([CLONE_SOURCE_PROTECTION])
}

#[tokio::test]
async fn l10_n15_a_source_deleted_after_a_refusal_is_there_when_the_restarted_driver_is_asked_again() -> Result<()> {
    let works_once = [CLONES, "--fault=CreateVolume:delay=1ms,times=1", "--fault=CreateVolume:code=INTERNAL"];
    let mut scene = Scene::start("clone", &works_once).await?;
    let _provisioner = leading(scene.replica()?.flag(NO_RETRY)).await?;
    scene.claim("source", &json!({})).await?;
    let source = scene.bound("source").await?;
    let handle = scene.handle(&source).await?;
    scene.claim("clone", &json!({ "dataSource": { "kind": "PersistentVolumeClaim", "name": "source" } })).await?;
    scene.event("ProvisioningFailed", "injected by --fault").await?;

    scene.delete_claim("source").await?;
    let kept = "only the clone to keep the source";
    eventually::object(&scene.claims(), "source", kept, PATIENCE, is_kept_by_the_clone).await?;
    scene.driver.stop().await?;
    scene.driver.set_flags(&[CLONES]);
    scene.driver.start_again().await?;
    let clone = scene.bound("clone").await?;
    assert_eq!(scene.codes("CreateVolume")?, ["OK", "INTERNAL", "OK"]);
    let made_of = &scene.driver.calls("CreateVolume")?[2].request["volume_content_source"];
    assert_eq!(made_of["volume"]["volume_id"], handle, "{made_of}");

    eventually::gone(&scene.claims(), "source", PATIENCE).await?;
    eventually::gone(&scene.volumes(), &source, PATIENCE).await?;
    scene.delete_claim("clone").await?;
    scene.gone(&clone).await
}
