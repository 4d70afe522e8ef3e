//! Contract 8.2: what detaching writes and calls, row by row.

use std::time::Duration;

use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::{Value, json};
use tonic::Code;

use super::objects::{attached, attachment, inline, inline_attachment, node, secret, volume, with};
use super::scene::{Scene, config};

struct Row {
    case: &'static str,
    volume: Option<Value>,
    attachment: Value,
    node: Option<Value>,
    prepare: fn(&Scene),
    writes: &'static [&'static str],
    calls: usize,
    /// Whether the attachment is gone in the end.
    gone: bool,
}

impl Row {
    fn new(case: &'static str, writes: &'static [&'static str], calls: usize, gone: bool) -> Self {
        Self {
            case,
            volume: Some(volume()),
            attachment: attached(attachment(), "nodeID1"),
            node: Some(node("node1", "nodeID1")),
            prepare: |_| (),
            writes,
            calls,
            gone,
        }
    }

    async fn run(self) -> Scene {
        let scene = Scene::with(config(), |_| ()).await;
        self.volume.into_iter().for_each(|volume| scene.add_volume(volume));
        self.node.into_iter().for_each(|node| scene.add_node(node));
        let name = "pv1-node1";
        scene.add_attachment(self.attachment);
        scene.pass(Duration::from_millis(100)).await;
        (self.prepare)(&scene);
        scene.delete_attachment(name);
        scene.pass(Duration::from_mins(1)).await;
        assert_eq!(scene.writes(), self.writes, "{}", self.case);
        assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), self.calls, "{}", self.case);
        assert_eq!(scene.count(Rpc::ControllerPublishVolume), 0, "{}", self.case);
        assert_eq!(scene.attachment(name).is_none(), self.gone, "{}", self.case);
        scene
    }
}

fn secret_ref() -> Value {
    json!({ "spec": { "csi": { "controllerPublishSecretRef": { "namespace": "default", "name": "secret" } } } })
}

fn call(scene: &Scene, step: Step) {
    scene.driver.script(Rpc::ControllerUnpublishVolume, step);
}

/// The Go attacher sends a status patch after the finalizer, which finds nothing any more.
const PLAIN: &[&str] = &["release"];

