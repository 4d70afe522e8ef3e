//! Objects the type does not fit, in lists and in watches.

use super::*;

/// A volume whose access modes are no list.
fn bad(name: &str) -> Value {
    let mut object = volume(name, "ours", "9Gi");
    object["spec"]["accessModes"] = json!("all of them");
    object
}

async fn rig(volumes: &[Value]) -> Rig {
    let server = FakeApiServer::new();
    for volume in volumes {
        server.create_json::<PersistentVolume>(volume.clone());
    }
    let rig = Rig::over(server, None);
    rig.sync().await;
    rig
}

/// Gives a stored volume access modes that are no list, or a good one.
fn set_modes(rig: &Rig, name: &str, modes: &Value) {
    let json = json!({ "spec": { "accessModes": modes } });
    // The type does not fit any more, so `merge` cannot return it.
    rig.server.merge::<kube::core::PartialObjectMeta<PersistentVolume>>(None, name, &json);
}

#[tokio::test(start_paused = true)]
async fn one_malformed_object_does_not_hide_the_others() {
    let log = Log::capture();
    let rig = rig(&[volume("pv-1", "ours", "1Gi"), bad("pv-2"), volume("pv-3", "ours", "3Gi")]).await;
    rig.hears(&["added pv-1 1Gi", "added pv-3 3Gi"]).await;
    rig.server.create_json::<PersistentVolume>(bad("pv-4"));
    rig.create("pv-5", "5Gi");
    rig.hears(&["added pv-5 5Gi"]).await;
    for name in ["pv-2", "pv-4"] {
        let said = log.with(&format!("PersistentVolume {name} is malformed"));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("WARN") && said[0].contains("until it is corrected"), "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_becomes_malformed_keeps_its_last_record() {
    let log = Log::capture();
    let rig = rig(&[volume("pv-1", "ours", "1Gi")]).await;
    rig.hears(&["added pv-1 1Gi"]).await;
    set_modes(&rig, "pv-1", &json!("broken"));
    tokio::time::sleep(MINUTE).await;
    rig.server.compact();
    rig.server.expire_watches();
    tokio::time::sleep(MINUTE).await;
    rig.hears(&[]).await;
    assert_eq!(rig.size("pv-1").as_deref(), Some("1Gi"), "not swept by the list in between");

    rig.server.merge::<kube::core::PartialObjectMeta<PersistentVolume>>(
        None,
        "pv-1",
        &json!({ "spec": { "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "2Gi" } } }),
    );
    rig.hears(&["changed pv-1 1Gi 2Gi"]).await;
    assert_eq!(log.with("PersistentVolume pv-1 is malformed").len(), 1, "in spite of the list");
}

#[tokio::test(start_paused = true)]
async fn a_malformed_object_that_is_deleted_takes_its_record_along() {
    let rig = rig(&[volume("pv-1", "ours", "1Gi"), volume("pv-2", "ours", "2Gi")]).await;
    rig.hears(&["added pv-1 1Gi", "added pv-2 2Gi"]).await;
    set_modes(&rig, "pv-1", &json!(7));
    set_modes(&rig, "pv-2", &json!(7));
    tokio::time::sleep(MINUTE).await;
    rig.delete("pv-1");
    rig.hears(&["deleted pv-1 1Gi"]).await;

    // And one whose deletion only a list shows.
    rig.go_down().await;
    rig.delete("pv-2");
    rig.server.compact();
    rig.server.set_reachable(true);
    rig.hears(&["deleted pv-2 2Gi"]).await;
}

/// A volume whose metadata do not fit.
fn without_identity(name: &str) -> Value {
    let mut broken = volume(name, "ours", "3Gi");
    broken["metadata"]["ownerReferences"] = json!("none");
    broken
}

#[tokio::test(start_paused = true)]
async fn k6_while_one_cannot_be_identified_nothing_is_taken_for_deleted_and_soon_after_it_is() {
    let log = Log::capture();
    let rig = rig(&[volume("pv-1", "ours", "1Gi"), volume("pv-2", "ours", "2Gi")]).await;
    rig.hears(&["added pv-1 1Gi", "added pv-2 2Gi"]).await;
    rig.server.create_json::<PersistentVolume>(without_identity("pv-3"));
    rig.go_down().await;
    rig.delete("pv-1");
    rig.server.compact();
    rig.server.set_reachable(true);
    tokio::time::sleep(MINUTE).await;
    rig.hears(&[]).await;
    assert_eq!(rig.informer.len(), 2);
    assert!(!log.with("cannot identify a malformed object").is_empty());
    let lists = rig.requests().0;
    assert!((4..10).contains(&lists), "again, and not in a loop: {lists}");

    // Nothing tells that the object is corrected but the next list.
    rig.server.react(Matcher::of("watch", "persistentvolumes"), fake_apiserver::Reaction::Hang);
    rig.server.drop_watches();
    let well = json!({ "metadata": { "ownerReferences": null } });
    rig.server.merge::<kube::core::PartialObjectMeta<PersistentVolume>>(None, "pv-3", &well);
    let start = tokio::time::Instant::now();
    rig.hears(&["deleted pv-1 1Gi", "added pv-3 3Gi"]).await;
    assert!(start.elapsed() < 5 * MINUTE, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn k6_after_the_deletion_of_one_that_cannot_be_identified_everything_is_listed_again() {
    let rig = rig(&[volume("pv-1", "ours", "1Gi"), without_identity("pv-2")]).await;
    tokio::time::sleep(10 * MINUTE).await;
    let lists = rig.requests().0;
    rig.delete("pv-2");
    rig.until("another list", |rig| rig.requests().0 > lists).await;
    tokio::time::sleep(10 * MINUTE).await;
    let lists = rig.requests().0;
    tokio::time::sleep(BOUND).await;
    assert_eq!(rig.requests().0, lists, "and no more, now that all is well");
}
