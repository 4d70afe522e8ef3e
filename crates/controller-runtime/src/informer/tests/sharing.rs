//! Several caches of one collection, and their end.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_cache_that_joins_gets_a_list_that_began_after_it_was_made() {
    let rig = Rig::synced(&["pv-1"]).await;
    rig.hears(&["added pv-1 1Gi"]).await;
    let second = rig.informers.all(Volumes, None);
    assert!(!second.is_synced(), "what the first one has may be old");
    second.synced().await;
    assert_eq!(second.keys(), ["pv-1"]);
    rig.hears(&[]).await;
    rig.resize("pv-1", "2Gi");
    rig.hears(&["changed pv-1 1Gi 2Gi"]).await;
    assert_eq!(second.get(&"pv-1".to_owned()).unwrap().size, "2Gi");
    let (lists, _) = rig.requests();
    let alive = rig.server.requests_of(&Matcher::of("watch", "persistentvolumes")).len();
    assert_eq!((lists, alive), (2, 2), "one watch at a time for both");
}

#[tokio::test(start_paused = true)]
async fn caches_made_together_share_one_list() {
    let rig = Rig::start(&["pv-1"]);
    let more: Vec<_> = (0..3).map(|_| rig.informers.all(Volumes, None)).collect();
    rig.sync().await;
    for informer in &more {
        assert!(informer.is_synced());
        assert_eq!(informer.keys(), ["pv-1"]);
    }
    assert_eq!(rig.requests().0, 1);
}

#[tokio::test(start_paused = true)]
async fn a_cache_is_not_synced_by_a_list_that_was_under_way() {
    let rig = Rig::start(&["pv-1"]);
    let slow = fake_apiserver::Reaction::DelayAnswer(10 * SECOND);
    rig.server.react(Matcher::of("list", "persistentvolumes").once(), slow);
    tokio::time::sleep(5 * SECOND).await;
    let second = rig.informers.all(Volumes, None);
    rig.create("pv-2", "1Gi");
    second.synced().await;
    let mut keys = second.keys();
    keys.sort_unstable();
    assert_eq!(keys, ["pv-1", "pv-2"]);
}

#[tokio::test(start_paused = true)]
async fn with_its_last_cache_a_watch_ends() {
    let rig = Rig::synced(&["pv-1"]).await;
    let Rig { server, informer, informers, tasks: _tasks, subscription, .. } = rig;
    let second = informers.all(Volumes, Some(MINUTE));
    second.synced().await;
    drop((informer, subscription));
    server.resource_version();
    tokio::time::sleep(MINUTE).await;
    server.clear_requests();
    tokio::time::sleep(10 * MINUTE).await;
    assert!(!server.requests().is_empty(), "the second one needs it");
    drop(second);
    tokio::time::sleep(MINUTE).await;
    server.clear_requests();
    tokio::time::sleep(BOUND).await;
    assert_eq!(server.requests().len(), 0);
    assert_eq!(informers.watches.lock().values().filter(|watch| watch.strong_count() > 0).count(), 0);
}

/// A cache that a controller makes when it needs one, and whose projection has a defect.
#[tokio::test(start_paused = true)]
async fn n9_a_panic_in_a_cache_that_was_made_later_is_a_failure_of_the_process() {
    struct Defect;
    impl Projection for Defect {
        type Wire = PersistentVolume;
        type Key = String;
        type Record = ();
        type Group = ();

        fn key(&self, volume: &PersistentVolume) -> Option<String> {
            volume.metadata.name.clone()
        }

        fn project(&self, _: PersistentVolume) -> Option<()> {
            panic!("an object that nobody expected")
        }
    }
    let rig = Rig::synced(&["pv-1"]).await;
    let _later = rig.informers.of(Collection::of::<PersistentVolume>(), Defect, None);
    let failed = tokio::time::timeout(BOUND, rig.tasks.failed()).await.unwrap();
    assert!(failed.to_string().contains("an object that nobody expected"), "{failed}");
}
