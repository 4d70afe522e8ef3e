//! A volume name that another PersistentVolume has, or is about to have.

use std::num::NonZeroUsize;
use std::time::Duration;

use controller_runtime::Projection as _;
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Release, Rpc, Step};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};
use storage_kube::volume_name::UuidLength;

use super::objects::{DRIVER, claim, class, volume, with};
use super::scene::{Scene, flags};
use super::volumes::projection;
use crate::settings::ProvisioningFlags;
use crate::volume::decision::{VolumeDecision, decide};

const OTHER_CLAIM: &str = "11111111-2222-3333-4444-555555555555";

fn foreign(name: &str, claim: Option<&str>, phase: &str) -> Value {
    let reference = claim.map(|uid| json!({ "namespace": "shop", "name": "gone", "uid": uid }));
    let other = json!({
        "metadata": { "annotations": { "pv.kubernetes.io/provisioned-by": "other" } },
        "spec": { "csi": { "driver": "other" }, "claimRef": reference },
    });
    with(volume(name, "h", phase, "Delete"), &other)
}

/// A claim that waits for a node, while the name of its volume is taken, gets its node.
async fn with_taken_name(phase: &str) -> (Scene, String) {
    let scene = Scene::start().await;
    scene.add_class(with(class("late", json!({})), &json!({ "volumeBindingMode": "WaitForFirstConsumer" })));
    let uid = scene.add_claim(claim("data", "late"));
    scene.add_volume(foreign(&format!("pvc-{uid}"), None, phase));
    let node = json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": "n1" } } });
    scene.pass(Duration::from_secs(1)).await;
    scene.api.merge::<PersistentVolumeClaim>("shop", "data", &node);
    (scene, uid)
}

#[tokio::test(start_paused = true)]
async fn l11_a_volume_of_another_driver_under_the_name_keeps_the_call_from_being_made_and_is_told() {
    for phase in ["Available", "Pending"] {
        let (scene, uid) = with_taken_name(phase).await;
        let text = scene.event("ProvisioningFailed").await;
        assert!(text.contains(&format!("pvc-{uid}")), "{text}");
        scene.pass(Duration::from_mins(50)).await;
        assert_eq!((scene.count(Rpc::CreateVolume), scene.count(Rpc::DeleteVolume)), (0, 0), "{phase}");
        assert_eq!(scene.writes(), ["create persistentvolumes"; 0], "the other volume is left alone");
        scene.api.remove::<PersistentVolume>(None, &format!("pvc-{uid}"));
        scene.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    }
}

/// Somebody takes the name while the driver makes the volume.
#[tokio::test(start_paused = true)]
async fn l11_a_volume_that_is_made_already_is_saved_once_its_name_is_free_and_no_second_one_is_made() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    let release = Release::new();
    scene.driver.script(Rpc::CreateVolume, Step::answer().held_by(&release));
    let uid = scene.add_claim(claim("data", "fast"));
    let name = format!("pvc-{uid}");
    scene.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    scene.add_volume(foreign(&name, None, "Available"));
    release.release();
    assert!(scene.event("ProvisioningFailed").await.contains("exists and is for another claim"));
    scene.pass(Duration::from_mins(30)).await;
    scene.api.remove::<PersistentVolume>(None, &name);
    scene.pass(Duration::from_secs(1)).await;
    let volume = scene.api.get_json::<PersistentVolume>(None, &name).unwrap();
    assert_eq!(volume["spec"]["csi"]["driver"], DRIVER);
    scene.pass(Duration::from_mins(30)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 1);
}

#[test]
fn l11_volumes_of_other_drivers_are_kept_only_if_they_may_be_in_the_way_and_nothing_is_done_with_them() {
    let own = format!("pvc-{OTHER_CLAIM}");
    let named = "pvc-6f6d0e1c-3a65-4ff0-9d0c-0d6c1b0e7a11";
    let cases = [
        ("called after its claim, bound", own.as_str(), Some(OTHER_CLAIM), "Bound", false),
        ("called after its claim, released", &own, Some(OTHER_CLAIM), "Released", false),
        ("called after its claim, new", &own, Some(OTHER_CLAIM), "Pending", true),
        ("called after another claim", named, Some(OTHER_CLAIM), "Bound", false),
        ("called after another claim, new", named, Some(OTHER_CLAIM), "Pending", false),
        ("without claim", named, None, "Available", true),
        ("no name of a claim", "pvc-backup", None, "Available", false),
        ("other prefix", "vol-6f6d0e1c-3a65-4ff0-9d0c-0d6c1b0e7a11", None, "Available", false),
    ];
    for (case, name, claimed, phase, kept) in cases {
        for (policy, deleting) in [("Delete", false), ("Delete", true), ("Retain", true)] {
            let mut object = foreign(name, claimed, phase);
            object["metadata"]["uid"] = json!("volume-uid");
            object["spec"]["persistentVolumeReclaimPolicy"] = json!(policy);
            if deleting {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            let (projection, json) = (projection(DRIVER, None), object.to_string().into_bytes());
            assert_eq!(projection.may_concern(&json), kept, "{case}");
            let record = projection.project(serde_json::from_slice(&json).unwrap());
            assert_eq!(record.is_some(), kept, "{case}");
            assert!(record.is_none_or(|record| decide(&record) == VolumeDecision::Nothing), "{case}");
        }
    }
}

fn short() -> ProvisioningFlags {
    ProvisioningFlags { uuid_length: UuidLength::First(NonZeroUsize::new(1).unwrap()), ..flags() }
}

/// Two claims whose volumes have one name: of seventeen two begin alike.
fn add_alike(scene: &Scene, alike: usize) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    loop {
        let name = format!("data-{}", all.len());
        let uid = scene.add_claim(with(claim(&name, "late"), &json!({})));
        all.push((name, uid));
        let first = |uid: &str| uid.chars().next();
        for (_, uid) in &all {
            let same: Vec<_> = all.iter().filter(|(_, other)| first(other) == first(uid)).cloned().collect();
            if same.len() == alike {
                return same;
            }
        }
    }
}

