//! What changes while the provisioner is at work. One test for each row of the table, nine in all, and one of a field report.

use std::time::Duration;

use fake_apiserver::{Matcher, Reaction, Status};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSIStorageCapacity;
use serde_json::json;

use super::super::objects::class;
use super::super::scene::Scene;
use super::pool::{
    GIB, NAMESPACE, POLL, Pool, add_class, add_object, add_zone, all, flags, late, object, remove_zone, scene, told,
    until,
};
use crate::settings::CapacityFlags;

/// One object of one GiB, and nothing left to do.
async fn settled(pool: &Pool) -> (Scene, String) {
    let scene = scene(flags(), pool, |api| {
        add_zone(api, "z1");
        add_class(api, late("fast", 1));
    })
    .await;
    until(&scene, &["fast z1 1Gi"]).await;
    scene.pass(Duration::from_secs(1)).await;
    let name = all(&scene.api)[0].metadata.name.clone().unwrap();
    (scene, name)
}

fn count(scene: &Scene, verb: &str) -> usize {
    scene.writes().iter().filter(|write| **write == format!("{verb} csistoragecapacities")).count()
}

#[tokio::test(start_paused = true)]
async fn an_object_that_somebody_deletes_is_made_again() {
    let (scene, name) = settled(&Pool::default()).await;
    scene.api.remove::<CSIStorageCapacity>(NAMESPACE, &name);
    until(&scene, &["fast z1 1Gi"]).await;
    assert_ne!(all(&scene.api)[0].metadata.name.as_deref(), Some(&*name));
}

#[tokio::test(start_paused = true)]
async fn an_object_beyond_those_there_should_be_is_deleted() {
    let (scene, name) = settled(&Pool::default()).await;
    add_object(&scene.api, object("a-second", "fast", "z1", "1Gi"));
    until(&scene, &["fast z1 1Gi"]).await;
    add_object(&scene.api, object("a-stranger", "fast", "z9", "1Gi"));
    until(&scene, &["fast z1 1Gi"]).await;
    scene.pass(Duration::from_secs(10)).await;
    assert_eq!(all(&scene.api)[0].metadata.name.as_deref(), Some(&*name), "the older one stays");
    assert_eq!((count(&scene, "create"), count(&scene, "patch"), count(&scene, "delete")), (1, 0, 2));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_loses_its_labels_is_left_alone_and_replaced() {
    let (scene, name) = settled(&Pool::default()).await;
    let none = json!({ "metadata": { "labels": null } });
    let left = scene.api.merge::<CSIStorageCapacity>(NAMESPACE, &name, &none);
    until(&scene, &["fast z1 1Gi", "fast z1 1Gi"]).await;
    scene.pass(2 * POLL).await;
    assert_eq!(scene.api.get::<CSIStorageCapacity>(NAMESPACE, &name).unwrap(), left);
    assert_eq!(all(&scene.api).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_object_made_anew_with_a_wrong_size_is_corrected() {
    let (scene, name) = settled(&Pool::default()).await;
    scene.api.remove::<CSIStorageCapacity>(NAMESPACE, &name);
    add_object(&scene.api, object(&name, "fast", "z1", "7Gi"));
    until(&scene, &["fast z1 1Gi"]).await;
    scene.pass(Duration::from_secs(10)).await;
    assert_eq!(all(&scene.api)[0].metadata.name.as_deref(), Some(&*name));
    assert_eq!((count(&scene, "create"), count(&scene, "patch"), count(&scene, "delete")), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_capacity_that_changes_is_written_at_the_next_poll() {
    let pool = Pool::default();
    let (scene, _) = settled(&pool).await;
    pool.set("z1", 5 * GIB);
    pool.set_maximum(Some(GIB));
    scene.pass(POLL + Duration::from_secs(1)).await;
    assert_eq!(told(&scene.api), ["fast z1 5Gi/1Gi"]);
    pool.set_maximum(None);
    scene.pass(POLL).await;
    assert_eq!(told(&scene.api), ["fast z1 5Gi"]);
    scene.pass(10 * POLL).await;
    assert_eq!(count(&scene, "patch"), 2, "nothing has changed since");
}

/// The immediate class comes first in every order there is: B5.
async fn segment_added(immediate_binding: bool, expected: &[&str]) {
    let pool = Pool::default();
    let scene = scene(CapacityFlags { immediate_binding, ..flags() }, &pool, |api| {
        add_class(api, class("at-once", json!({})));
        add_class(api, late("late", 1));
    })
    .await;
    scene.pass(Duration::from_secs(5)).await;
    add_zone(&scene.api, "z1");
    until(&scene, expected).await;
    scene.pass(2 * POLL).await;
    assert_eq!(told(&scene.api), expected);
}

#[tokio::test(start_paused = true)]
async fn a_segment_that_comes_gets_objects_for_classes_that_bind_late() {
    segment_added(false, &["late z1 1Gi"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_segment_that_comes_gets_objects_for_all_classes_where_that_is_asked_for() {
    segment_added(true, &["at-once z1 1Gi", "late z1 1Gi"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_a_segment_that_goes_are_deleted() {
    let (scene, _) = settled(&Pool::default()).await;
    remove_zone(&scene.api, "z1");
    until(&scene, &[]).await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!((scene.term().capacity.as_ref().unwrap().objects.len(), count(&scene, "delete")), (0, 1));
}

/// The code is that of an object made anew under the name; the object says that it is not.
#[tokio::test(start_paused = true)]
async fn k8_a_deletion_that_a_webhook_refuses_with_a_conflict_is_tried_again_before_the_next_poll() {
    let (scene, _) = settled(&Pool::default()).await;
    let refused = Status::new(409, "Conflict", "admission webhook \"backup.example.com\" denied the request");
    scene.api.react(Matcher::of("delete", "csistoragecapacities").times(2), Reaction::Refuse(refused));
    remove_zone(&scene.api, "z1");
    scene.pass(POLL / 4).await;
    assert_eq!((told(&scene.api), count(&scene, "delete")), (Vec::new(), 3));
}

#[tokio::test(start_paused = true)]
async fn a_segment_that_is_replaced_has_its_objects_replaced() {
    let (scene, _) = settled(&Pool::default()).await;
    scene.api.merge::<Node>(None, "z1", &json!({ "metadata": { "labels": { "zone": "z2" } } }));
    until(&scene, &["fast z2 1Gi"]).await;
    assert_eq!((count(&scene, "create"), count(&scene, "delete")), (2, 1));
}
