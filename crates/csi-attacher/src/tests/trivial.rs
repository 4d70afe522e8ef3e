//! A driver that does not publish volumes: attachments are only marked.

use std::time::Duration;

use csi_proto::csi::v1::plugin_capability::service::Type as PluginService;
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Identity, Rpc};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::json;

use super::objects::{FINALIZER, attachment, with};
use super::scene::{Scene, config};

fn no_publish(driver: &mut Identity) {
    driver.controller_capabilities.clear();
}

fn no_controller(driver: &mut Identity) {
    driver.plugin_capabilities = vec![PluginService::VolumeAccessibilityConstraints];
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_does_not_publish_has_its_attachments_marked_as_attached() {
    for (identity, asked) in [(no_publish as fn(&mut Identity), 1), (no_controller, 0)] {
        let scene = Scene::with(config(), identity).await;
        scene.add_attachment(attachment());
        let found = scene.attached("pv1-node1").await;
        assert_eq!(found["status"], json!({ "attached": true }));
        assert!(found["metadata"].get("finalizers").is_none() && found["metadata"].get("annotations").is_none());
        scene.pass(Duration::from_mins(30)).await;
        assert_eq!(scene.writes(), ["attached"]);
        assert_eq!(scene.count(Rpc::ControllerPublishVolume), 0);
        assert_eq!(scene.count(Rpc::ControllerGetCapabilities), asked, "a service that is not there is not asked");
        let watched = scene.api.requests().iter().any(|request| request.resource != "volumeattachments");
        assert!(!watched, "nothing is read of volumes and nodes");
    }
}

/// Contract 8.5, trivial handler.
#[tokio::test(start_paused = true)]
async fn what_is_marked_and_what_is_not() {
    let rows = [
        ("added", attachment(), 0, vec!["attached"]),
        ("of another driver", with(attachment(), json!({ "spec": { "attacher": "other" } })), 0, vec![]),
        ("refused twice", attachment(), 2, vec!["attached"; 3]),
        ("attached", with(attachment(), json!({ "status": { "attached": true } })), 0, vec![]),
    ];
    assert_eq!(rows.len(), 4);
    for (case, attachment, refusals, writes) in rows {
        let scene = Scene::with(config(), no_publish).await;
        let refused = Reaction::Refuse(Status::forbidden("no"));
        scene.api.react(Matcher::of("patch", "volumeattachments").times(refusals), refused);
        scene.add_attachment(attachment);
        scene.pass(Duration::from_mins(1)).await;
        assert_eq!(scene.writes(), writes, "{case}");
    }
}

/// As the Go attacher does: the attachment is marked although it is to go.
#[tokio::test(start_paused = true)]
async fn an_attachment_that_is_deleted_is_marked_all_the_same() {
    let scene = Scene::with(config(), no_publish).await;
    scene.api.react(Matcher::of("patch", "volumeattachments").once(), Reaction::Refuse(Status::internal_error("x")));
    scene.add_attachment(with(attachment(), json!({ "metadata": { "finalizers": ["other"] } })));
    scene.delete_attachment("pv1-node1");
    scene.attached("pv1-node1").await;
}

/// Somebody takes the mark away: it is set again.
#[tokio::test(start_paused = true)]
async fn an_update_that_takes_the_mark_away_is_answered() {
    let scene = Scene::with(config(), no_publish).await;
    scene.add_attachment(attachment());
    scene.attached("pv1-node1").await;
    scene.api.merge::<VolumeAttachment>(None, "pv1-node1", &json!({ "status": { "attached": false } }));
    scene.attached("pv1-node1").await;
    assert_eq!(scene.writes(), ["attached"; 2]);
}

/// The driver was updated to a version that does not publish any more.
#[tokio::test(start_paused = true)]
async fn l3_an_attachment_of_a_driver_that_published_once_goes_when_it_is_deleted() {
    for attached in [true, false] {
        let held = json!({ "metadata": { "finalizers": [FINALIZER] }, "status": { "attached": attached } });
        let scene = Scene::with(config(), no_publish).await;
        scene.add_attachment(with(attachment(), held));
        scene.delete_attachment("pv1-node1");
        scene.gone("pv1-node1").await;
        assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0);
    }
}