async fn short_names() -> (Scene, Vec<(String, String)>, String) {
    let scene = Scene::with(short(), |_| ()).await;
    scene.add_class(with(class("late", json!({})), &json!({ "volumeBindingMode": "WaitForFirstConsumer" })));
    let alike = add_alike(&scene, 2);
    let name = format!("pvc-{}", &alike[0].1[..1]);
    (scene, alike, name)
}

fn select_node(scene: &Scene, claim: &str) {
    let node = json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": "n1" } } });
    scene.api.merge::<PersistentVolumeClaim>("shop", claim, &node);
}

#[tokio::test(start_paused = true)]
async fn l9_two_claims_with_one_volume_name_are_not_asked_for_at_the_same_time_and_the_second_is_told() {
    let (scene, alike, name) = short_names().await;
    let release = Release::new();
    scene.driver.script(Rpc::CreateVolume, Step::answer().held_by(&release));
    for (claim, _) in &alike {
        select_node(&scene, claim);
    }
    scene.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    scene.pass(Duration::from_secs(5)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 1);
    release.release();
    let volume = scene.volume(&name).await;
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 1);
    assert!(alike.iter().any(|(_, uid)| volume["spec"]["claimRef"]["uid"] == uid.as_str()));
    assert!(scene.event("ProvisioningFailed").await.contains(&format!("the name {name} is taken")));
}

/// The other claim's volume appears while this one's is made, by another process.
#[tokio::test(start_paused = true)]
async fn l9_a_backend_volume_that_another_claim_has_is_never_written_for_a_second_claim() {
    let (scene, alike, name) = short_names().await;
    let release = Release::new();
    scene.driver.script(Rpc::CreateVolume, Step::answer().held_by(&release));
    select_node(&scene, &alike[0].0);
    scene.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    let refused = Reaction::Refuse(Status::new(500, "InternalError", "etcd is busy"));
    let handle = format!("handle-1-of-{name}");
    let other = json!({ "spec": { "claimRef": { "name": alike[1].0, "uid": alike[1].1 } } });
    scene.add_volume(with(volume(&name, &handle, "Bound", "Delete"), &other));
    scene.api.react(Matcher::of("create", "persistentvolumes"), refused);
    release.release();
    scene.pass(Duration::from_secs(2)).await;
    // The other claim is deleted, and its volume with it.
    scene.api.remove::<PersistentVolume>(None, &name);
    scene.driver.script_always(Rpc::CreateVolume, || Step::fail(tonic::Code::Internal, "not now"));
    scene.api.clear_reactions();
    scene.pass(Duration::from_mins(30)).await;
    assert!(
        scene.api.get_json::<PersistentVolume>(None, &name).is_none(),
        "a PersistentVolume of a volume that is gone"
    );
    assert!(scene.events("ProvisioningFailed").iter().any(|text| text.contains("--volume-name-uuid-length")));
}

/// Events are kept for an hour, waits may last longer.
#[tokio::test(start_paused = true)]
async fn l12_a_taken_name_a_populator_and_a_detach_are_told_again_while_they_last() {
    let (scene, _) = with_taken_name("Available").await;
    scene.add_class(class("fast", json!({})));
    let source = json!({ "spec": { "dataSource": { "apiGroup": "example.com", "kind": "Populator", "name": "s" } } });
    scene.add_claim(with(claim("populated", "fast"), &source));
    scene.add_node_using("h");
    scene.add_volume(volume("attached", "h", "Released", "Delete"));
    scene.add_attachment("attachment", "attached");
    scene.pass(Duration::from_mins(5)).await;
    for (reason, what) in
        [("ProvisioningFailed", "is taken"), ("Provisioning", "populator"), ("VolumeDelete", "attached")]
    {
        assert!(scene.events(reason).iter().any(|text| text.contains(what)), "{reason}");
    }
    scene.api.clear_requests();
    scene.pass(Duration::from_mins(55)).await;
    let events = scene.api.requests_of(&Matcher::any().resource("events"));
    let written = |what: &str| events.iter().filter(|request| request.body.to_string().contains(what)).count();
    let patched = events.iter().filter(|request| request.verb != "create").count();
    assert!(patched >= 9 || (written("is taken") >= 3 && written("populator") >= 3), "{patched} of {}", events.len());
    assert!(events.len() <= 15, "{}: no more than once each resync, or each ten minutes", events.len());
}
