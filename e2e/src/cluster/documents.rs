//! Objects of any kind, as they stand in YAML files.

use anyhow::{Context as _, Result};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::Value;

/// Creates one, unless it exists.
pub(super) async fn create(client: &Client, document: &Value) -> Result<()> {
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
