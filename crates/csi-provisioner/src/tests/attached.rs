//! A volume that is attached waits for its detach, quietly, whatever the driver says it can do.

use std::time::Duration;

use csi_proto::csi::v1::controller_service_capability::rpc::Type as ControllerRpc;
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::Rpc;
use k8s_openapi::api::core::v1::{Event, PersistentVolume};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::json;

use super::objects::volume;
use super::scene::{Scene, flags};

/// With and without PUBLISH_UNPUBLISH_VOLUME.
async fn scene(publishes: bool) -> Scene {
    Scene::with(flags(), |driver| {
        if publishes {
            driver.controller_capabilities.push(ControllerRpc::PublishUnpublishVolume);
        }
    })
    .await
}

fn lists(scene: &Scene) -> usize {
    let of = |verb: &str| scene.api.requests_of(&Matcher::of(verb, "volumeattachments")).len();
    of("list") + of("watch")
}

/// How often a volume was put back into its queue with a delay.
fn retries(scene: &Scene) -> f64 {
    let families = scene.registry.gather();
    let retries = families.iter().find(|family| family.name() == "workqueue_retries_total").unwrap();
    let volumes =
        retries.get_metric().iter().find(|metric| metric.get_label().iter().any(|label| label.value() == "volumes"));
    volumes.map_or(0.0, |metric| metric.get_counter().get_value())
}

#[tokio::test(start_paused = true)]
async fn a13_waiting_for_detach_is_told_at_each_resync_and_ends_at_once() {
    for publishes in [true, false] {
        let scene = scene(publishes).await;
        scene.add_node_using("h");
        scene.add_attachment("a1", "pv");
        scene.add_attachment("a2", "pv");
        scene.add_volume(volume("pv", "h", "Released", "Delete"));
        let text = scene.event("VolumeDelete").await;
        assert!(text.contains("pv is still attached") && text.contains('2'), "{text}");
        scene.pass(Duration::from_mins(10)).await;
        scene.api.delete::<VolumeAttachment>(None, "a1");
        scene.pass(Duration::from_mins(50)).await;
        assert_eq!(scene.count(Rpc::DeleteVolume), 0);
        let before = tokio::time::Instant::now();
        scene.api.delete::<VolumeAttachment>(None, "a2");
        scene.driver.wait_for_calls(Rpc::DeleteVolume, 1).await;
        assert!(before.elapsed() < Duration::from_millis(100), "{:?}", before.elapsed());
        scene.pass(Duration::from_secs(1)).await;
        let events: Vec<Event> = scene.api.list();
        let told: Vec<_> = events.iter().map(|event| (event.type_.as_deref(), event.count)).collect();
        // At each resync, and without the publish capability at each look for stale attachments.
        let [of_two, of_one] = if publishes { [1, 4] } else { [2, 5] };
        let expected = [(Some("Normal"), Some(of_two)), (Some("Normal"), Some(of_one))];
        assert_eq!(told, expected, "of two attachments, then of one, and it is no warning");
        let looks = if publishes { 1.0 } else { 10.0 };
        assert!(retries(&scene) < looks, "and nobody looks in between, but for stale ones every ten minutes");
        let failed = scene.registry.gather().iter().any(|family| family.name().contains("delete_failed"));
        assert!(!failed, "to wait is no failed deletion");
    }
}

