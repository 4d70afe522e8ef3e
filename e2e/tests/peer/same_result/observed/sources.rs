//! What volumes are made of: claims that the provisioner makes volumes for first, and snapshots taken by hand.

use anyhow::{Context as _, Result};
use e2e::controller_calls::ControllerCalls;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::FENCE;
use crate::same_result::scenarios::Source;
use crate::site::{Site, bound_in};

/// Names of the run and what stands for them.
pub(super) type StandIns = Vec<(String, String)>;

/// Makes the API server serve what they are, which provisioners look for when they start.
pub(super) async fn prepare(site: &Site, sources: &[Source]) -> Result<()> {
    if sources.iter().any(|source| source.snapshot.is_some()) {
        site.cluster.install_snapshot_crds().await?;
    }
    if sources.iter().any(|source| source.elsewhere) {
        site.cluster.install_reference_grant_crd().await?;
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": elsewhere(site) } });
        site.cluster.create(&namespace).await?;
    }
    Ok(())
}

/// Makes them, with the provisioner that is under test.
pub(super) async fn make(site: &Site, sources: &[Source]) -> Result<StandIns> {
    let calls = ControllerCalls::connect(&site.driver.address())?;
    let mut names = StandIns::new();
    for source in sources {
        let claims = Api::namespaced(site.client.clone(), &namespace(site, source));
        site.claim_in(&claims, source.name, FENCE, &json!({}), &source.claim).await?;
        let volume = site.volumes().get(&bound_in(&claims, source.name).await?).await?;
        let uid = claims.get(source.name).await?.uid().unwrap_or_default();
        let handle = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref()).map(|csi| csi.volume_handle.clone());
        let handle = handle.context("a source without a handle")?;
        if let Some(name) = source.snapshot {
            let snapshot = calls.create_snapshot(name, &handle).await?;
            let mode = volume.spec.and_then(|spec| spec.volume_mode);
            object(site, source, name, &snapshot, &json!(mode)).await?;
            names.push((snapshot, format!("HANDLE-OF-{name}")));
        }
        names.push((uid, format!("UID-OF-{}", source.name)));
        names.push((handle, format!("HANDLE-OF-{}", source.name)));
    }
    Ok(names)
}

fn elsewhere(site: &Site) -> String {
    format!("{}-elsewhere", site.namespace)
}

fn namespace(site: &Site, source: &Source) -> String {
    if source.elsewhere { elsewhere(site) } else { site.namespace.clone() }
}

/// A VolumeSnapshot and its content, bound to each other as the snapshot controller does it.
async fn object(site: &Site, source: &Source, name: &str, handle: &str, mode: &Value) -> Result<()> {
    const GROUP: &str = "snapshot.storage.k8s.io";
    let api_version = format!("{GROUP}/v1");
    let namespace = namespace(site, source);
    let content = format!("{name}.{}", site.namespace);
    let kind = |kind: &str| ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, "v1", kind));
    let snapshots: Api<DynamicObject> = Api::namespaced_with(site.client.clone(), &namespace, &kind("VolumeSnapshot"));
    let contents: Api<DynamicObject> = Api::all_with(site.client.clone(), &kind("VolumeSnapshotContent"));
    let snapshot = json!({ "apiVersion": api_version, "kind": "VolumeSnapshot",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "source": { "persistentVolumeClaimName": source.name } } });
    site.cluster.create(&snapshot).await?;
    let uid = snapshots.get(name).await?.uid();
    let bound = json!({ "apiVersion": api_version, "kind": "VolumeSnapshotContent",
        "metadata": { "name": content },
        "spec": { "driver": site.driver.name(), "deletionPolicy": "Retain", "source": { "snapshotHandle": handle },
            "sourceVolumeMode": mode,
            "volumeSnapshotRef": { "name": name, "namespace": namespace, "uid": uid } } });
    site.cluster.create(&bound).await?;
    let status = json!({ "status": { "snapshotHandle": handle, "readyToUse": source.ready, "restoreSize": 1 << 20 } });
    contents.patch_status(&content, &PatchParams::default(), &Patch::Merge(status)).await?;
    let status = json!({ "status": { "boundVolumeSnapshotContentName": content, "readyToUse": source.ready,
        "restoreSize": "1Mi" } });
    snapshots.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
    Ok(())
}

/// The finalizers they have in the end.
pub(super) async fn finalizers(site: &Site, sources: &[Source]) -> Result<Value> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("snapshot.storage.k8s.io", "v1", "VolumeSnapshot"));
    let mut found = json!({});
    for source in sources {
        let namespace = namespace(site, source);
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(site.client.clone(), &namespace);
        let snapshots: Api<DynamicObject> = Api::namespaced_with(site.client.clone(), &namespace, &resource);
        found[source.name] = json!(claims.get(source.name).await?.finalizers());
        if let Some(name) = source.snapshot {
            found[name] = json!(snapshots.get(name).await?.finalizers());
        }
    }
    Ok(found)
}
