//! What a term has dies with its lease.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::clock::MachineClock;
use controller_runtime::leader_election::Election;
use controller_runtime::{Continuity, ElectionMetrics, Health, gate_closed, lead};
use csi_client::CallError;
use csi_proto::csi::v1::CreateVolumeRequest;
use fake_apiserver::{FakeApiServer, Matcher, Reaction};
use fake_driver::Rpc;
use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::Mutex;
use storage_kube::names::VolumeName;
use storage_kube::uid::Uid;
use tokio_util::sync::CancellationToken;

use super::scene::Scene;
use crate::persistent_volume::write;
use crate::term::{context, work};

fn election(api: &FakeApiServer) -> Election {
    Election {
        clients: Arc::new(api.client()),
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
    }
}

/// The cluster is listed once, by the leader.
#[tokio::test(start_paused = true)]
async fn a_standby_asks_for_nothing_but_its_lease() {
    let scene = Scene::start().await;
    scene.pass(Duration::from_secs(1)).await;
    let (first, second) = (election(&scene.api), election(&scene.api));
    let leader = lead(Some(first), Continuity::new(Duration::MAX), CancellationToken::new(), Health::new(), |_| {
        std::future::pending::<Result<(), Infallible>>()
    });
    let process = Arc::clone(&scene.process);
    let standby = lead(Some(second), Continuity::new(Duration::MAX), CancellationToken::new(), Health::new(), |term| {
        Box::pin(work(Arc::clone(&process), term))
    });
    let watched = async {
        scene.api.until("the lease", Duration::from_mins(1), |api| api.list::<Lease>().pop()).await;
        scene.begin_stop();
        scene.pass(Duration::from_secs(1)).await;
        scene.api.clear_requests();
        scene.pass(Duration::from_hours(1)).await;
    };
    let (leader, standby) = (Box::pin(leader), async {
        scene.pass(Duration::from_millis(100)).await;
        Box::pin(standby).await
    });
    tokio::select! {
        ended = leader => panic!("{ended:?}"),
        ended = standby => panic!("{ended:?}"),
        () = watched => {}
    }
    let requests = scene.api.requests();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|request| request.resource == "leases"), "{requests:?}");
}

/// Kept by mistake, or by a task that is about to be dropped, the clients of a lost term refuse.
#[tokio::test(start_paused = true)]
async fn nothing_of_a_lost_term_writes_or_calls() {
    let scene = Scene::start().await;
    let election = election(&scene.api);
    let kept = Arc::new(Mutex::new(None));
    let (process, keep) = (Arc::clone(&scene.process), Arc::clone(&kept));
    let leading =
        lead(Some(election), Continuity::new(Duration::MAX), CancellationToken::new(), Health::new(), move |term| {
            keep.lock().get_or_insert_with(|| context(&process, &term, None).0);
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
