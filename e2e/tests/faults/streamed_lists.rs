//! API servers, and proxies before them, that refuse to stream lists or to open watches.

use std::time::Duration;

use anyhow::Result;
use e2e::proxy::{Fault, On, Proxy};
use e2e::scene::{PATIENCE, Scene, leading};
use e2e::{Cluster, eventually};
use futures_util::future::try_join_all;
use http::Request;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use serde_json::json;

use crate::lease::Brief as _;

/// Retries come after one second, two, and so on. What has been given up would take minutes, or for ever.
const WITHIN: Duration = Duration::from_secs(30);

/// What is watched.
const KINDS: [&str; 3] = ["persistentvolumeclaims", "storageclasses", "persistentvolumes"];

const fn answer(code: u16) -> Fault {
    Fault::Answer { code, retry_after: None }
}

/// What the API server answers on an old etcd, within the stream, and proxies to what they do not know.
#[tokio::test]
async fn k2_a_claim_is_provisioned_where_no_list_is_streamed() -> Result<()> {
    let refusals =
        [answer(404), answer(406), answer(500), answer(501), answer(502), Fault::AnswerInStream { code: 500 }];
    let scene = Scene::start("k2-lists", &[]).await?;
    for (number, refusal) in refusals.into_iter().enumerate() {
        let link = Proxy::start(&scene.account.kubeconfig).await?;
        let _refused = link.fault(On::WATCH_LISTS, refusal);
        let mut leader = leading(scene.replica_behind(&link)?.brief()).await?;
        is_provisioned(&scene, &format!("first-{number}")).await?;
        // What came while the watches were broken is to be had by lists alone.
        let expired = KINDS.map(|kind| link.fault_times(1, On::only("watch", kind), answer(410)));
        link.cut();
        for watch in &expired {
            watch.met(PATIENCE).await?;
        }
        is_provisioned(&scene, &format!("second-{number}")).await?;
        assert_eq!(leader.process().exit_code()?, None, "no restart");
        leader.process().stop().await?;
    }
    Ok(())
}

#[tokio::test]
async fn k2_a_claim_is_provisioned_after_watches_were_refused_twice() -> Result<()> {
    let refusals = [answer(500), answer(502), Fault::AnswerInStream { code: 500 }];
    try_join_all(refusals.map(watches_refused_twice)).await.map(drop)
}

async fn watches_refused_twice(refusal: Fault) -> Result<()> {
    let scene = Scene::start("k2-watches", &[]).await?;
    let link = Proxy::start(&scene.account.kubeconfig).await?;
    let refuse = || KINDS.map(|kind| link.fault_times(2, On::only("watch", kind), refusal));
    let at_start = refuse();
    let mut leader = leading(scene.replica_behind(&link)?.brief()).await?;
    is_provisioned(&scene, "at-start").await?;
    assert_eq!(at_start[0].hits(), 2, "the claim was seen by the third watch");
    assert_eq!(leader.process().exit_code()?, None, "no restart");
    leader.process().stop().await?;
    drop(at_start);

    let mut leader = leading(scene.replica_behind(&link)?.brief()).await?;
    is_provisioned(&scene, "before").await?;
    let later = refuse();
    link.cut();
    later[0].met(PATIENCE).await?;
    is_provisioned(&scene, "later").await?;
    assert_eq!(later[0].hits(), 2);
    assert_eq!(leader.process().exit_code()?, None, "no restart");
    Ok(())
}

/// On an etcd before 3.5.13 the API server cannot stream lists: it answers 500 within the stream.
#[tokio::test]
async fn k2_a_claim_is_provisioned_and_deleted_on_an_old_etcd() -> Result<()> {
    let cluster = Cluster::start_with_old_etcd().await?;
    let scene = Scene::start_in(&cluster, "k2-etcd", &[]).await?;
    let streamed = "/api/v1/persistentvolumes?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
        &resourceVersionMatch=NotOlderThan&timeoutSeconds=2";
    let refused = scene.client.request_text(Request::get(streamed).body(Vec::new())?).await?;
    assert!(refused.starts_with(r#"{"type":"ERROR""#) && refused.contains("RequestWatchProgress"), "{refused}");
    let mut leader = leading(scene.replica()?.brief()).await?;
    scene.claim("data", &json!({})).await?;
    let volume = scene.bound("data").await?;
    scene.delete_claim("data").await?;
    scene.gone(&volume).await?;
    assert_eq!(leader.process().exit_code()?, None, "no restart");
    Ok(())
}

async fn is_provisioned(scene: &Scene, claim: &str) -> Result<()> {
    scene.claim(claim, &json!({})).await?;
    let bound = |claim: &PersistentVolumeClaim| claim.spec.as_ref().is_some_and(|spec| spec.volume_name.is_some());
    eventually::object(&scene.claims(), claim, "the claim to have a volume", WITHIN, bound).await.map(drop)
}
