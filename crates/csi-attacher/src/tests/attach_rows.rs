//! Contract 8.1: what attaching writes and calls, row by row.

use std::time::Duration;

use csi_proto::csi::v1::{ControllerPublishVolumeRequest, ControllerPublishVolumeResponse};
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use serde_json::{Value, json};
use tonic::Code;

use super::objects::{
    attached, attachment, inline, inline_attachment, node, node_without_driver, secret, volume, with,
};
use super::scene::{Scene, config};

/// One row: what there is, and what comes of it within a minute.
struct Row {
    case: &'static str,
    volume: Option<Value>,
    attachment: Value,
    node: Option<Value>,
    prepare: fn(&Scene),
    writes: &'static [&'static str],
    calls: usize,
}

impl Row {
    fn new(case: &'static str, writes: &'static [&'static str], calls: usize) -> Self {
        let (volume, attachment, node) = (Some(volume()), attachment(), Some(node("node1", "nodeID1")));
        Self { case, volume, attachment, node, prepare: |_| (), writes, calls }
    }

    fn of(self, volume: Value) -> Self {
        Self { volume: Some(volume), ..self }
    }

    fn inline(self, spec: Value) -> Self {
        Self { volume: None, attachment: inline_attachment(spec), ..self }
    }

    fn given(self, prepare: fn(&Scene)) -> Self {
        Self { prepare, ..self }
    }

    async fn run(self) -> Scene {
        let scene = Scene::with(config(), |_| ()).await;
        self.volume.into_iter().for_each(|volume| scene.add_volume(volume));
        self.node.into_iter().for_each(|node| scene.add_node(node));
        scene.pass(Duration::from_millis(100)).await;
        (self.prepare)(&scene);
        scene.add_attachment(self.attachment);
        scene.pass(Duration::from_mins(1)).await;
        assert_eq!(scene.writes(), self.writes, "{}", self.case);
        assert_eq!(scene.count(Rpc::ControllerPublishVolume), self.calls, "{}", self.case);
        assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0, "{}", self.case);
        scene
    }
}

const PLAIN: &[&str] = &["hold", "attached"];

fn csi(change: Value) -> Value {
    json!({ "spec": { "csi": change } })
}

fn request(scene: &Scene) -> ControllerPublishVolumeRequest {
    scene.published().pop().expect("a call")
}

fn secret_ref() -> Value {
    json!({ "controllerPublishSecretRef": { "namespace": "default", "name": "secret" } })
}

