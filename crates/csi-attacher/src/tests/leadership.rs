//! What a term has dies with its lease.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::clock::MachineClock;
use controller_runtime::leader_election::Election;
use controller_runtime::{Continuity, ElectionMetrics, Health, lead};
use csi_client::CallError;
use csi_proto::csi::v1::ControllerUnpublishVolumeRequest;
use fake_apiserver::{Matcher, Reaction};
use fake_driver::Rpc;
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use parking_lot::Mutex;
use storage_kube::names::AttachmentName;
use tokio_util::sync::CancellationToken;

use super::objects::{attached, attachment, node, volume};
use super::scene::Scene;
use crate::attachment::{patch, write};
use crate::term::context;

/// Kept by mistake, or by a task that is about to be dropped, the clients of a lost term refuse.
#[tokio::test(start_paused = true)]
async fn nothing_of_a_lost_term_writes_or_calls() {
    let scene = Scene::start().await;
    scene.add_attachment(attachment());
    scene.attached("pv1-node1").await;
    let election = Election {
        clients: Arc::new(scene.api.client()),
        namespace: "kube-system".to_owned(),
        lease_name: "fake".to_owned(),
        lock_name: "fake".to_owned(),
        host_name: "host".to_owned(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(5),
        labels: BTreeMap::new(),
        metrics: ElectionMetrics::register(&prometheus::Registry::new()).unwrap(),
        clock: Arc::new(MachineClock),
    };
    let kept = Arc::new(Mutex::new(None));
    let (process, keep) = (Arc::clone(&scene.process), Arc::clone(&kept));
    let leading =
        lead(Some(election), Continuity::new(Duration::MAX), CancellationToken::new(), Health::new(), move |term| {
            keep.lock().get_or_insert_with(|| context(&process, &term));
            std::future::pending::<Result<(), Infallible>>()
        });
    let lost = async {
        scene.api.until("the lease", Duration::from_mins(1), |_| kept.lock().clone()).await;
        scene.api.react(Matcher::of("update", "leases"), Reaction::Hang);
        scene.pass(Duration::from_secs(30)).await;
    };
    tokio::select! {
        ended = Box::pin(leading) => panic!("{ended:?}"),
        () = lost => {}
    }
    let context = kept.lock().clone().unwrap();
    let before = scene.writes().len();
    let found = context.attachment(&AttachmentName::from("pv1-node1")).unwrap();
    let body = patch::detached(&found.record);
    let refused = write::status(&context, &found, body).await.unwrap_err();
    assert!(controller_runtime::gate_closed(&refused), "{refused}");
    let call = context.driver.controller_unpublish_volume(ControllerUnpublishVolumeRequest::default()).await;
    assert!(matches!(call.unwrap_err(), CallError::Denied { .. }));
    assert_eq!((scene.writes().len(), scene.count(Rpc::ControllerUnpublishVolume)), (before, 0));
}

/// The previous leader has attached it meanwhile: a term that acted on what its cache had before would publish again.
#[tokio::test(start_paused = true)]
async fn a_term_starts_with_caches_that_are_newer_than_its_lease() {
    let scene = Scene::prepared(|api, _| {
        api.create_json::<PersistentVolume>(volume());
        api.create_json::<k8s_openapi::api::storage::v1::CSINode>(node("node1", "nodeID1"));
        api.create_json::<VolumeAttachment>(attached(attachment(), "nodeID1"));
        // The first answer is old by the time it arrives.
        api.react(Matcher::of("list", "persistentvolumes").once(), Reaction::DelayAnswer(Duration::from_secs(5)));
    })
    .await;
    scene.delete_attachment("pv1-node1");
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.count(Rpc::ControllerUnpublishVolume), 0, "not before all caches are there");
    scene.gone("pv1-node1").await;
    assert!(!scene.writes().contains(&"detachError".to_owned()), "{:?}", scene.writes());
    assert_eq!(scene.unpublished().len(), 1);
}
