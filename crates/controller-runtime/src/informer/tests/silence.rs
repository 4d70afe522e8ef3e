//! Watches on which nothing comes any more.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use kube::client::Body;
use tower::service_fn;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_taken_for_dead_and_opened_anew() {
    let log = Log::capture();
    let rig = Rig::synced(&["pv-1"]).await;
    rig.hears(&["added pv-1 1Gi"]).await;
    tokio::time::sleep(10 * MINUTE).await;
    // The fake sends no bookmarks by itself.
    assert_eq!(rig.requests(), (0, 1, 6));
    assert!(log.with("WARN").is_empty(), "it is nothing to worry about");
    rig.resize("pv-1", "2Gi");
    rig.hears(&["changed pv-1 1Gi 2Gi"]).await;
}

#[tokio::test(start_paused = true)]
async fn bookmarks_keep_a_quiet_watch_open() {
    let rig = Rig::synced(&["pv-1"]).await;
    for _ in 0..5 {
        tokio::time::sleep(59 * SECOND).await;
        rig.write_elsewhere();
        rig.server.send_bookmarks();
    }
    assert_eq!(rig.requests(), (0, 1, 0));
}

/// A server that opens every watch-list and never says a word; pages work.
fn mute(watch_lists: &Arc<AtomicUsize>) -> kube::Client {
    let watch_lists = watch_lists.clone();
    let service = service_fn(move |request: http::Request<Body>| {
        let query = request.uri().query().unwrap_or("").to_owned();
        let body = if query.contains("watch=true") {
            if query.contains("sendInitialEvents") {
                watch_lists.fetch_add(1, Ordering::Relaxed);
            }
            let silence = futures_util::stream::pending::<Result<http_body::Frame<Bytes>, Infallible>>();
            BodyExt::boxed(StreamBody::new(silence))
        } else {
            let page = json!({ "metadata": { "resourceVersion": "5" }, "items": [volume("pv-1", "ours", "1Gi")] });
            BodyExt::boxed(http_body_util::Full::new(Bytes::from(page.to_string())))
        };
        async move { Ok::<_, Infallible>(http::Response::new(body)) }
    });
    kube::Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn a_watch_list_that_never_ends_makes_way_for_pages() {
    let watch_lists = Arc::new(AtomicUsize::new(0));
    let (informer, task) = Informer::new(Api::all(mute(&watch_lists)), Volumes, None);
    let _task = JoinSet::from_iter([task.run()]);
    let start = tokio::time::Instant::now();
    tokio::time::timeout(BOUND, informer.synced()).await.unwrap();
    assert!(start.elapsed() < 4 * MINUTE, "{:?}", start.elapsed());
    assert_eq!((informer.len(), watch_lists.load(Ordering::Relaxed)), (1, 2));
}
