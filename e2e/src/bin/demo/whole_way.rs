//! On a node: registered, provisioned, attached, mounted, written, read, detached, deleted.

use anyhow::{Context as _, Result};
use e2e::scene::PATIENCE;
use e2e::site::Place;
use e2e::{Pod, Site, eventually};
use k8s_openapi::api::storage::v1::CSINode;
use kube::Api;
use serde_json::json;

use crate::timeline::Timeline;

const CLAIM: &str = "data";
const TEXT: &str = "written by a pod that is gone";

pub(crate) async fn show(timeline: &Timeline) -> Result<()> {
    timeline.say("starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler; containerd and a kubelet");
    let place = Place::start().await?;
    timeline.say(format_args!("node {} is Ready, the API server is at {}", place.node.name(), place.cluster.address()));
    let mut site = Site::start_in(place, "demo", &[]).await?;
    timeline.say(format_args!("CSI driver {} serves {}", site.driver.name(), site.driver.address()));
    show_registration(timeline, &site).await?;
    timeline.say("csi-provisioner and csi-attacher lead, with no more rights than their upstream RBAC gives");

    let volume = write(timeline, &site).await?;
    read(timeline, &site).await?;
    site.detached(&volume, PATIENCE).await?;
    timeline.show_calls(&site.driver)?;
    timeline.say("the volume is detached: its VolumeAttachment is gone");
    site.delete_claim(CLAIM).await?;
    timeline.say("the claim is deleted, its class says that the volume goes with it");
    site.gone(&volume).await?;
    timeline.show_calls(&site.driver)?;
    let left = site.backend_volumes()?;
    timeline.say(format_args!("PersistentVolume {volume} is gone, the driver has {left} volumes left"));
    end(timeline, &mut site).await
}

async fn show_registration(timeline: &Timeline, site: &Site) -> Result<()> {
    let nodes: Api<CSINode> = Api::all(site.client.clone());
    let drivers = nodes.get(site.node().name()).await?.spec.drivers;
    let entry = drivers.iter().find(|driver| driver.name == site.driver.name()).context("the driver is registered")?;
    timeline.say("csi-node-driver-registrar has introduced the driver to the kubelet");
    timeline.say(format_args!("  CSINode {}: driver {}, node id {}", site.node().name(), entry.name, entry.node_id));
    Ok(())
}

/// Gives the name of the volume.
async fn write(timeline: &Timeline, site: &Site) -> Result<String> {
    site.claim(CLAIM, &json!({})).await?;
    timeline.say(format_args!("PersistentVolumeClaim {CLAIM} created"));
    let volume = site.bound(CLAIM).await?;
    timeline.show_calls(&site.driver)?;
    timeline.say(format_args!("the claim is Bound to PersistentVolume {volume}"));
    let writer = Pod::new("writer").claim(CLAIM, "/data").runs(&["write", "/data/file", TEXT]);
    let writer = writer.create(&site.client, &site.namespace).await?;
    timeline.say("pod writer created, which writes a file into the volume");
    writer.succeeded().await?;
    timeline.show_calls(&site.driver)?;
    for attachment in site.attachments(&volume).await? {
        let name = attachment.metadata.name.unwrap_or_default();
        timeline.say(format_args!("  VolumeAttachment {name}: attached to {}", attachment.spec.node_name));
    }
    timeline.say("pod writer has written and ended");
    writer.delete().await?;
    timeline.show_calls(&site.driver)?;
    timeline.say("pod writer is gone");
    Ok(volume)
}

async fn read(timeline: &Timeline, site: &Site) -> Result<()> {
    let reader = Pod::new("reader").claim(CLAIM, "/data").runs(&["read", "/data/file"]);
    let reader = reader.create(&site.client, &site.namespace).await?;
    timeline.say("pod reader created, which reads the file");
    let text = reader.succeeded().await?;
    timeline.show_calls(&site.driver)?;
    anyhow::ensure!(text == TEXT, "the second pod has read {text:?}");
    timeline.say(format_args!("pod reader has read: {text}"));
    reader.delete().await?;
    timeline.show_calls(&site.driver)?;
    timeline.say("pod reader is gone");
    Ok(())
}

async fn end(timeline: &Timeline, site: &mut Site) -> Result<()> {
    timeline.end("csi-provisioner", site.provisioner()).await?;
    timeline.end("csi-attacher", site.attacher()).await?;
    site.stop_registrar().await?;
    let nodes: Api<CSINode> = Api::all(site.client.clone());
    let dropped = |node: &CSINode| node.spec.drivers.iter().all(|driver| driver.name != site.driver.name());
    let (what, node) = ("the kubelet to drop the driver", site.node().name());
    eventually::object(&nodes, node, what, PATIENCE, dropped).await?;
    timeline.say("csi-node-driver-registrar took its socket away, and the kubelet has dropped the driver");
    Ok(())
}