/// The wait leaves nothing behind: a failure after it starts with the first delay.
#[tokio::test(start_paused = true)]
async fn a13_the_wait_does_not_grow_the_backoff() {
    let scene = scene(true).await;
    scene.add_attachment("a1", "pv");
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    scene.event("VolumeDelete").await;
    for round in 0..20 {
        let change = json!({ "metadata": { "annotations": { "round": round.to_string() } } });
        scene.api.merge::<PersistentVolume>(None, "pv", &change);
        scene.pass(Duration::from_mins(1)).await;
    }
    scene.driver.script(Rpc::DeleteVolume, fake_driver::Step::fail(tonic::Code::Internal, "no"));
    scene.api.delete::<VolumeAttachment>(None, "a1");
    scene.driver.wait_for_ended_calls(Rpc::DeleteVolume, 1).await;
    let before = tokio::time::Instant::now();
    scene.driver.wait_for_calls(Rpc::DeleteVolume, 2).await;
    assert!(before.elapsed() <= Duration::from_millis(1100), "{:?}", before.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a12_a_driver_without_the_publish_capability_pays_for_the_guard_only_when_it_deletes() {
    let scene = scene(false).await;
    scene.add_attachment("a1", "pv");
    scene.add_volume(volume("other", "h1", "Bound", "Delete"));
    scene.pass(Duration::from_mins(30)).await;
    assert_eq!(lists(&scene), 0, "nothing is asked before anything is deleted");
    assert_eq!(scene.term().caches.attachments.len(), 0);
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    scene.event("VolumeDelete").await;
    let asked = lists(&scene);
    for n in 0..50 {
        scene.add_volume(volume(&format!("free-{n}"), &format!("f{n}"), "Released", "Delete"));
    }
    scene.driver.wait_for_calls(Rpc::DeleteVolume, 50).await;
    assert_eq!(lists(&scene), asked, "fifty more deletions cost no request");
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 50, "the attached one is kept");
}

#[tokio::test(start_paused = true)]
async fn a12_without_the_right_to_read_attachments_volumes_are_deleted_and_the_watch_does_not_begin() {
    let scene = scene(false).await;
    let refused = Reaction::Refuse(Status::forbidden("volumeattachments.storage.k8s.io is forbidden"));
    scene.api.react(Matcher::any().resource("volumeattachments"), refused);
    for n in 0..20 {
        scene.add_volume(volume(&format!("pv-{n}"), &format!("h{n}"), "Released", "Delete"));
    }
    scene.driver.wait_for_calls(Rpc::DeleteVolume, 20).await;
    assert_eq!(lists(&scene), 1, "asked once");
    scene.pass(Duration::from_mins(1)).await;
    assert!(scene.events("VolumeFailedDelete").is_empty());

    scene.api.clear_reactions();
    scene.add_attachment("a1", "late");
    scene.pass(Duration::from_mins(11)).await;
    scene.add_volume(volume("late", "h", "Released", "Delete"));
    scene.event("VolumeDelete").await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 20, "the right was given meanwhile");
}

/// No answer is no permission.
#[tokio::test(start_paused = true)]
async fn a12_while_attachments_cannot_be_read_nothing_is_deleted() {
    let scene = scene(false).await;
    let broken = Reaction::Refuse(Status::internal_error("etcd is busy"));
    scene.api.react(Matcher::of("list", "volumeattachments").times(3), broken);
    scene.add_attachment("a1", "pv");
    scene.add_volume(volume("pv", "h", "Released", "Delete"));
    let text = scene.event("VolumeFailedDelete").await;
    assert!(text.contains("not known whether the volume is attached") && text.contains("etcd is busy"), "{text}");
    scene.event("VolumeDelete").await;
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
}

/// A new leader must not trust what its process saw of attachments before.
#[tokio::test(start_paused = true)]
async fn a12_the_first_deletion_of_a_term_asks_again() {
    let scene = scene(false).await;
    scene.add_volume(volume("first", "h1", "Released", "Delete"));
    scene.driver.wait_for_calls(Rpc::DeleteVolume, 1).await;
    let asked = lists(&scene);
    scene.begin_stop();
    scene.pass(Duration::from_secs(1)).await;
    scene.add_attachment("a1", "second");
    scene.add_volume(volume("second", "h2", "Released", "Delete"));
    scene.pass(Duration::from_secs(1)).await;
    let _again = scene.lead_again();
    scene.event("VolumeDelete").await;
    assert!(lists(&scene) > asked, "permission and a current version");
    assert_eq!(scene.count(Rpc::DeleteVolume), 1);
}
