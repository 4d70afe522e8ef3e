//! Secrets reach the driver and nobody else.

use anyhow::{Context as _, Result};
use e2e::scene::PATIENCE;
use e2e::{Pod, Site, eventually};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

const CANARY: &str = "a-canary-in-a-secret";
const STRIPPED: &str = "***stripped***";

#[tokio::test]
async fn secrets_of_the_class_are_sent_with_each_call_and_never_logged() -> Result<()> {
    let Some(mut site) = Site::start("secrets", &[]).await? else { return Ok(()) };
    let secrets: Api<Secret> = Api::namespaced(site.client.clone(), &site.namespace);
    let secret = json!({ "metadata": { "name": "login" }, "stringData": { "password": CANARY } });
    secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    let mut parameters = json!({});
    for step in ["controller-publish", "node-stage", "node-publish"] {
        parameters[format!("csi.storage.k8s.io/{step}-secret-name")] = json!("login");
        parameters[format!("csi.storage.k8s.io/{step}-secret-namespace")] = json!(site.namespace);
    }
    site.add_class(&json!({ "parameters": parameters })).await?;
    let attacher = site.cluster().account(&site.namespace, "csi-attacher").await?;
    site.cluster().grant_secrets(&attacher).await?;
    let granted: Api<Secret> = Api::namespaced(attacher.client().await?, &site.namespace);
    eventually("the rights to be there", PATIENCE, async || Ok(Some(granted.get("login").await?))).await?;

    site.claim("data", &json!({})).await?;
    let pod = Pod::new("pod").claim("data", "/data").runs(&["write", "/data/file", "text"]);
    let pod = pod.create(&site.client, &site.namespace).await?;
    pod.succeeded().await?;
    let volume = site.bound("data").await?;
    pod.delete().await?;
    site.detached(&volume, PATIENCE).await?;
    let with_secrets = ["ControllerPublishVolume", "ControllerUnpublishVolume", "NodeStageVolume", "NodePublishVolume"];
    for call in site.driver.journal()? {
        let expected = if with_secrets.contains(&&*call.rpc) { json!(STRIPPED) } else { Value::Null };
        assert_eq!(call.request["secrets"], expected, "{}", call.rpc);
    }
    let attacher = site.attacher().context("the attacher")?.process().log();
    let registrar = site.registrar().context("the registrar")?.log();
    let driver = site.scene.driver.process().context("the driver")?.log();
    for log in [attacher, registrar, driver] {
        assert!(!log.contains(CANARY), "{log}");
    }
    Ok(())
}
