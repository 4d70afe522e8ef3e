//! What a term has dies with its lease.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::clock::MachineClock;
use controller_runtime::leader_election::Election;
use controller_runtime::{ElectionMetrics, Health, gate_closed, lead};
use csi_client::CallError;
use csi_proto::csi::v1::CreateVolumeRequest;
use fake_apiserver::{Matcher, Reaction};
use fake_driver::Rpc;
use parking_lot::Mutex;
use storage_kube::names::VolumeName;
use storage_kube::uid::Uid;
use tokio_util::sync::CancellationToken;

use super::scene::Scene;
use crate::persistent_volume::write;
use crate::term::context;

/// Kept by mistake, or by a task that is about to be dropped, the clients of a lost term refuse.
#[tokio::test(start_paused = true)]
async fn nothing_of_a_lost_term_writes_or_calls() {
    let scene = Scene::start().await;
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
    let leading = lead(Some(election), CancellationToken::new(), Health::new(), move |term| {
        keep.lock().get_or_insert_with(|| context(&process, &term).0);
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
    let before = (scene.writes().len(), scene.count(Rpc::CreateVolume));
    let write = write::delete(&context.api, &VolumeName::from("pv"), &Uid::from("u")).await.unwrap_err();
    assert!(gate_closed(&write), "{write}");
    let call = context.driver.create_volume(CreateVolumeRequest::default()).await.unwrap_err();
    assert!(matches!(call, CallError::Denied { .. }), "{call}");
    assert_eq!((scene.writes().len(), scene.count(Rpc::CreateVolume)), before);
}
