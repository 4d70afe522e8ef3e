//! Contract 8.3: our finalizer on volumes.

use std::sync::Arc;
use std::time::Duration;

use controller_runtime::Projection as _;
use fake_apiserver::{Matcher, Reaction, Status};
use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::{Value, json};
use storage_kube::in_tree::InTreePlugin;

use super::objects::{FINALIZER, attached, attachment, node, volume, with};
use super::scene::{Scene, config};
use crate::records::{Interners, VolumeProjection};
use crate::settings::Settings;
use crate::volume::decision::{VolumeDecision, decide};
use crate::volume::finalizer_patch;

fn finalizers(list: &[&str]) -> Value {
    json!({ "metadata": { "finalizers": list } })
}

fn delete(scene: &Scene) {
    scene.api.delete::<PersistentVolume>(None, "pv1");
}

fn left(scene: &Scene) -> Option<Value> {
    scene.api.get_json::<PersistentVolume>(None, "pv1").map(|volume| volume["metadata"]["finalizers"].clone())
}

#[tokio::test(start_paused = true)]
async fn our_finalizer_goes_when_the_volume_is_deleted_and_nothing_is_attached() {
    type Act = fn(&Scene);
    type Row = (&'static str, Value, Act, &'static [&'static str], Option<Value>);
    let deleted: Act = delete;
    let nothing: Act = |_| ();
    let detached: Act = |scene| {
        scene.add_attachment(with(attached(attachment(), "n"), finalizers(&["other"])));
        delete(scene);
        scene.api.remove::<k8s_openapi::api::storage::v1::VolumeAttachment>(None, "pv1-node1");
    };
    let still_attached: Act = |scene| {
        scene.add_attachment(with(attached(attachment(), "n"), finalizers(&["other"])));
        delete(scene);
    };
    let ours = json!([FINALIZER]);
    let without = json!(["other"]);
    let rows: Vec<Row> = vec![
        ("deleted", volume(), deleted, &["unprotect"], None),
        ("the last attachment goes", volume(), detached, &["unprotect"], None),
        ("not deleted", volume(), nothing, &[], Some(ours.clone())),
        ("still attached", volume(), still_attached, &[], Some(ours.clone())),
        ("without our finalizer", with(volume(), finalizers(&["other"])), deleted, &[], Some(without.clone())),
        (
            "others before",
            with(volume(), finalizers(&["other", FINALIZER])),
            deleted,
            &["unprotect"],
            Some(without.clone()),
        ),
        ("others behind", with(volume(), finalizers(&[FINALIZER, "other"])), deleted, &["unprotect"], Some(without)),
        (
            "of another driver",
            with(volume(), json!({ "metadata": { "finalizers": ["x"] }, "spec": { "csi": { "driver": "other" } } })),
            deleted,
            &[],
            Some(json!(["x"])),
        ),
    ];
    assert_eq!(rows.len(), 8);
    for (case, volume, act, writes, finalizers) in rows {
        let scene = Scene::with(config(), |_| ()).await;
        scene.add_volume(volume);
        scene.pass(Duration::from_millis(100)).await;
        act(&scene);
        scene.pass(Duration::from_mins(1)).await;
        assert_eq!(scene.writes(), writes, "{case}");
        assert_eq!(left(&scene), finalizers, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_cannot_be_removed_is_tried_again() {
    let scene = Scene::start().await;
    let refused = Reaction::Refuse(Status::forbidden("no"));
    scene.api.react(Matcher::of("patch", "persistentvolumes").times(2), refused);
    scene.pass(Duration::from_millis(100)).await;
    delete(&scene);
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(scene.writes(), ["unprotect"; 3]);
    assert_eq!(left(&scene), None);
}

/// Somebody edits the list before ours meanwhile: the patch tests the place, so that not another's is removed, and the next
/// one is sent right away.
#[tokio::test(start_paused = true)]
async fn a_list_that_others_edit_meanwhile_loses_our_finalizer_alone_and_at_once() {
    let rows: [(&[&str], &[&str], Option<Value>); 3] = [
        (&["a", FINALIZER, "b"], &[FINALIZER, "b"], Some(json!(["b"]))),
        (&[FINALIZER, "a", "b"], &["b", "a", FINALIZER], Some(json!(["b", "a"]))),
        (&["a", FINALIZER], &["a"], Some(json!(["a"]))),
    ];
    for (before, after, expected) in rows {
        let scene = Scene::with(config(), |_| ()).await;
        scene.add_volume(with(volume(), finalizers(before)));
        scene.pass(Duration::from_millis(100)).await;
        let slow = Reaction::Delay(Duration::from_millis(500));
        scene.api.react(Matcher::of("patch", "persistentvolumes").once(), slow);
        delete(&scene);
        scene.pass(Duration::from_millis(100)).await;
        // The watch says nothing of the edit.
        scene.api.react(Matcher::of("watch", "persistentvolumes"), Reaction::Hang);
        scene.api.react(Matcher::of("list", "persistentvolumes"), Reaction::Hang);
        scene.api.break_watches();
        scene.pass(Duration::from_millis(100)).await;
        scene.api.modify::<PersistentVolume>(None, "pv1", |volume| {
            volume.metadata.finalizers = Some(after.iter().map(|&entry| entry.to_owned()).collect());
        });
        scene.pass(Duration::from_millis(600)).await;
        assert_eq!(left(&scene), expected, "{before:?} {after:?}");
    }
}

/// Deleted by force and made anew meanwhile, and the new one is in nobody's way.
#[tokio::test(start_paused = true)]
async fn a_volume_made_anew_while_ours_was_to_be_removed_keeps_our_finalizer() {
    let scene = Scene::with(config(), |_| ()).await;
    scene.add_volume(with(volume(), finalizers(&["a", FINALIZER])));
    scene.pass(Duration::from_millis(100)).await;
    let slow = Reaction::Delay(Duration::from_millis(500));
    scene.api.react(Matcher::of("patch", "persistentvolumes").once(), slow);
    delete(&scene);
    scene.pass(Duration::from_millis(100)).await;
    scene.api.remove::<PersistentVolume>(None, "pv1");
    scene.add_volume(with(volume(), finalizers(&[FINALIZER, "b"])));
    scene.pass(Duration::from_mins(10)).await;
    assert_eq!(left(&scene), Some(json!([FINALIZER, "b"])));
}

fn settings(driver: &str) -> Settings {
    Settings {
        driver: driver.to_owned(),
        finalizer: storage_kube::finalizers::attacher(driver),
        in_tree: InTreePlugin::replaced_by(driver),
        ..super::predicates::settings()
    }
}

/// Predicate table of the contract, for the driver that takes over the plugin of GCE.
#[test]
fn d15_volumes_that_went_back_to_their_plugin_lose_our_finalizer() {
    let settings = settings("pd.csi.storage.gke.io");
    let ours = "external-attacher/pd-csi-storage-gke-io";
    let gce = json!({ "gcePersistentDisk": { "pdName": "x" } });
    let csi = json!({ "csi": { "driver": "pd.csi.storage.gke.io", "volumeHandle": "h" } });
    let annotated = |key: &str, value: &str| json!({ key: value });
    let none = json!({});
    let to = "pv.kubernetes.io/migrated-to";
    let rows = [
        (false, &csi, &none, false, false),
        (true, &csi, &none, false, false),
        (true, &csi, &none, true, true),
        (true, &gce, &none, false, true),
        (true, &gce, &annotated("unrelated", "x"), false, true),
        (true, &gce, &annotated(to, "pd.csi.storage.gke.io"), false, false),
        (true, &gce, &annotated(to, "pd.csi.storage.gke.io"), true, true),
        (true, &gce, &annotated(to, "other"), false, true),
        (false, &gce, &none, true, false),
    ];
    assert_eq!(rows.len(), 9);
    let projection = VolumeProjection::new(&settings, &Arc::<Interners>::default());
    for (held, spec, annotations, deleting, released) in rows {
        let mut metadata = json!({ "name": "pv1", "annotations": annotations });
        if held {
            metadata["finalizers"] = json!([ours]);
        }
        if deleting {
            metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let wire = serde_json::from_value(json!({ "metadata": metadata, "spec": spec })).unwrap();
        let record = projection.project(wire).unwrap();
        let expected = if released { VolumeDecision::Release(0) } else { VolumeDecision::Nothing };
        assert_eq!(decide(&settings, &record, false), expected, "{metadata} {spec}");
        assert_eq!(decide(&settings, &record, true), VolumeDecision::Nothing, "attached: {metadata} {spec}");
    }
}

/// The rolled back volume is not ours by its source; a watch that filtered by that would leave our finalizer for ever.
#[tokio::test(start_paused = true)]
async fn d15_our_finalizer_leaves_a_volume_of_a_source_that_is_not_ours() {
    let scene = Scene::with(config(), |_| ()).await;
    scene.add_volume(with(volume(), json!({ "spec": { "csi": null, "nfs": {} } })));
    scene.pass(Duration::from_millis(100)).await;
    delete(&scene);
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(left(&scene), None);
}

#[test]
fn patches_have_the_shapes_of_the_go_attacher() {
    let list = |list: &[&str]| list.iter().map(|&entry| entry.to_owned()).collect::<Vec<_>>();
    let test = |value: Value| json!({ "op": "test", "path": "/metadata/finalizers", "value": value });
    assert_eq!(
        json!(finalizer_patch::add(None, "f")),
        json!([test(json!(null)), { "op": "add", "path": "/metadata/finalizers", "value": ["f"] }])
    );
    assert_eq!(
        json!(finalizer_patch::add(Some(&list(&[])), "f")),
        json!([test(json!([])), { "op": "replace", "path": "/metadata/finalizers", "value": ["f"] }])
    );
    assert_eq!(
        json!(finalizer_patch::add(Some(&list(&["a"])), "f")),
        json!([{ "op": "add", "path": "/metadata/finalizers/-", "value": "f" }])
    );
    for index in [0, 1] {
        let path = format!("/metadata/finalizers/{index}");
        let expected = json!([{ "op": "test", "path": path, "value": "f" }, { "op": "remove", "path": path }]);
        assert_eq!(json!(finalizer_patch::remove(index, "f")), expected);
    }
}

/// Where ours is in a list: sole, first, middle, last; absent and no list have nothing to remove.
#[test]
fn the_place_of_our_finalizer() {
    let settings = super::predicates::settings();
    let rows: [(Value, Option<usize>); 6] = [
        (json!([FINALIZER]), Some(0)),
        (json!([FINALIZER, "a"]), Some(0)),
        (json!(["a", FINALIZER, "b"]), Some(1)),
        (json!(["a", FINALIZER]), Some(1)),
        (json!(["a"]), None),
        (Value::Null, None),
    ];
    assert_eq!(rows.len(), 6);
    let projection = VolumeProjection::new(&settings, &Arc::<Interners>::default());
    for (list, place) in rows {
        let wire = serde_json::from_value(with(volume(), json!({ "metadata": { "finalizers": list } }))).unwrap();
        assert_eq!(projection.record(wire).finalizer_index(&settings), place, "{list}");
    }
}

/// Two nodes at once: appending twice would leave one of the two for ever.
#[tokio::test(start_paused = true)]
async fn two_attachments_of_a_volume_put_our_finalizer_on_once() {
    let scene = Scene::with(config(), |_| ()).await;
    scene.add_volume(with(volume(), finalizers(&["kubernetes.io/pv-protection"])));
    for name in ["a", "b", "c"] {
        scene.add_node(super::objects::node(name, name));
        scene.add_attachment(super::objects::attachment_of(name, "pv1", name));
    }
    for name in ["a", "b", "c"] {
        scene.attached(name).await;
    }
    assert_eq!(left(&scene), Some(json!(["kubernetes.io/pv-protection", FINALIZER])));
}

/// Deleted while it is attached: it goes when its last attachment does, not at the next resync.
#[tokio::test(start_paused = true)]
async fn the_last_attachment_that_goes_frees_a_volume_that_is_deleted() {
    let scene = Scene::start().await;
    for name in ["a", "b"] {
        scene.add_attachment(attached(super::objects::attachment_of(name, "pv1", "node1"), "nodeID1"));
    }
    scene.pass(Duration::from_secs(1)).await;
    delete(&scene);
    scene.delete_attachment("a");
    scene.pass(Duration::from_secs(10)).await;
    assert_eq!(left(&scene), Some(json!([FINALIZER])), "the other is there");
    scene.delete_attachment("b");
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(left(&scene), None);
}

/// An attachment of ours that names a volume of another driver, or of none: the volume stays as it is.
#[tokio::test(start_paused = true)]
async fn n5_nothing_is_written_to_a_volume_of_another_driver() {
    let bare = |spec: Value| with(volume(), json!({ "metadata": { "finalizers": ["other"] }, "spec": spec }));
    let rows = [
        (bare(json!({ "csi": { "driver": "other" } })), "the volume belongs to CSI driver other"),
        (bare(json!({ "csi": null, "nfs": {} })), "could not find a CSI volume source"),
    ];
    for (volume, text) in rows {
        let scene = Scene::with(config(), |_| ()).await;
        scene.add_node(node("node1", "nodeID1"));
        scene.add_volume(volume);
        scene.add_attachment(attachment());
        let found = scene.status("pv1-node1", |status| status.get("attachError").is_some()).await;
        assert!(found["status"]["attachError"]["message"].as_str().unwrap().contains(text), "{found}");
        assert_eq!(scene.writes(), ["attachError"], "{text}");
    }
}
