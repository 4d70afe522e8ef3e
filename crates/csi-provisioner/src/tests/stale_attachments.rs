//! Attachments that nobody will ever take away, and where nobody looks for any.

use std::time::Duration;

use csi_proto::csi::v1::controller_service_capability::rpc::Type as ControllerRpc;
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::Rpc;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::{Value, json};

use super::node_deployment::node;
use super::objects::{secret, volume, with};
use super::scene::{PATIENCE, Scene, flags};

/// The volume as a Node names it.
const USED: &str = "kubernetes.io/csi/fake.csi.example.com^h";

fn node_object(status: &Value) -> Value {
    json!({ "metadata": { "name": "n1" }, "status": status })
}

fn looks_at_nodes(scene: &Scene) -> usize {
    scene.api.requests_of(&Matcher::of("get", "nodes")).len()
}

fn lists(scene: &Scene) -> usize {
    let of = |verb: &str| scene.api.requests_of(&Matcher::of(verb, "volumeattachments")).len();
    of("list") + of("watch")
}

/// A released volume with one attachment to node n1, of a driver without PUBLISH_UNPUBLISH_VOLUME.
async fn waiting(node: Option<&Value>) -> Scene {
    let scene = Scene::start().await;
    if let Some(status) = node {
        scene.api.create_json::<Node>(node_object(status));
    }
    scene.add_attachment("a1", "pv");
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    scene.event("VolumeDelete").await;
    scene
}

