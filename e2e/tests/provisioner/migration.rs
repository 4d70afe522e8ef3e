//! A driver that replaces a plugin built into Kubernetes: kube-controller-manager hands it the claims of the plugin's classes,
//! and the API server has to take the plugin's volumes.

use anyhow::Result;
use e2e::scene::Scene;
use serde_json::{Value, json};

#[tokio::test]
async fn a_claim_of_a_plugins_class_is_provisioned_bound_and_deleted() -> Result<()> {
    let mut scene = Scene::start("migrated", &[]).await?;
    scene.driver.stop().await?;
    scene.driver.rename("ebs.csi.aws.com");
    scene.driver.start_again().await?;
    scene.add_class(&json!({ "provisioner": "kubernetes.io/aws-ebs", "parameters": { "fsType": "xfs" } })).await?;
    let _provisioner = scene.leader().await?;
    scene.claim("data", &json!({})).await?;
    let name = scene.bound("data").await?;
    let volume: Value = serde_json::to_value(scene.volumes().get(&name).await?)?;
    let source = &volume["spec"]["awsElasticBlockStore"];
    assert_eq!(source["fsType"], "xfs", "{volume}");
    assert!(volume["spec"]["csi"].is_null(), "{volume}");
    let annotations = &volume["metadata"]["annotations"];
    assert_eq!(annotations["pv.kubernetes.io/provisioned-by"], "kubernetes.io/aws-ebs");

    scene.delete_claim("data").await?;
    scene.gone(&name).await?;
    assert_eq!(scene.codes("CreateVolume")?, ["OK"]);
    assert_eq!(scene.codes("DeleteVolume")?, ["OK"]);
    assert_eq!(scene.backend_volumes()?, 0);
    Ok(())
}
