//! The rights upstream gives its sidecars, taken from their own deployment files.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};

use super::documents;
use crate::{
    eventually::eventually,
    programs::{self, Upstream},
    sidecar::Role,
};

/// The authorizer learns of new rules by a watch.
const TO_BE_KNOWN: Duration = Duration::from_mins(1);

/// Namespace for which upstream has written its files.
const WRITTEN_FOR: &str = "default";

/// Rules that upstream's file has as a comment, leaves to the driver's vendor, or has for everybody and an account of a
/// test's own has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionalRule {
    /// "For plugins that require secrets", a comment.
    Secrets,
    /// Of volumes made of snapshots; upstream's account has it.
    Snapshots,
    /// Of sources in other namespaces, a comment.
    ReferenceGrants,
    /// Of VolumeAttributesClasses at creation, which the file does not mention.
    VolumeAttributesClasses,
}

impl OptionalRule {
    const fn name(self) -> &'static str {
        match self {
            Self::Secrets => "secrets",
            Self::Snapshots => "snapshots",
            Self::ReferenceGrants => "referencegrants",
            Self::VolumeAttributesClasses => "volumeattributesclasses",
        }
    }

    /// API group, resource and verbs.
    const fn rules(self) -> &'static [(&'static str, &'static str, &'static [&'static str])] {
        const SNAPSHOT: &str = "snapshot.storage.k8s.io";
        match self {
            Self::Secrets => &[("", "secrets", &["get", "list"])],
            Self::Snapshots => &[
                (SNAPSHOT, "volumesnapshots", &["get", "list", "watch", "update"]),
                (SNAPSHOT, "volumesnapshotcontents", &["get", "list"]),
            ],
            Self::ReferenceGrants => &[("gateway.networking.k8s.io", "referencegrants", &["get", "list", "watch"])],
            Self::VolumeAttributesClasses => &[("storage.k8s.io", "volumeattributesclasses", &["get"])],
        }
    }
}

/// Creates what the `rbac.yaml` of one holds, in a namespace. Rules and names are as they are; only namespaces are replaced, and
/// the cluster-wide binding gets a name per namespace. What exists is left alone.
pub(super) async fn apply_upstream(client: &Client, role: Role, namespace: &str) -> Result<()> {
    let documents = programs::upstream_objects(Upstream::Sidecar(role), "deploy/kubernetes/rbac.yaml").await?;
    for mut document in documents {
        move_to(&mut document, namespace);
        documents::create(client, &document).await?;
    }
    Ok(())
}

/// Gives the rules to one account, and waits until the authorizer knows them.
pub(super) async fn grant(client: &Client, namespace: &str, account: &str, optional: &[OptionalRule]) -> Result<()> {
    for one in optional {
        let name = format!("{account}-{}-{namespace}", one.name());
        let rules = one
            .rules()
            .iter()
            .map(|(group, resource, verbs)| json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs }));
        let role = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": name }, "rules": rules.collect::<Vec<_>>() });
        let binding = json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": name },
            "subjects": [{ "kind": "ServiceAccount", "namespace": namespace, "name": account }],
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name } });
        documents::create(client, &role).await?;
        documents::create(client, &binding).await?;
    }
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    for (group, resource, verbs) in optional.iter().flat_map(|one| one.rules()) {
        for verb in *verbs {
            let review = serde_json::from_value(json!({ "metadata": {}, "spec": {
                "user": format!("system:serviceaccount:{namespace}:{account}"),
                "resourceAttributes": { "group": group, "resource": resource, "verb": verb } } }))?;
            eventually(&format!("the right to {verb} {resource}"), TO_BE_KNOWN, async || {
                let answer = reviews.create(&PostParams::default(), &review).await?;
                Ok(answer.status.is_some_and(|status| status.allowed).then_some(()))
            })
            .await?;
        }
    }
    Ok(())
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