#[tokio::test(start_paused = true)]
async fn l14_what_the_node_says_decides_whether_an_attachment_is_stale() {
    let in_use = json!({ "volumesInUse": ["kubernetes.io/csi/fake.csi.example.com^other", USED] });
    let attached = json!({ "volumesAttached": [{ "name": USED, "devicePath": "" }] });
    let others = json!({
        "volumesInUse": ["kubernetes.io/csi/fake.csi.example.com^h2"],
        "volumesAttached": [{ "name": "kubernetes.io/csi/other.example.com^h", "devicePath": "" }],
    });
    let cases = [
        ("the node is gone", None, true),
        ("the node has let go", Some(json!({})), true),
        ("it uses other volumes", Some(others), true),
        ("kubelet uses the volume", Some(in_use), false),
        ("kube-controller-manager has it down as attached", Some(attached), false),
    ];
    assert_eq!(cases.len(), 5);
    for (case, node, deleted) in cases {
        let scene = waiting(node.as_ref()).await;
        scene.pass(Duration::from_mins(9)).await;
        assert_eq!(scene.count(Rpc::DeleteVolume), 0, "{case}: it may still be taken away");
        assert_eq!(looks_at_nodes(&scene), 0, "{case}: a detach in good time costs no request");
        scene.pass(Duration::from_mins(2)).await;
        assert_eq!(scene.count(Rpc::DeleteVolume), usize::from(deleted), "{case}");
        scene.pass(Duration::from_hours(1)).await;
        assert_eq!(scene.count(Rpc::DeleteVolume), usize::from(deleted), "{case}");
        assert!(looks_at_nodes(&scene) <= 12, "{case}: {} in an hour", looks_at_nodes(&scene));
        assert!(scene.events("VolumeFailedDelete").is_empty(), "{case}: to wait is no failure");
        if !deleted {
            scene.api.merge::<Node>(None, "n1", &json!({ "status": { "volumesInUse": [], "volumesAttached": [] } }));
            scene.pass(Duration::from_mins(11)).await;
            assert_eq!(scene.count(Rpc::DeleteVolume), 1, "{case}: until it has let go");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn l14_of_several_attachments_each_counts_for_itself() {
    let scene = Scene::start().await;
    scene.add_node_using("h");
    scene.add_attachment("in-use", "pv");
    let gone = json!({
        "metadata": { "name": "stale" },
        "spec": { "attacher": "fake.csi.example.com", "nodeName": "gone", "source": { "persistentVolumeName": "pv" } },
    });
    scene.api.create_json::<VolumeAttachment>(gone);
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
    let before = tokio::time::Instant::now();
    scene.api.delete::<VolumeAttachment>(None, "in-use");
    scene.driver.wait_for_calls(Rpc::DeleteVolume, 1).await;
    assert!(before.elapsed() < Duration::from_millis(100), "{:?}", before.elapsed());
}

/// As the Go provisioner, which never looks at attachments of such a driver.
#[tokio::test(start_paused = true)]
async fn l14_without_the_right_to_read_nodes_an_attachment_holds_a_volume_for_minutes_alone() {
    let scene = waiting(Some(&json!({ "volumesInUse": [USED] }))).await;
    let refused = Reaction::Refuse(Status::forbidden("nodes is forbidden"));
    scene.api.react(Matcher::any().resource("nodes"), refused);
    scene.pass(Duration::from_mins(9)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
    scene.pass(Duration::from_mins(2)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 1);
}

/// No answer is no permission.
#[tokio::test(start_paused = true)]
async fn l14_while_the_node_cannot_be_read_nothing_is_deleted() {
    let scene = waiting(None).await;
    scene.api.react(Matcher::of("get", "nodes"), Reaction::Refuse(Status::internal_error("etcd is busy")));
    let text = scene.event("VolumeFailedDelete").await;
    assert!(text.contains("node n1") && text.contains("etcd is busy"), "{text}");
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
    scene.api.clear_reactions();
    scene.pass(Duration::from_mins(6)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 1);
}

/// What was found stale is passed over by the call, and nothing else.
#[tokio::test(start_paused = true)]
async fn l14_an_attachment_that_appears_after_the_look_is_not_passed_over() {
    let scene = Scene::start().await;
    scene.add_secret(secret("shop", "key", "password", "c2VzYW1l"));
    let named = json!({ "metadata": { "annotations": {
        "volume.kubernetes.io/provisioner-deletion-secret-name": "key",
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": "shop" } } });
    scene.api.react(Matcher::of("get", "secrets").once(), Reaction::DelayAnswer(Duration::from_secs(20)));
    scene.add_attachment("a1", "pv");
    scene.add_volume(with(volume("pv", "h", "Released", "Delete"), &named));
    let asked = Matcher::of("get", "secrets");
    scene.api.until("the Secret", PATIENCE, |api| (!api.requests_of(&asked).is_empty()).then_some(())).await;
    scene.add_node_using("h");
    scene.add_attachment("a2", "pv");
    scene.pass(Duration::from_mins(30)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
}

/// Only its attacher can undo what such a driver has published.
#[tokio::test(start_paused = true)]
async fn l14_every_attachment_of_a_driver_that_attaches_holds_its_volume() {
    let scene =
        Scene::with(flags(), |driver| driver.controller_capabilities.push(ControllerRpc::PublishUnpublishVolume)).await;
    scene.add_attachment("a1", "pv");
    scene.pass(Duration::from_secs(1)).await;
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    scene.pass(Duration::from_hours(2)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
    assert_eq!(looks_at_nodes(&scene), 0);
}

async fn on_a_node(publishes: bool) -> Scene {
    let identity = |driver: &mut fake_driver::Identity| {
        if publishes {
            driver.controller_capabilities.push(ControllerRpc::PublishUnpublishVolume);
        }
    };
    Scene::configured(|settings| settings.node = Some(node("foo")), identity, |_| ()).await
}

#[tokio::test(start_paused = true)]
async fn l14_with_node_deployment_nobody_watches_attachments_of_a_driver_that_does_not_attach() {
    let scene = on_a_node(false).await;
    scene.add_attachment("a1", "pv");
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    scene.driver.wait_for_calls(Rpc::DeleteVolume, 1).await;
    assert_eq!(lists(&scene), 0);
}

#[tokio::test(start_paused = true)]
async fn l14_with_node_deployment_the_attachments_of_a_driver_that_attaches_are_watched_by_who_deletes() {
    let scene = on_a_node(true).await;
    scene.add_attachment("a1", "pv");
    scene.add_volume(volume("other", "h1", "Bound", "Delete"));
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(lists(&scene), 0, "nothing is to be deleted");
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    scene.event("VolumeDelete").await;
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
    scene.api.delete::<VolumeAttachment>(None, "a1");
    scene.driver.wait_for_calls(Rpc::DeleteVolume, 1).await;
}

#[tokio::test(start_paused = true)]
async fn l14_a_driver_that_attaches_deletes_nothing_while_attachments_may_not_be_read() {
    let scene = on_a_node(true).await;
    let refused = Reaction::Refuse(Status::forbidden("volumeattachments.storage.k8s.io is forbidden"));
    scene.api.react(Matcher::any().resource("volumeattachments"), refused);
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    let text = scene.event("VolumeFailedDelete").await;
    assert!(text.contains("volumeattachments.storage.k8s.io is forbidden"), "{text}");
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
    scene.api.clear_reactions();
    scene.pass(Duration::from_mins(6)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 1);
}