#[tokio::test(start_paused = true)]
async fn what_is_attached_is_asked_of_the_driver_as_the_volume_says() {
    type Check = fn(&ControllerPublishVolumeRequest);
    let with_secret = |scene: &Scene| scene.add_secret(secret("secret", json!({ "foo": "YmFy" })));
    let with_empty_secret = |scene: &Scene| scene.add_secret(secret("secret", json!({})));
    let in_csi = |change: Value| with(volume(), csi(change));
    let in_inline = |change: Value| with(inline(), json!({ "csi": change }));
    let plain: Check = |request| {
        assert_eq!((request.volume_id.as_str(), request.node_id.as_str()), ("handle1", "nodeID1"));
        assert!(!request.readonly && request.secrets.is_empty() && request.volume_context.is_empty());
    };
    let readonly: Check = |request| assert!(request.readonly);
    let attributes: Check = |request| assert_eq!(request.volume_context["foo"], "bar");
    let secrets: Check = |request| assert_eq!(request.secrets["foo"], "bar");
    let no_secrets: Check = |request| assert!(request.secrets.is_empty());
    let read: &[&str] = &["secret", "hold", "attached"];
    let rows: Vec<(Row, Check)> = vec![
        (Row::new("volume", PLAIN, 1), plain),
        (Row::new("inline volume", PLAIN, 1).inline(inline()), plain),
        (Row::new("read-only volume", PLAIN, 1).of(in_csi(json!({ "readOnly": true }))), readonly),
        (Row::new("read-only inline volume", PLAIN, 1).inline(in_inline(json!({ "readOnly": true }))), readonly),
        (Row::new("attributes", PLAIN, 1).of(in_csi(json!({ "volumeAttributes": { "foo": "bar" } }))), attributes),
        (
            Row::new("inline attributes", PLAIN, 1).inline(in_inline(json!({ "volumeAttributes": { "foo": "bar" } }))),
            attributes,
        ),
        (Row::new("secret", read, 1).of(in_csi(secret_ref())).given(with_secret), secrets),
        (Row::new("inline secret", read, 1).inline(in_inline(secret_ref())).given(with_secret), secrets),
        (Row::new("empty secret", read, 1).of(in_csi(secret_ref())).given(with_empty_secret), no_secrets),
        (Row::new("inline empty secret", read, 1).inline(in_inline(secret_ref())).given(with_empty_secret), no_secrets),
        (
            Row::new("volume without our finalizer", &["protect", "hold", "attached"], 1)
                .of(with(volume(), json!({ "metadata": { "finalizers": null } }))),
            plain,
        ),
    ];
    assert_eq!(rows.len(), 11);
    for (row, check) in rows {
        let case = row.case;
        let scene = row.run().await;
        check(&request(&scene));
        assert_eq!(scene.attachment("pv1-node1").unwrap()["status"], json!({ "attached": true }), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_driver_without_publish_readonly_gets_no_readonly() {
    let scene = Scene::with(config(), |driver| driver.controller_capabilities.truncate(1)).await;
    scene.add_volume(with(volume(), csi(json!({ "readOnly": true }))));
    scene.add_node(node("node1", "nodeID1"));
    scene.add_attachment(attachment());
    scene.attached("pv1-node1").await;
    assert!(!request(&scene).readonly);
}

#[tokio::test(start_paused = true)]
async fn the_publish_context_goes_into_the_status() {
    let scene = Scene::start().await;
    scene.driver.script(
        Rpc::ControllerPublishVolume,
        Step::respond(|_: &ControllerPublishVolumeRequest| {
            Ok(ControllerPublishVolumeResponse { publish_context: [("foo".to_owned(), "bar".to_owned())].into() })
        }),
    );
    scene.add_attachment(attachment());
    let attachment = scene.attached("pv1-node1").await;
    assert_eq!(attachment["status"], json!({ "attached": true, "attachmentMetadata": { "foo": "bar" } }));
}

/// Within a minute a failing attachment is tried at 0, 1, 3, 7, 15 and 31 s.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_attached_says_why_and_is_not_called() {
    let six: &[&str] = &["attachError"; 6];
    let source = |source: Value| {
        let mut attachment = attachment();
        attachment["spec"]["source"] = source;
        attachment
    };
    let deleting = |scene: &Scene| scene.api.delete::<k8s_openapi::api::core::v1::PersistentVolume>(None, "pv1");
    let rows = vec![
        (
            Row::new(
                "secret missing",
                &[
                    "secret",
                    "attachError",
                    "secret",
                    "attachError",
                    "secret",
                    "attachError",
                    "secret",
                    "attachError",
                    "secret",
                    "attachError",
                    "secret",
                    "attachError",
                ],
                0,
            )
            .of(with(volume(), csi(secret_ref()))),
            "failed to load secret \"default/secret\": ",
        ),
        (Row::new("volume deleting", six, 0).given(deleting), "PersistentVolume \"pv1\" is marked for deletion"),
        (Row { volume: None, ..Row::new("volume unknown", six, 0) }, "persistentvolume \"pv1\" not found"),
        (
            Row {
                volume: None,
                ..Row::new("volume unknown, and errors cannot be saved at first", &["attachError"; 6], 0)
            }
            .given(|scene| {
                let forbidden = Reaction::Refuse(Status::forbidden("no"));
                scene.api.react(Matcher::of("patch", "volumeattachments").subresource("status").times(2), forbidden);
            }),
            "persistentvolume \"pv1\" not found",
        ),
        (
            Row { attachment: source(json!({})), ..Row::new("neither source", six, 0) },
            "neither InlineCSIVolumeSource nor PersistentVolumeName",
        ),
        (
            Row {
                attachment: source(json!({ "persistentVolumeName": "pv1", "inlineVolumeSpec": inline() })),
                ..Row::new("both sources", six, 0)
            },
            "both InlineCSIVolumeSource and PersistentVolumeName",
        ),
        (
            Row::new("inline volume without CSI", six, 0).inline(json!({ "nfs": {} })),
            "could not find a CSI volume source",
        ),
        (
            Row::new("access modes that exclude each other", six, 0)
                .of(with(volume(), json!({ "spec": { "accessModes": ["ReadOnlyMany", "ReadWriteOnce"] } }))),
            "cannot be combined",
        ),
        (
            Row { node: None, ..Row::new("no CSINode: told once, after ten seconds", &["attachError"], 0) },
            "csinode.storage.k8s.io \"node1\" not found",
        ),
        (
            Row {
                node: Some(node_without_driver("node1")),
                ..Row::new("CSINode without the driver: the same", &["attachError"], 0)
            },
            "CSINode node1 does not contain driver csi/test",
        ),
    ];
    assert_eq!(rows.len(), 10);
    for (row, text) in rows {
        let case = row.case;
        let scene = row.run().await;
        let attachment = scene.attachment("pv1-node1").unwrap();
        let error = &attachment["status"]["attachError"];
        assert!(error["message"].as_str().unwrap().contains(text), "{case}: {error}");
        assert!(error["time"].as_str().unwrap().ends_with('Z') && error.get("errorCode").is_none(), "{case}: {error}");
        assert_eq!(attachment["status"]["attached"], false, "{case}");
        assert!(attachment["metadata"].get("finalizers").is_none(), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_needs_nothing_is_left_alone() {
    let other = with(attachment(), json!({ "spec": { "attacher": "other" } }));
    let rows = vec![
        Row { attachment: attached(attachment(), "nodeID1"), ..Row::new("attached", &[], 0) },
        Row { attachment: other, ..Row::new("of another driver", &[], 0) },
    ];
    assert_eq!(rows.len(), 2);
    for row in rows {
        row.run().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_once_is_tried_again_and_the_error_is_gone_afterwards() {
    fn refuse_once(scene: &Scene, matcher: Matcher) {
        scene.api.react(matcher.once(), Reaction::Refuse(Status::forbidden("not allowed")));
    }
    fn call(scene: &Scene, step: Step) {
        scene.driver.script(Rpc::ControllerPublishVolume, step);
    }
    let bare = with(volume(), json!({ "metadata": { "finalizers": ["kubernetes.io/pv-protection"] } }));
    let twice: &[&str] = &["hold", "attachError", "attached"];
    let rows: Vec<(Row, &str, Option<i64>)> = vec![
        (
            Row::new("volume cannot be patched", &["protect", "attachError", "protect", "hold", "attached"], 1)
                .of(bare)
                .given(|scene| refuse_once(scene, Matcher::of("patch", "persistentvolumes"))),
            "could not add PersistentVolume finalizer: ",
            None,
        ),
        (
            Row::new("attachment cannot be patched", &["hold", "attachError", "hold", "attached"], 1)
                .given(|scene| refuse_once(scene, Matcher::of("patch", "volumeattachments").subresource(""))),
            "could not save VolumeAttachment: ",
            None,
        ),
        (
            // The Go attacher publishes twice here.
            Row::new("status cannot be patched", &["hold", "attached", "attached"], 1)
                .given(|scene| refuse_once(scene, Matcher::of("patch", "volumeattachments").subresource("status"))),
            "",
            None,
        ),
        (
            Row::new("the call fails", twice, 2).given(|scene| call(scene, Step::fail(Code::Internal, "mock error"))),
            "rpc error: code = Internal desc = mock error",
            Some(13),
        ),
        (
            Row::new("the call takes too long", twice, 2).given(|scene| call(scene, Step::hang())),
            "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
            Some(4),
        ),
        (
            Row::new("no more volumes on the node", twice, 2)
                .given(|scene| call(scene, Step::fail(Code::ResourceExhausted, "mock rpc error"))),
            "rpc error: code = ResourceExhausted desc = mock rpc error",
            Some(8),
        ),
    ];
    assert_eq!(rows.len(), 6);
    for (row, text, code) in rows {
        let case = row.case;
        let scene = row.run().await;
        assert_eq!(scene.attachment("pv1-node1").unwrap()["status"], json!({ "attached": true }), "{case}");
        let errors = Matcher::of("patch", "volumeattachments").subresource("status");
        let errors = scene.api.requests_of(&errors);
        let told = errors.iter().find_map(|request| request.body["status"].get("attachError").filter(|e| !e.is_null()));
        match told {
            None => assert_eq!(text, "", "{case}"),
            Some(error) => {
                assert!(error["message"].as_str().unwrap().contains(text), "{case}: {error}");
                assert_eq!(error.get("errorCode").and_then(Value::as_i64), code, "{case}: {error}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_gate_keeps_the_code_out_of_the_status() {
    let mut config = config();
    config.error_codes = false;
    let scene = Scene::with(config, |_| ()).await;
    scene.add_volume(volume());
    scene.add_node(node("node1", "nodeID1"));
    scene.driver.script_always(Rpc::ControllerPublishVolume, || Step::fail(Code::ResourceExhausted, "full"));
    scene.add_attachment(attachment());
    let found = scene.status("pv1-node1", |status| status.get("attachError").is_some()).await;
    assert!(found["status"]["attachError"].get("errorCode").is_none());
}
