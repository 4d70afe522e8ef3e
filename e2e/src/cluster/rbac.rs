//! The rights upstream gives its sidecars, taken from their own deployment files.

use anyhow::{Context as _, Result};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::{Value, json};

use crate::{programs, sidecar::Role};

/// Namespace for which upstream has written its files.
const WRITTEN_FOR: &str = "default";

/// Creates what the `rbac.yaml` of one holds, in a namespace. Rules and names are as they are; only namespaces are replaced, and
/// the cluster-wide binding gets a name per namespace. What exists is left alone.
pub(super) async fn apply_upstream(client: &Client, role: Role, namespace: &str) -> Result<()> {
    let module = tokio::task::spawn_blocking(move || programs::upstream_module(role)).await??;
    let path = module.join("deploy/kubernetes/rbac.yaml");
    let text = tokio::fs::read_to_string(&path).await.with_context(|| format!("cannot read {}", path.display()))?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).context("rbac.yaml is not YAML")?;
    for mut document in documents.into_iter().filter(Value::is_object) {
        move_to(&mut document, namespace);
        create(client, &document).await?;
    }
    Ok(())
}

/// The rule that upstream's file has as a comment, "for plugins that require secrets", for one account.
pub(super) async fn grant_secrets(client: &Client, namespace: &str, account: &str) -> Result<()> {
    let name = format!("{account}-secrets-{namespace}");
    let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": name },
        "rules": [{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"] }] });
    let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": name },
        "subjects": [{ "kind": "ServiceAccount", "namespace": namespace, "name": account }],
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name } });
    create(client, &role).await?;
    create(client, &binding).await
}

fn move_to(document: &mut Value, namespace: &str) {
    if namespace == WRITTEN_FOR {
        return;
    }
    if let Some(value) = document.pointer_mut("/metadata/namespace") {
        *value = json!(namespace);
    }
    for subject in document.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
        subject["namespace"] = json!(namespace);
    }
    if document["kind"] == "ClusterRoleBinding"
        && let Some(name) = document.pointer_mut("/metadata/name")
    {
        *name = json!(format!("{}-{namespace}", name.as_str().unwrap_or_default()));
    }
}

async fn create(client: &Client, document: &Value) -> Result<()> {
    let text = |field: &str| document[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("kind")));
    let object: DynamicObject = serde_json::from_value(document.clone())?;
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot create {} {}", text("kind"), object.name_any())),
    }
}