#[tokio::test(start_paused = true)]
async fn what_is_detached_is_asked_of_the_driver() {
    let with_secret = |scene: &Scene| scene.add_secret(secret("secret", json!({ "foo": "YmFy" })));
    let read: &[&str] = &["secret", "release"];
    let rows: Vec<(Row, &str, bool)> = vec![
        (Row::new("volume", PLAIN, 1, true), "nodeID1", false),
        (
            Row {
                volume: None,
                attachment: attached(inline_attachment(inline()), "nodeID1"),
                ..Row::new("inline volume", PLAIN, 1, true)
            },
            "nodeID1",
            false,
        ),
        (
            Row {
                volume: Some(with(volume(), secret_ref())),
                node: None,
                attachment: attached(attachment(), "annotatedNodeID"),
                prepare: with_secret,
                ..Row::new("secret, no CSINode", read, 1, true)
            },
            "annotatedNodeID",
            true,
        ),
        (
            Row {
                volume: Some(with(volume(), secret_ref())),
                prepare: |scene| scene.add_secret(secret("secret", json!({}))),
                ..Row::new("empty secret", read, 1, true)
            },
            "nodeID1",
            false,
        ),
        (
            Row {
                attachment: attached(attachment(), "annotatedNodeID"),
                node: None,
                ..Row::new("no CSINode", PLAIN, 1, true)
            },
            "annotatedNodeID",
            false,
        ),
        (
            // The Go attacher asks with the new id alone.
            Row {
                attachment: attached(attachment(), "annotatedNodeID"),
                ..Row::new("the node has another id by now", PLAIN, 2, true)
            },
            "nodeID1",
            false,
        ),
        (
            Row {
                attachment: with(attached(attachment(), ""), json!({ "metadata": { "annotations": null } })),
                ..Row::new("an attachment without the annotation", PLAIN, 1, true)
            },
            "nodeID1",
            false,
        ),
    ];
    assert_eq!(rows.len(), 7);
    for (row, node, secrets) in rows {
        let case = row.case;
        let scene = row.run().await;
        let request = scene.unpublished().pop().expect(case);
        assert_eq!((request.volume_id.as_str(), request.node_id.as_str()), ("handle1", node), "{case}");
        assert_eq!(request.secrets.contains_key("foo"), secrets, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_detached_says_why_and_keeps_the_finalizer() {
    let source = |source: Value| {
        let mut attachment = attached(attachment(), "nodeID1");
        attachment["spec"]["source"] = source;
        attachment
    };
    let six: &[&str] = &["detachError"; 6];
    let no_annotation = with(attached(attachment(), ""), json!({ "metadata": { "annotations": null } }));
    let rows = vec![
        (
            Row {
                volume: Some(with(volume(), secret_ref())),
                ..Row::new(
                    "secret missing",
                    &[
                        "secret",
                        "detachError",
                        "secret",
                        "detachError",
                        "secret",
                        "detachError",
                        "secret",
                        "detachError",
                        "secret",
                        "detachError",
                        "secret",
                        "detachError",
                    ],
                    0,
                    false,
                )
            },
            "failed to load secret \"default/secret\": ",
        ),
        (
            // Told once; the Go attacher tells it at every try.
            Row { volume: None, ..Row::new("volume unknown", &["detachError"], 0, false) },
            "persistentvolume \"pv1\" not found",
        ),
        (Row { attachment: source(json!({})), ..Row::new("neither source", six, 0, false) }, "neither"),
        (
            Row {
                attachment: source(json!({ "persistentVolumeName": "pv1", "inlineVolumeSpec": inline() })),
                ..Row::new("both sources", six, 0, false)
            },
            "both",
        ),
        (
            // Told once, as long as it stays so.
            Row {
                node: None,
                attachment: no_annotation,
                ..Row::new("no CSINode, no annotation", &["detachError"], 0, false)
            },
            "csinode.storage.k8s.io \"node1\" not found",
        ),
    ];
    assert_eq!(rows.len(), 5);
    for (row, text) in rows {
        let case = row.case;
        let scene = row.run().await;
        let attachment = scene.attachment("pv1-node1").unwrap();
        let message = attachment["status"]["detachError"]["message"].as_str().unwrap();
        assert!(message.contains(text), "{case}: {message}");
        assert!(attachment["status"]["detachError"].get("errorCode").is_none(), "{case}");
        assert_eq!(attachment["metadata"]["finalizers"], json!([super::objects::FINALIZER]), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_once_is_tried_again() {
    let twice: &[&str] = &["detachError", "release"];
    let rows = vec![
        Row {
            prepare: |scene| call(scene, Step::fail(Code::Internal, "mock error")),
            ..Row::new("the call fails", twice, 2, true)
        },
        Row { prepare: |scene| call(scene, Step::hang()), ..Row::new("the call takes too long", twice, 2, true) },
        Row {
            // The Go attacher calls twice here.
            prepare: |scene| {
                let matcher = Matcher::of("patch", "volumeattachments").subresource("").once();
                scene.api.react(matcher, Reaction::Refuse(Status::forbidden("not allowed")));
            },
            ..Row::new("the finalizer cannot be removed", &["release", "detachError", "release"], 1, true)
        },
    ];
    assert_eq!(rows.len(), 3);
    for row in rows {
        row.run().await;
    }
}

/// Without our finalizer nothing was published for it, whatever its status says.
#[tokio::test(start_paused = true)]
async fn what_was_never_published_is_left_to_go() {
    let held_by_another = |attached: bool| {
        with(attachment(), json!({ "metadata": { "finalizers": ["other/one"] }, "status": { "attached": attached } }))
    };
    let rows = [
        ("no finalizer", attachment(), true),
        ("another's finalizer", held_by_another(false), false),
        ("another's finalizer, attached", held_by_another(true), false),
    ];
    assert_eq!(rows.len(), 3);
    for (case, attachment, gone) in rows {
        // Without a node, so that it is not attached before.
        let scene = Scene::with(config(), |_| ()).await;
        scene.add_volume(volume());
        scene.add_attachment(attachment);
        scene.delete_attachment("pv1-node1");
        scene.pass(Duration::from_mins(1)).await;
        assert!(scene.writes().is_empty(), "{case}: {:?}", scene.writes());
        assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0, "{case}");
        assert_eq!(scene.attachment("pv1-node1").is_none(), gone, "{case}");
    }
}

/// Finalizers of others keep the object: then the status has to say that the volume is detached.
#[tokio::test(start_paused = true)]
async fn an_attachment_that_stays_is_marked_as_detached() {
    let scene = Scene::start().await;
    let held = json!({
        "metadata": { "finalizers": ["a/first", super::objects::FINALIZER, "z/last"] },
        "status": { "attachmentMetadata": { "dev": "sda" }, "detachError": { "message": "m" } },
    });
    scene.add_attachment(with(attached(attachment(), "nodeID1"), held));
    scene.delete_attachment("pv1-node1");
    let found = scene.status("pv1-node1", |status| status["attached"] == false).await;
    assert_eq!(found["metadata"]["finalizers"], json!(["a/first", "z/last"]));
    assert_eq!(found["status"], json!({ "attached": false }));
    assert_eq!(scene.writes(), ["release", "detached"]);
    scene.api.modify::<VolumeAttachment>(None, "pv1-node1", |attachment| attachment.metadata.finalizers = None);
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 1);
}

/// It was never attached, but an error of an earlier try is in its status.
#[tokio::test(start_paused = true)]
async fn an_attachment_that_stays_loses_its_detach_error() {
    let scene = Scene::start().await;
    let held = json!({
        "metadata": { "finalizers": [super::objects::FINALIZER, "z/last"] },
        "status": { "attached": false, "detachError": { "message": "m" } },
    });
    scene.driver.script_always(Rpc::ControllerPublishVolume, Step::hang);
    scene.add_attachment(with(attached(attachment(), "nodeID1"), held));
    scene.delete_attachment("pv1-node1");
    let found = scene.status("pv1-node1", |status| status.get("detachError").is_none()).await;
    assert_eq!(found["status"], json!({ "attached": false }));
    assert_eq!(found["metadata"]["finalizers"], json!(["z/last"]));
}
