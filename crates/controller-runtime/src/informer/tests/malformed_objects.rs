//! Objects the type does not fit, in lists and in watches.

use super::*;

/// A volume whose access modes are no list.
fn bad(name: &str) -> Value {
    let mut object = volume(name, "ours", "9Gi");
    object["spec"]["accessModes"] = json!("all of them");
    object
}

async fn rigs(volumes: &[Value]) -> Vec<Rig> {
    let mut rigs = Vec::new();
    for watch_list in [true, false] {
        let server = FakeApiServer::new();
        if !watch_list {
            server.disable_watch_list();
        }
        for volume in volumes {
            server.create_json::<PersistentVolume>(volume.clone());
        }
        let rig = Rig::over(server, None);
        rig.sync().await;
        rigs.push(rig);
    }
    rigs
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
    for rig in rigs(&[volume("pv-1", "ours", "1Gi"), bad("pv-2"), volume("pv-3", "ours", "3Gi")]).await {
        rig.hears(&["added pv-1 1Gi", "added pv-3 3Gi"]).await;
        rig.server.create_json::<PersistentVolume>(bad("pv-4"));
        rig.create("pv-5", "5Gi");
        rig.hears(&["added pv-5 5Gi"]).await;
    }
    for name in ["pv-2", "pv-4"] {
        let said = log.with(&format!("PersistentVolume {name} is malformed"));
        assert_eq!(said.len(), 2, "once by each informer: {said:?}");
        assert!(said[0].contains("WARN") && said[0].contains("until it is corrected"), "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_becomes_malformed_keeps_its_last_record() {
    let log = Log::capture();
    for rig in rigs(&[volume("pv-1", "ours", "1Gi")]).await {
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
    }
    assert_eq!(log.with("PersistentVolume pv-1 is malformed").len(), 2, "once by each informer, in spite of the list");
}

#[tokio::test(start_paused = true)]
async fn a_malformed_object_that_is_deleted_takes_its_record_along() {
    for rig in rigs(&[volume("pv-1", "ours", "1Gi"), volume("pv-2", "ours", "2Gi")]).await {
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
}

#[tokio::test(start_paused = true)]
async fn while_one_cannot_be_identified_nothing_is_taken_for_deleted() {
    let log = Log::capture();
    for rig in rigs(&[volume("pv-1", "ours", "1Gi"), volume("pv-2", "ours", "2Gi")]).await {
        rig.hears(&["added pv-1 1Gi", "added pv-2 2Gi"]).await;
        let mut broken = volume("pv-3", "ours", "3Gi");
        broken["metadata"]["ownerReferences"] = json!("none");
        rig.server.create_json::<PersistentVolume>(broken);
        rig.go_down().await;
        rig.delete("pv-1");
        rig.server.compact();
        rig.server.set_reachable(true);
        tokio::time::sleep(MINUTE).await;
        rig.hears(&[]).await;
        assert_eq!(rig.informer.len(), 2);
        assert!(!log.with("cannot be identified").is_empty());

        rig.go_down().await;
        rig.delete("pv-3");
        rig.server.compact();
        rig.server.set_reachable(true);
        rig.hears(&["deleted pv-1 1Gi"]).await;
    }
}
