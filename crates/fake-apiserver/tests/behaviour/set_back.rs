//! What happens when the store behind the server is compacted or set back, which the suite cannot do through a client.

use futures_util::{StreamExt as _, TryStreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;

use super::{ON_WATCHES, code, config_map, get, latest, names, refused, remove, version};

/// A server whose administrator the suite is.
pub(crate) trait Server {
    type Backup;

    async fn client(&self) -> Client;

    async fn backup(&mut self) -> Self::Backup;

    /// Puts the backup back without raising the revision.
    async fn restore(&mut self, backup: &Self::Backup);

    /// Forgets all states but the latest.
    async fn compact(&mut self);
}

/// More versions than a server that starts anew gives out by itself.
const VERSIONS: u64 = 1000;

pub(crate) async fn what_was_compacted_is_expired(server: &mut impl Server, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(server.client().await, namespace);
    for name in ["e-1", "e-2"] {
        maps.create(&PostParams::default(), &config_map(name)).await.unwrap();
    }
    let page = get(&maps, "limit=1").await.unwrap();
    let token = page["metadata"]["continue"].as_str().unwrap();
    let old = page["metadata"]["resourceVersion"].as_str().unwrap();
    remove(&maps, "e-1").await;
    server.compact().await;

    let maps: Api<ConfigMap> = Api::namespaced(server.client().await, namespace);
    let next = get(&maps, &format!("limit=1&continue={token}")).await;
    assert_eq!(code(next), refused(410, "Expired"));
    let exact = get(&maps, &format!("resourceVersion={old}&resourceVersionMatch=Exact")).await;
    assert_eq!(code(exact), refused(410, "Expired"));
    let stream = maps.watch(&WatchParams::default(), old).await.unwrap();
    pin_mut!(stream);
    let event = tokio::time::timeout(ON_WATCHES, stream.next()).await.unwrap().unwrap().unwrap();
    let WatchEvent::Error(status) = event else { panic!("not an error: {event:?}") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    let at_least = get(&maps, &format!("resourceVersion={old}&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!(names(&at_least.unwrap()), "e-2", "the present is newer");
    remove(&maps, "e-2").await;
}

pub(crate) async fn a_store_that_is_set_back_gives_out_its_versions_again(server: &mut impl Server, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(server.client().await, namespace);
    let kept = maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();
    let backup = server.backup().await;
    let at_backup = latest(&maps).await;
    let stream = maps.watch(&WatchParams::default(), &at_backup.to_string()).await.unwrap();
    for count in 0..VERSIONS {
        let change = Patch::Merge(json!({ "data": { "count": count.to_string() } }));
        maps.patch("kept", &PatchParams::default(), &change).await.unwrap();
    }
    let lost = maps.create(&PostParams::default(), &config_map("lost")).await.unwrap();
    let page = get(&maps, "limit=1").await.unwrap();
    let token = page["metadata"]["continue"].as_str().unwrap();
    server.restore(&backup).await;

    let ended = tokio::time::timeout(ON_WATCHES, stream.try_collect::<Vec<_>>()).await;
    assert!(ended.is_ok(), "the watch goes on");
    let maps: Api<ConfigMap> = Api::namespaced(server.client().await, namespace);
    assert_eq!(maps.get("kept").await.unwrap(), kept, "as it was");
    assert_eq!(code(maps.get("lost").await), refused(404, "NotFound"));
    let now = latest(&maps).await;
    assert!((at_backup..version(&lost)).contains(&now), "{at_backup}, {now}, {}", version(&lost));

    // A watch from the version of what is lost looks well, and sees nothing of what comes.
    let ahead = version(&lost).to_string();
    let params = WatchParams::default().timeout(4);
    let stream = maps.watch(&params, &ahead).await.unwrap();
    let new = maps.create(&PostParams::default(), &config_map("new")).await.unwrap();
    assert!(version(&new) < version(&lost), "given out before");
    let events: Vec<_> = tokio::time::timeout(ON_WATCHES, stream.try_collect()).await.unwrap().unwrap();
    assert!(events.is_empty(), "{events:?}");
    let list = get(&maps, &format!("resourceVersion={ahead}&resourceVersionMatch=NotOlderThan")).await;
    assert_eq!(code(list), refused(504, "Timeout"), "a list does not look well");
    let next = get(&maps, &format!("limit=1&continue={token}")).await;
    assert_eq!(code(next), refused(504, "Timeout"), "nor does the rest of one that had begun");

    // The server that started anew remembers no change of before.
    let stream = maps.watch(&WatchParams::default(), &(version(&kept) - 1).to_string()).await.unwrap();
    pin_mut!(stream);
    let event = tokio::time::timeout(ON_WATCHES, stream.next()).await.unwrap().unwrap().unwrap();
    assert!(matches!(&event, WatchEvent::Error(status) if status.code == 410), "{event:?}");
    for name in ["kept", "new"] {
        remove(&maps, name).await;
    }
}
