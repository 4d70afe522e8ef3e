//! Volumes are attached and detached, exactly once each.

use anyhow::{Context as _, Result};
use e2e::Cluster;
use e2e::attach_scene::{AttachScene, PUBLISHED_TO};
use e2e::scene::PATIENCE;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;

#[tokio::test]
async fn a_volume_is_attached_and_detached() -> Result<()> {
    let scene = AttachScene::start(Cluster::shared().await?, "attach", &[]).await?;
    scene.add_node("node", "the-node-id").await?;
    let handle = scene.add_volume("data", &json!({}), &json!({})).await?;
    let mut attacher = scene.leader().await?;

    scene.attach("data", "data", "node").await?;
    let attachment = scene.attached("data").await?;
    assert!(scene.holds(&attachment));
    assert_eq!(attachment.annotations()["csi.alpha.kubernetes.io/node-id"], "the-node-id");
    let status = attachment.status.context("it has a status")?;
    assert_eq!(status.attachment_metadata.context("a publish context")?[PUBLISHED_TO], "the-node-id");
    assert!(status.attach_error.is_none());
    assert_eq!(scene.published_to(&handle)?, ["the-node-id"]);
    let volume = scene.volumes().get(&scene.name("data")).await?;
    assert!(scene.holds(&volume), "the volume object stays as long as it is attached");
    scene.volumes().delete(&scene.name("data"), &DeleteParams::default()).await?;

    scene.detach("data").await?;
    scene.detached("data").await?;
    assert_eq!(scene.published_to(&handle)?, [""; 0]);
    e2e::eventually::gone(&scene.volumes(), &scene.name("data"), PATIENCE).await?;
    assert_eq!(scene.course_of(&handle)?, ["ControllerPublishVolume OK", "ControllerUnpublishVolume OK"]);
    assert_eq!(attacher.process().exit_code()?, None);
    Ok(())
}

/// A node that comes back with another id: the volume is taken from where it was, and from where it may be.
#[tokio::test]
async fn a_volume_is_taken_from_the_node_it_was_published_to() -> Result<()> {
    let scene = AttachScene::start(Cluster::shared().await?, "attach-returned", &[]).await?;
    scene.add_node("node", "before").await?;
    let handle = scene.add_volume("data", &json!({}), &json!({})).await?;
    let _attacher = scene.leader().await?;
    scene.attach("data", "data", "node").await?;
    scene.attached("data").await?;
    scene.remove_node("node").await?;
    scene.add_node("node", "after").await?;
    scene.detach("data").await?;
    scene.detached("data").await?;
    assert_eq!(scene.published_to(&handle)?, [""; 0]);
    let calls = scene.calls_about(&handle)?;
    let unpublished: Vec<_> = calls.iter().filter(|call| call.rpc == "ControllerUnpublishVolume").collect();
    assert_eq!(unpublished.len(), 2, "{unpublished:#?}");
    assert_eq!(unpublished[0].request["node_id"], "before");
    assert_eq!(unpublished[1].request["node_id"], "after");
    Ok(())
}

/// An attachment that comes before its node has registered the driver waits, and is never told an error.
#[tokio::test]
async fn an_attachment_waits_for_its_node() -> Result<()> {
    let scene = AttachScene::start(Cluster::shared().await?, "attach-early", &[]).await?;
    let handle = scene.add_volume("data", &json!({}), &json!({})).await?;
    let mut attacher = scene.leader().await?;
    scene.attach("data", "data", "node").await?;
    // Its finalizer on the volume shows that the attachment has been looked at.
    e2e::eventually::object(&scene.volumes(), &scene.name("data"), "held", PATIENCE, |volume| scene.holds(volume))
        .await
        .with_context(|| attacher.process().tail())?;
    scene.add_node("node", "node").await?;
    let attachment = scene.attached("data").await?;
    assert!(attachment.status.context("a status")?.attach_error.is_none());
    assert_eq!(scene.course_of(&handle)?, ["ControllerPublishVolume OK"]);
    Ok(())
}

/// Many at once: each is published once and unpublished once.
#[tokio::test]
async fn one_publish_and_one_unpublish_each() -> Result<()> {
    const MANY: usize = 30;
    let scene = AttachScene::start(Cluster::shared().await?, "attach-many", &[]).await?;
    scene.add_node("node", "node").await?;
    let names: Vec<_> = (0..MANY).map(|n| format!("data-{n}")).collect();
    let mut handles = Vec::new();
    for name in &names {
        handles.push(scene.add_volume(name, &json!({}), &json!({})).await?);
    }
    let _attacher = scene.leader().await?;
    for name in &names {
        scene.attach(name, name, "node").await?;
    }
    for name in &names {
        scene.attached(name).await?;
        scene.detach(name).await?;
    }
    for (name, handle) in names.iter().zip(&handles) {
        scene.detached(name).await?;
        assert_eq!(scene.course_of(handle)?, ["ControllerPublishVolume OK", "ControllerUnpublishVolume OK"]);
    }
    Ok(())
}
