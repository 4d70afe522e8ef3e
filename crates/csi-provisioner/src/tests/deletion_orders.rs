//! Volumes and claims deleted in every order, with the policy edited at every moment.

use std::time::Duration;

use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::{Value, json};
use tonic::Code;

use super::objects::{volume, with};
use super::scene::Scene;

const OURS: &str = "external-provisioner.volume.kubernetes.io/finalizer";

fn policy(scene: &Scene, policy: &str) {
    let change = json!({ "spec": { "persistentVolumeReclaimPolicy": policy } });
    scene.api.merge::<PersistentVolume>(None, "pv", &change);
}

/// As the protection controller does for a deleted volume that no claim uses.
async fn let_go(scene: &Scene) {
    scene.pass(Duration::from_secs(1)).await;
    let Some(object) = scene.api.get_json::<PersistentVolume>(None, "pv") else { return };
    let ours = object["metadata"]["finalizers"].as_array().is_some_and(|all| all.contains(&json!(OURS)));
    let left: &[&str] = if ours { &[OURS] } else { &[] };
    scene.api.merge::<PersistentVolume>(None, "pv", &json!({ "metadata": { "finalizers": left } }));
}

/// Provisioned by this program, made by hand, and provisioned by a release that knew no finalizer.
fn origins() -> [(&'static str, Value); 3] {
    let bare = json!({ "metadata": { "finalizers": ["kubernetes.io/pv-protection"] } });
    let by_hand = json!({ "metadata": { "annotations": null, "finalizers": ["kubernetes.io/pv-protection"] } });
    [("provisioned", json!({})), ("made by hand", by_hand), ("old", bare)]
}

#[tokio::test(start_paused = true)]
async fn a6_whichever_goes_first_the_backend_volume_goes_with_policy_delete_and_stays_with_retain() {
    let mut rows = 0;
    for (origin, change) in origins() {
        for volume_first in [true, false] {
            for keeps in [true, false] {
                rows += 1;
                let row = format!("{origin}, volume first: {volume_first}, retain: {keeps}");
                let scene = Scene::start().await;
                let reclaim = if keeps { "Retain" } else { "Delete" };
                scene.add_volume(with(volume("pv", "h", "Bound", reclaim), &change));
                scene.pass(Duration::from_secs(1)).await;
                if volume_first {
                    scene.api.delete::<PersistentVolume>(None, "pv");
                    scene.pass(Duration::from_mins(20)).await;
                    assert_eq!(scene.count(Rpc::DeleteVolume), 0, "{row}: the claim still uses it");
                }
                scene.release("pv");
                if !volume_first && keeps {
                    scene.pass(Duration::from_mins(20)).await;
                    scene.api.delete::<PersistentVolume>(None, "pv");
                }
                let_go(&scene).await;
                scene.volume_gone("pv").await;
                scene.pass(Duration::from_mins(20)).await;
                assert_eq!(scene.count(Rpc::DeleteVolume), usize::from(!keeps), "{row}");
            }
        }
    }
    assert_eq!(rows, 12);
}

/// A volume without our finalizer that is being deleted has been given up by its administrator, or by the API server's
/// rule that no finalizer goes on a deleted object: nothing is done about it.
#[tokio::test(start_paused = true)]
async fn a6_an_old_volume_deleted_before_its_finalizer_is_on_is_left_alone() {
    let scene = Scene::start().await;
    let (_, bare) = &origins()[2];
    scene.api.react(Matcher::of("patch", "persistentvolumes").once(), Reaction::Refuse(Status::internal_error("busy")));
    scene.add_volume(with(volume("pv", "h", "Bound", "Delete"), bare));
    scene.api.until("the refused patch", super::scene::PATIENCE, |_| (!scene.writes().is_empty()).then_some(())).await;
    scene.api.delete::<PersistentVolume>(None, "pv");
    scene.pass(Duration::from_mins(20)).await;
    scene.release("pv");
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
    assert_eq!(scene.writes().len(), 1, "no finalizer is put on a deleted object");
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    Bound,
    BoundAndDeleting,
    ReleasedAndAttached,
    ReleasedAndFailing,
}

/// The last edit before the driver is called counts.
#[tokio::test(start_paused = true)]
async fn a6_the_policy_is_edited_in_both_directions_at_every_moment() {
    use Moment::{Bound, BoundAndDeleting, ReleasedAndAttached, ReleasedAndFailing};
    let cases = [
        (Bound, "Delete", "Retain", 0),
        (Bound, "Retain", "Delete", 1),
        (BoundAndDeleting, "Delete", "Retain", 0),
        // No finalizer can be put on any more, so the object goes before the volume could be deleted.
        (BoundAndDeleting, "Retain", "Delete", 0),
        (ReleasedAndAttached, "Delete", "Retain", 0),
        (ReleasedAndAttached, "Retain", "Delete", 1),
        (ReleasedAndFailing, "Delete", "Retain", 0),
        (ReleasedAndFailing, "Delete", "Delete", 1),
    ];
    assert_eq!(cases.len(), 8);
    for (moment, before, after, deleted) in cases {
        let row = format!("{moment:?}: {before} to {after}");
        let scene = Scene::start().await;
        let phase = if matches!(moment, Bound | BoundAndDeleting) { "Bound" } else { "Released" };
        if moment == ReleasedAndAttached {
            scene.add_attachment("a1", "pv");
        }
        if moment == ReleasedAndFailing {
            scene.driver.script_always(Rpc::DeleteVolume, || Step::fail(Code::FailedPrecondition, "busy"));
        }
        scene.add_volume(volume("pv", "h", phase, before));
        scene.pass(Duration::from_secs(1)).await;
        if moment == BoundAndDeleting {
            scene.api.delete::<PersistentVolume>(None, "pv");
            scene.pass(Duration::from_secs(1)).await;
        }
        policy(&scene, after);
        scene.pass(Duration::from_mins(10)).await;
        let failed = scene.count(Rpc::DeleteVolume);
        if moment == ReleasedAndFailing {
            scene.driver.forget_script();
        }
        if moment == ReleasedAndAttached {
            scene.api.delete::<k8s_openapi::api::storage::v1::VolumeAttachment>(None, "a1");
        }
        if phase == "Bound" {
            scene.release("pv");
        }
        scene.pass(Duration::from_mins(10)).await;
        assert_eq!(scene.count(Rpc::DeleteVolume) - failed, deleted, "{row}");
        let object = scene.api.get_json::<PersistentVolume>(None, "pv");
        let protected = object.as_ref().is_some_and(|object| {
            object["metadata"]["finalizers"].as_array().is_some_and(|all| all.contains(&json!(OURS)))
        });
        assert!(!protected, "{row}: our finalizer is off");
    }
}

/// Whatever the API server answers, the finalizer goes off in the end: an hour of refusals of each kind.
#[tokio::test(start_paused = true)]
async fn a14_finalizers_survive_refusals_without_end() {
    let refusals = [
        ("conflict", Status::new(409, "Conflict", "the object has been modified")),
        ("invalid", Status::new(422, "Invalid", "metadata.finalizers: Forbidden: no new finalizers can be added")),
        ("forbidden", Status::forbidden("persistentvolumes \"pv\" is forbidden: cannot patch")),
    ];
    assert_eq!(refusals.len(), 3);
    for (kind, status) in refusals {
        for first in ["Bound", "Released"] {
            let scene = Scene::start().await;
            scene.api.react(Matcher::of("patch", "persistentvolumes"), Reaction::Refuse(status.clone()));
            let finalizers = if first == "Bound" { json!([]) } else { json!([OURS]) };
            scene.add_volume(with(
                volume("pv", "h", first, "Delete"),
                &json!({ "metadata": { "finalizers": finalizers } }),
            ));
            scene.pass(Duration::from_hours(1)).await;
            assert!(scene.writes().len() > 15, "{kind}: {}", scene.writes().len());
            let told = scene.events("VolumeFailedDelete");
            assert_eq!(told.is_empty(), first == "Bound", "{kind}: nobody waits for a volume in use");
            assert!(kind != "forbidden" || told.iter().all(|text| text.contains("the verb patch")), "{told:?}");
            assert_eq!(scene.count(Rpc::DeleteVolume), usize::from(first == "Released"), "{kind}: once");
            scene.api.clear_reactions();
            if first == "Released" {
                scene.volume_gone("pv").await;
            } else {
                scene.pass(Duration::from_mins(6)).await;
                assert_eq!(scene.volume("pv").await["metadata"]["finalizers"], json!([OURS]), "{kind}");
            }
        }
    }
}

/// A retained volume that is being deleted shows why it does not go.
#[tokio::test(start_paused = true)]
async fn a14_a_deleted_volume_whose_finalizer_may_not_be_taken_off_says_so() {
    let scene = Scene::start().await;
    let refused = Status::forbidden("persistentvolumes \"pv\" is forbidden: cannot patch");
    scene.api.react(Matcher::of("patch", "persistentvolumes"), Reaction::Refuse(refused));
    scene.add_volume(volume("pv", "h", "Bound", "Retain"));
    scene.pass(Duration::from_mins(10)).await;
    assert!(scene.events("VolumeFailedDelete").is_empty());
    scene.api.delete::<PersistentVolume>(None, "pv");
    let text = scene.event("VolumeFailedDelete").await;
    assert!(text.contains("the verb patch"), "{text}");
    scene.api.clear_reactions();
    let_go(&scene).await;
    scene.pass(Duration::from_mins(6)).await;
    let_go(&scene).await;
    scene.volume_gone("pv").await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
}
