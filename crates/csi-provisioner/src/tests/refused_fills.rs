//! A driver that refuses to clone or restore is asked again, and the source is there when it is.

use std::time::Duration;

use fake_apiserver::{FakeApiServer, Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;
use storage_kube::wire::{ReferenceGrant, VolumeSnapshot};
use tonic::Code;

use super::objects::{class, with};
use super::scene::{PATIENCE, Scene, flags};
use super::source_objects::{
    CLONING, RESTORING, add_grant, add_snapshot, add_source, claim_finalizers, clone_of, contents, fills, restore,
    snapshot_finalizers,
};
use crate::settings::ProvisioningFlags;

async fn scene() -> Scene {
    let scene = Scene::with(ProvisioningFlags { cross_namespace_gate: true, ..flags() }, fills).await;
    scene.add_class(class("fast", json!({})));
    add_snapshot(&scene.api, &json!({}), &json!({}));
    add_source(&scene.api, &json!({}), &json!({}));
    scene
}

fn is_held(api: &FakeApiServer) -> [bool; 2] {
    let has = |all: Option<Vec<String>>, finalizer: &str| all.is_some_and(|all| all.iter().any(|one| one == finalizer));
    [has(snapshot_finalizers(api, "monday"), RESTORING), has(claim_finalizers(api, "source"), CLONING)]
}

fn delete_sources(scene: &Scene) {
    scene.api.delete::<VolumeSnapshot>("shop", "monday");
    scene.api.delete::<PersistentVolumeClaim>("shop", "source");
}

async fn sources_gone(scene: &Scene, within: Duration) {
    let gone = |api: &FakeApiServer| {
        let gone = snapshot_finalizers(api, "monday").is_none() && claim_finalizers(api, "source").is_none();
        gone.then_some(())
    };
    scene.api.until("the sources to go", within, gone).await;
}

#[tokio::test(start_paused = true)]
async fn l10_a_source_deleted_between_a_final_answer_and_the_next_try_is_there_at_the_next_try() {
    for code in [Code::Internal, Code::ResourceExhausted, Code::InvalidArgument] {
        let scene = scene().await;
        for _ in 0..2 {
            scene.driver.script(Rpc::CreateVolume, Step::fail(code, "not now"));
        }
        let uids = [scene.add_claim(restore("restored", "monday")), scene.add_claim(clone_of("cloned", "source"))];
        scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 2).await;
        scene.pass(Duration::from_millis(500)).await;
        assert_eq!(scene.count(Rpc::CreateVolume), 2, "{code:?}");
        delete_sources(&scene);
        scene.pass(Duration::from_millis(100)).await;
        assert_eq!(is_held(&scene.api), [true, true], "{code:?}");
        for uid in uids {
            scene.volume(&format!("pvc-{uid}")).await;
        }
        let mut contents = contents(&scene);
        contents.sort();
        let (snapshot, volume) = ("snapshot handle-of-monday", "volume handle-of-source");
        assert_eq!(contents, [snapshot, snapshot, volume, volume], "{code:?}");
        sources_gone(&scene, Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn l10_a_source_is_held_for_an_hour_from_its_deletion_by_claims_that_fail_for_ever_and_they_are_told() {
    let scene = scene().await;
    scene.driver.script_always(Rpc::CreateVolume, || Step::fail(Code::Internal, "the backend is on fire"));
    scene.add_claim(restore("restored", "monday"));
    scene.add_claim(clone_of("cloned", "source"));
    scene.pass(Duration::from_hours(2)).await;
    assert_eq!(is_held(&scene.api), [true, true], "as long as they are not deleted");
    delete_sources(&scene);
    scene.pass(Duration::from_mins(59)).await;
    assert_eq!(is_held(&scene.api), [true, true]);
    let kept = scene.events("SourceKept");
    for source in ["VolumeSnapshot shop/monday", "PersistentVolumeClaim shop/source"] {
        assert_eq!(kept.iter().filter(|text| text.starts_with(source)).count(), 1, "{kept:?}");
    }
    // A snapshot is seen to be deleted by the next try, five minutes later at most.
    sources_gone(&scene, Duration::from_mins(7)).await;
    scene.pass(Duration::from_hours(2)).await;
    let let_go = scene.events("ProvisioningFailed").into_iter().filter(|text| text.contains("not kept for this claim"));
    assert_eq!(let_go.count(), 2, "once each");
}

/// Without the object the next leader has to ask for the volume again, and needs the source for that.
#[tokio::test(start_paused = true)]
async fn l10_a_source_is_held_until_the_object_of_the_volume_is_written() {
    let scene = scene().await;
    let away = Reaction::Refuse(Status::internal_error("etcd is full"));
    scene.api.react(Matcher::of("create", "persistentvolumes"), away);
    let uids = [scene.add_claim(restore("restored", "monday")), scene.add_claim(clone_of("cloned", "source"))];
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 2).await;
    delete_sources(&scene);
    scene.pass(Duration::from_hours(3)).await;
    assert_eq!(is_held(&scene.api), [true, true]);
    scene.begin_stop();
    scene.pass(Duration::from_secs(30)).await;
    let _stop = scene.lead_again();
    scene.pass(Duration::from_secs(10)).await;
    assert_eq!(is_held(&scene.api), [true, true]);
    scene.api.clear_reactions();
    for uid in uids {
        scene.volume(&format!("pvc-{uid}")).await;
    }
    sources_gone(&scene, Duration::from_secs(1)).await;
}

/// Claims that have lost their node after the driver's final answer.
async fn refused_and_without_node(code: Code) -> Scene {
    let selected = |node| json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": node } } });
    let late = json!({ "volumeBindingMode": "WaitForFirstConsumer" });
    let scene = scene().await;
    scene.add_class(with(class("late", json!({})), &late));
    scene.driver.script_always(Rpc::CreateVolume, move || Step::fail(code, "the backend is on fire"));
    for claim in [restore("restored", "monday"), clone_of("cloned", "source")] {
        scene.add_claim(with(with(claim, &json!({ "spec": { "storageClassName": "late" } })), &selected(Some("n1"))));
    }
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 2).await;
    for claim in ["restored", "cloned"] {
        scene.api.merge::<PersistentVolumeClaim>("shop", claim, &selected(None));
    }
    scene
}

/// No try can follow: the claim waits for something else.
#[tokio::test(start_paused = true)]
async fn l10_a_source_is_held_for_an_hour_after_the_last_answer_when_no_try_follows() {
    let scene = refused_and_without_node(Code::Internal).await;
    scene.pass(Duration::from_mins(59)).await;
    assert_eq!(is_held(&scene.api), [true, true]);
    scene.pass(Duration::from_mins(2)).await;
    assert_eq!(is_held(&scene.api), [false, false]);
}

/// The claim was given back to the scheduler, and another leader begins before it has a node again.
#[tokio::test(start_paused = true)]
async fn l10_the_next_leader_holds_the_source_of_a_claim_that_has_no_node_any_more() {
    let scene = refused_and_without_node(Code::ResourceExhausted).await;
    scene.pass(Duration::from_secs(1)).await;
    scene.begin_stop();
    scene.pass(Duration::from_secs(1)).await;
    let _stop = scene.lead_again();
    scene.pass(Duration::from_secs(1)).await;
    delete_sources(&scene);
    scene.pass(Duration::from_mins(50)).await;
    assert_eq!(is_held(&scene.api), [true, true]);
    sources_gone(&scene, Duration::from_mins(20)).await;
}

#[tokio::test(start_paused = true)]
async fn l10_a_source_goes_with_the_claims_that_would_be_tried_again() {
    let scene = scene().await;
    scene.driver.script_always(Rpc::CreateVolume, || Step::fail(Code::Internal, "the backend is on fire"));
    scene.add_claim(restore("restored", "monday"));
    scene.add_claim(clone_of("cloned", "source"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 2).await;
    delete_sources(&scene);
    scene.pass(Duration::from_mins(30)).await;
    assert_eq!(is_held(&scene.api), [true, true]);
    for claim in ["restored", "cloned"] {
        scene.api.delete::<PersistentVolumeClaim>("shop", claim);
    }
    sources_gone(&scene, Duration::from_secs(1)).await;
}

/// Who takes the grant back wants the source for himself.
#[tokio::test(start_paused = true)]
async fn l10_a_source_is_let_go_by_a_claim_that_is_refused_for_good() {
    let scene = scene().await;
    add_grant(&scene.api, "", "PersistentVolumeClaim", &json!({}));
    scene.driver.script_always(Rpc::CreateVolume, || Step::fail(Code::Internal, "the backend is on fire"));
    let source = json!({ "kind": "PersistentVolumeClaim", "name": "source", "namespace": "shop" });
    let change =
        json!({ "metadata": { "namespace": "bakery" }, "spec": { "dataSource": null, "dataSourceRef": source } });
    scene.add_claim(with(clone_of("cloned", "source"), &change));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.pass(Duration::from_millis(100)).await;
    assert_eq!(is_held(&scene.api), [false, true]);
    scene.api.delete::<ReferenceGrant>("shop", "open");
    scene.api.until("the source to be released", PATIENCE, |api| (!is_held(api)[1]).then_some(())).await;
    assert!(scene.events("ProvisioningFailed").iter().any(|text| text.contains("no ReferenceGrant")));
    assert!(scene.count(Rpc::CreateVolume) < 3);
}
