//! Two drivers in one cluster and on one node, each with sidecars of its own.

use std::collections::BTreeSet;

use anyhow::Result;
use e2e::{Pod, Site, eventually, scene::PATIENCE};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::csi_node::{ABSENT, Entry, is_served};

/// The process ids of those who called these, all with success.
fn callers(site: &Site, rpcs: &[&str]) -> Result<BTreeSet<i32>> {
    let mut calls = site.driver.journal()?;
    calls.retain(|call| rpcs.contains(&&*call.rpc));
    assert!(calls.iter().all(|call| call.code == "OK"), "{calls:#?}");
    Ok(calls.iter().filter_map(|call| call.peer_pid).collect())
}

async fn attachment(site: &Site, volume: &str) -> Result<VolumeAttachment> {
    let mut attachments = site.attachments(volume).await?;
    assert_eq!(attachments.len(), 1, "{attachments:#?}");
    Ok(attachments.remove(0))
}

#[tokio::test]
async fn a_pod_uses_volumes_of_two_drivers_and_each_sidecar_serves_its_own() -> Result<()> {
    let Some(mut one) = Site::start("one", &[]).await? else { return Ok(()) };
    let Some(mut other) = Site::start("other", &[]).await? else { return Ok(()) };
    one.claim("data", &json!({})).await?;
    one.claim("more", &json!({ "storageClassName": other.class })).await?;
    let steps = ["write", "/data/file", "one", "then", "write", "/more/file", "other", "then", "pause"];
    let pod = Pod::new("pod").claim("data", "/data").claim("more", "/more").runs(&steps);
    let pod = pod.create(&one.client, &one.namespace).await?;
    pod.running().await?;
    let reader = Pod::new("reader").claim("data", "/data").claim("more", "/more");
    let reader = reader.runs(&["await", "/more/file", "then", "read", "/data/file", "then", "read", "/more/file"]);
    let reader = reader.create(&one.client, &one.namespace).await?;
    assert_eq!(reader.succeeded().await?.split_whitespace().collect::<Vec<_>>(), ["one", "other"]);
    reader.delete().await?;

    let volumes = [one.bound("data").await?, one.bound("more").await?];
    for (site, volume) in [&one, &other].into_iter().zip(&volumes) {
        let attachment = attachment(site, volume).await?;
        assert_eq!(attachment.spec.attacher, site.driver.name());
        let of_driver = format!("external-attacher/{}", site.driver.name().replace('.', "-"));
        assert_eq!(attachment.finalizers(), std::slice::from_ref(&of_driver));
        let of_volume = site.volumes().get(volume).await?;
        assert!(of_volume.finalizers().contains(&of_driver), "{of_volume:#?}");
        assert_eq!(of_volume.finalizers().iter().filter(|name| name.starts_with("external-attacher/")).count(), 1);
        assert_eq!(site.backend_volumes()?, 1);
    }

    // Without its attacher a volume stays attached, and without its registrar a driver is gone; the other's are not.
    other.attacher().unwrap().process().stop().await?;
    let (mut entry, mut others) =
        (Entry::follow(&one, one.driver.name()).await?, Entry::follow(&one, other.driver.name()).await?);
    pod.delete().await?;
    one.detached(&volumes[0], PATIENCE).await?;
    let what = "the volume to be waiting for its attacher";
    let name = attachment(&other, &volumes[1]).await?.name_any();
    let deleted = |attachment: &VolumeAttachment| attachment.metadata.deletion_timestamp.is_some();
    eventually::object(&Api::all(other.client.clone()), &name, what, PATIENCE, deleted).await?;
    assert_eq!(other.codes("ControllerUnpublishVolume")?, [""; 0]);
    let first_attacher = other.attacher().unwrap().pid();
    other.kill_attacher().await?;
    other.start_attacher().await?;
    other.detached(&volumes[1], PATIENCE).await?;

    one.stop_registrar().await?;
    entry.becomes(ABSENT).await?;
    assert!(is_served(&other));
    assert_eq!(others.history().await?, [other.node().name()]);
    one.start_registrar()?;
    one.registered().await?;
    for (claim, site, volume) in [("data", &one, &volumes[0]), ("more", &other, &volumes[1])] {
        one.delete_claim(claim).await?;
        site.gone(volume).await?;
    }
    one.unmounted().await?;
    other.unmounted().await?;

    for (site, earlier) in [(&mut one, None), (&mut other, Some(first_attacher))] {
        let attacher = site.attacher().map(|attacher| attacher.pid());
        let provisioner = site.provisioner().map(|provisioner| provisioner.pid());
        let attachers = attacher.into_iter().chain(earlier).collect();
        assert_eq!(callers(site, &["ControllerPublishVolume", "ControllerUnpublishVolume"])?, attachers);
        assert_eq!(callers(site, &["CreateVolume", "DeleteVolume"])?, provisioner.into_iter().collect());
    }
    // The kubelet calls both, everybody else one.
    let callers_of = |site: &Site| -> Result<BTreeSet<_>> {
        Ok(site.driver.journal()?.iter().filter_map(|call| call.peer_pid).collect())
    };
    let kubelet = callers(&one, &["NodePublishVolume", "NodeStageVolume"])?;
    assert_eq!(kubelet.len(), 1);
    assert_eq!(callers_of(&one)?.intersection(&callers_of(&other)?).copied().collect::<BTreeSet<_>>(), kubelet);
    Ok(())
}
