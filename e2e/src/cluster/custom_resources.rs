//! Kinds that Kubernetes does not have by itself, from the modules that define them.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams},
};

use super::documents;
use crate::{
    eventually::{self, eventually},
    programs::{self, Upstream},
};

/// `VolumeSnapshot`, `VolumeSnapshotContent`, `VolumeSnapshotClass`.
pub(super) const SNAPSHOTS: &[&str] = &[
    "config/crd/snapshot.storage.k8s.io_volumesnapshots.yaml",
    "config/crd/snapshot.storage.k8s.io_volumesnapshotcontents.yaml",
    "config/crd/snapshot.storage.k8s.io_volumesnapshotclasses.yaml",
];
/// `ReferenceGrant`.
pub(super) const REFERENCE_GRANTS: &[&str] = &["config/crd/standard/gateway.networking.k8s.io_referencegrants.yaml"];

const TO_BE_SERVED: Duration = Duration::from_mins(1);

/// Creates the definitions in these files and waits until all their versions are served. What exists is left alone.
pub(super) async fn install(client: &Client, upstream: Upstream, files: &[&str]) -> Result<()> {
    for file in files {
        for document in programs::upstream_objects(upstream, file).await? {
            documents::create(client, &document).await?;
            served(client, serde_json::from_value(document).with_context(|| format!("{file} is no definition"))?)
                .await?;
        }
    }
    Ok(())
}

async fn served(client: &Client, definition: CustomResourceDefinition) -> Result<()> {
    let name = definition.name_any();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    eventually::object(&definitions, &name, "the definition to be established", TO_BE_SERVED, is_established).await?;
    let spec = definition.spec;
    for version in spec.versions.iter().filter(|version| version.served) {
        let resource = ApiResource {
            group: spec.group.clone(),
            version: version.name.clone(),
            api_version: format!("{}/{}", spec.group, version.name),
            kind: spec.names.kind.clone(),
            plural: spec.names.plural.clone(),
        };
        let objects: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        // Established is said before every handler is there.
        let what = format!("{} of {} to be served", resource.plural, resource.api_version);
        eventually(&what, TO_BE_SERVED, async || Ok(objects.list(&ListParams::default()).await.map(Some)?)).await?;
    }
    Ok(())
}

fn is_established(definition: &CustomResourceDefinition) -> bool {
    let conditions = definition.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|one| one.type_ == "Established" && one.status == "True")
}
