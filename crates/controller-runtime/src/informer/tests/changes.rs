//! First lists, changes, subscriptions and resync, with a server that does what it should.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_is_listed_is_kept_unless_it_is_foreign() {
    let rig = Rig::synced(&["pv-1", "pv-2", "pv-foreign"]).await;
    rig.hears(&["added pv-1 1Gi", "added pv-2 1Gi"]).await;
    assert_eq!(rig.informer.len(), 2);
    assert_eq!(rig.size("pv-foreign"), None);
    assert_eq!(rig.requests(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_large_collection_is_listed_in_pages() {
    let server = FakeApiServer::new();
    for number in 0..1100 {
        server.create_json::<PersistentVolume>(volume(&format!("pv-{number}"), "ours", "1Gi"));
    }
    let rig = Rig::over(server, None);
    rig.sync().await;
    assert_eq!(rig.informer.len(), 1100);
    rig.until("the watch", |rig| rig.requests() == (11, 1)).await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_collection_is_synced_as_well() {
    let rig = Rig::over(FakeApiServer::new(), None);
    assert!(!rig.informer.is_synced());
    rig.sync().await;
    assert!(rig.informer.is_empty());
    rig.create("pv-1", "1Gi");
    rig.hears(&["added pv-1 1Gi"]).await;
}

#[tokio::test(start_paused = true)]
async fn changes_are_delivered_with_both_records() {
    let rig = Rig::synced(&["pv-1"]).await;
    rig.hears(&["added pv-1 1Gi"]).await;
    rig.create("pv-2", "2Gi");
    rig.hears(&["added pv-2 2Gi"]).await;
    rig.resize("pv-1", "5Gi");
    rig.hears(&["changed pv-1 1Gi 5Gi"]).await;
    rig.delete("pv-1");
    rig.hears(&["deleted pv-1 5Gi"]).await;
    assert_eq!(rig.informer.keys(), ["pv-2"]);
    assert_eq!(rig.requests(), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn c3_foreign_objects_leave_no_trace_and_may_become_ours() {
    let rig = Rig::synced(&["pv-foreign"]).await;
    let set_driver = |driver: &str| {
        rig.server.merge::<PersistentVolume>(None, "pv-foreign", &json!({ "spec": { "csi": { "driver": driver } } }));
    };
    assert!(rig.informer.is_empty());
    set_driver("ours");
    rig.hears(&["added pv-foreign 1Gi"]).await;
    set_driver("theirs");
    rig.hears(&["deleted pv-foreign 1Gi"]).await;
    assert!(rig.informer.is_empty());
    rig.delete("pv-foreign");
    rig.hears(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn groups_are_kept_up_to_date() {
    let rig = Rig::synced(&["pv-1", "pv-2"]).await;
    let group = |class: &str| {
        let mut keys = rig.informer.in_group(&class.to_owned());
        keys.sort_unstable();
        keys
    };
    assert_eq!(group("fast"), ["pv-1", "pv-2"]);
    rig.server.merge::<PersistentVolume>(None, "pv-1", &json!({ "spec": { "storageClassName": "slow" } }));
    rig.until("the change", |_| group("slow") == ["pv-1"]).await;
    assert_eq!(group("fast"), ["pv-2"]);
    rig.delete("pv-1");
    rig.until("the deletion", |_| group("slow").is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_late_subscriber_hears_of_all_there_is_and_a_gone_one_of_nothing() {
    let rig = Rig::synced(&["pv-1", "pv-2"]).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let subscription = rig.informer.subscribe(listener(&heard));
    let mut replayed = std::mem::take(&mut *heard.lock());
    replayed.sort_unstable();
    assert_eq!(replayed, ["added pv-1 1Gi", "added pv-2 1Gi"]);
    rig.resize("pv-1", "2Gi");
    rig.until("the change", |_| *heard.lock() == ["changed pv-1 1Gi 2Gi"]).await;
    drop(subscription);
    rig.resize("pv-1", "3Gi");
    rig.until("the second change", |rig| rig.size("pv-1").as_deref() == Some("3Gi")).await;
    assert_eq!(heard.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_read_the_change_it_is_told_of() {
    let rig = Rig::synced(&[]).await;
    let seen = Arc::new(Mutex::new(None));
    let _subscription = rig.informer.subscribe({
        let (informer, seen) = (rig.informer.clone(), seen.clone());
        move |change| *seen.lock() = informer.get(change.key).map(|volume| volume.size.clone())
    });
    rig.create("pv-1", "7Gi");
    rig.until("the change", |_| seen.lock().as_deref() == Some("7Gi")).await;
}

#[tokio::test(start_paused = true)]
async fn the_resync_delivers_every_record_again() {
    let server = FakeApiServer::new();
    server.create_json::<PersistentVolume>(volume("pv-1", "ours", "1Gi"));
    server.create_json::<PersistentVolume>(volume("pv-2", "ours", "2Gi"));
    let rig = Rig::over(server, Some(15 * MINUTE));
    rig.hears(&["added pv-1 1Gi", "added pv-2 2Gi"]).await;
    tokio::time::sleep(14 * MINUTE).await;
    rig.hears(&[]).await;
    tokio::time::sleep(MINUTE).await;
    rig.hears(&["again pv-1 1Gi", "again pv-2 2Gi"]).await;
    tokio::time::sleep(15 * MINUTE).await;
    rig.hears(&["again pv-1 1Gi", "again pv-2 2Gi"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_resync_of_zero_is_none() {
    let rig = Rig::over(FakeApiServer::new(), Some(Duration::ZERO));
    rig.create("pv-1", "1Gi");
    rig.hears(&["added pv-1 1Gi"]).await;
    tokio::time::sleep(BOUND).await;
    rig.hears(&[]).await;
}
