//! Contract §7.6: what is made of a driver, and whose a volume is.

use std::sync::Arc;
use std::time::Duration;

use controller_runtime::{ApiServer, Continuity, Informers, Tasks, WorkQueueMetrics};
use csi_client::{Driver, DriverInfo, Handshake};
use csi_proto::csi::v1::controller_service_capability::rpc::Type as ControllerRpc;
use fake_apiserver::FakeApiServer;
use fake_driver::{FakeDriver, Rpc};
use serde_json::{Value, json};
use sidecar::Started;
use storage_kube::wire::{ClaimProgress, PersistentVolume};

use super::growth::{node_expands, node_has_nothing};
use super::objects::{claim, volume};
use super::scene::{Config, Scene, config};
use crate::metrics::ResizerMetrics;
use crate::records::ClaimRecord;
use crate::run;
use crate::settings::{DriverFacts, Expansion, Settings, Unsupported};
use crate::volume::{Whose, whose};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Can {
    ExpandOnNode,
    Expand,
    Serve,
    Modify,
}
use Can::{Expand, ExpandOnNode, Modify, Serve};

/// What a driver with these capabilities says of itself, and whether its node service was asked.
async fn asked(can: &[Can]) -> (DriverInfo, bool) {
    let driver = driver(can).await;
    let client = ready(&driver).await;
    let info = client.ready().await;
    ((*info).clone(), !driver.calls_of(Rpc::NodeGetCapabilities).is_empty())
}

async fn driver(can: &[Can]) -> FakeDriver {
    let driver = FakeDriver::start().await;
    driver.configure(|identity| {
        identity.controller_capabilities.clear();
        identity.set(ControllerRpc::ExpandVolume, can.contains(&Expand));
        identity.set(ControllerRpc::ModifyVolume, can.contains(&Modify));
        if !can.contains(&Serve) {
            identity.plugin_capabilities.clear();
        }
    });
    if can.contains(&ExpandOnNode) {
        node_expands(&FakeApiServer::new(), &driver);
    } else {
        node_has_nothing(&driver);
    }
    driver
}

/// A client whose handshake is through.
async fn ready(driver: &FakeDriver) -> Driver {
    let (client, connection) = Driver::new(csi_client::Settings {
        address: csi_client::Address::parse(&driver.address()).unwrap(),
        handshake: Handshake::ControllerOrNodeExpansion,
        timeout: config().timeout,
        metrics: csi_client::CallMetrics::register(&prometheus::Registry::new()).unwrap(),
    });
    tokio::select! {
        _ = client.ready() => {}
        error = connection.run() => panic!("{error}"),
    }
    client
}

#[tokio::test(start_paused = true)]
async fn a_driver_is_used_for_what_it_can() {
    let rows = [
        (&[ExpandOnNode, Expand, Serve][..], Ok((Expansion::Controller, false)), false),
        (&[ExpandOnNode, Expand], Err(Unsupported::NoControllerService), false),
        (&[ExpandOnNode, Serve], Ok((Expansion::NodeOnly, false)), true),
        (&[Serve], Err(Unsupported::NeitherExpandsNorModifies), true),
        // Beyond the table: modifying is enough.
        (&[Serve, Modify], Ok((Expansion::Unsupported, true)), true),
    ];
    assert_eq!(rows.len(), 5);
    for (can, expected, node_asked) in rows {
        let (info, was_asked) = asked(can).await;
        let facts = DriverFacts::of(&info).map(|facts| (facts.expansion, facts.modifies));
        assert_eq!((facts, was_asked), (expected, node_asked), "{can:?}");
    }
    assert_eq!(Unsupported::NoControllerService.to_string(), "CSI driver does not support controller service");
}

fn in_tree(source: &str) -> PersistentVolume {
    let mut volume = volume("1Gi");
    volume["spec"]["csi"] = Value::Null;
    let name = if source == "gcePersistentDisk" { "pdName" } else { "volumeID" };
    volume["spec"][source] = json!({ name: "vol-1" });
    serde_json::from_value(volume).unwrap()
}

/// A volume of a plugin is the driver's once the claim says so, and nobody else's.
#[tokio::test(start_paused = true)]
async fn a_volume_of_a_plugin_is_ours_when_its_claim_was_handed_over() {
    let (info, _) = asked(&[Expand, Serve]).await;
    let settings = |driver: &str| {
        Settings::new(&config(), &DriverInfo { name: driver.to_owned().into(), ..info.clone() }).unwrap()
    };
    let claim = |resizer: &str| {
        let mut claim = claim("2Gi", "1Gi");
        claim["metadata"]["annotations"] = json!({ "volume.kubernetes.io/storage-resizer": resizer });
        ClaimRecord::of(serde_json::from_value::<ClaimProgress>(claim).unwrap()).unwrap()
    };
    let rows = [
        ("ebs.csi.aws.com", "awsElasticBlockStore", "ebs.csi.aws.com", Whose::Migrated),
        ("ebs.csi.aws.com", "awsElasticBlockStore", "kubernetes.io/aws-ebs", Whose::NotMigrated),
        ("pd.csi.storage.gke.io", "gcePersistentDisk", "pd.csi.storage.gke.io", Whose::Migrated),
        ("ebs.csi.aws.com", "awsElasticBlockStore", "unknown", Whose::NotMigrated),
        ("unknown", "awsElasticBlockStore", "unknown", Whose::Others),
        ("ebs.csi.aws.com", "gcePersistentDisk", "ebs.csi.aws.com", Whose::Others),
    ];
    for (driver, source, resizer, expected) in rows {
        let whose = whose(&settings(driver), &claim(resizer), &in_tree(source));
        assert_eq!(whose, expected, "{driver} {source} {resizer}");
    }
}

/// The process stays, and says why there is nothing to do: what runs beside it in the pod goes on.
#[tokio::test(start_paused = true)]
async fn g5_a_driver_that_can_do_nothing_disables_the_resizer_and_ends_nothing() {
    for (can, disabled) in
        [(&[Serve][..], true), (&[Expand], true), (&[Serve, Expand], false), (&[Serve, Modify], false)]
    {
        let (fake, api, tasks) = (driver(can).await, FakeApiServer::new(), Arc::new(Tasks::new()));
        let client = ready(&fake).await;
        let registry = prometheus::Registry::new();
        let started = Started {
            info: client.ready().await,
            driver: client,
            api_server: ApiServer::from(&api.client()),
            unlimited: ApiServer::from(&api.client()),
            informers: Informers::new(ApiServer::from(&api.client()), Continuity::new(Duration::MAX), &tasks),
            queue_metrics: WorkQueueMetrics::register(&registry).unwrap(),
        };
        let process = run::process(&config(), started, ResizerMetrics::register(&registry).unwrap());
        assert_eq!(process.is_err(), disabled, "{can:?}");
        let metrics = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        assert!(metrics.contains(&format!("csi_resizer_disabled {}", u8::from(disabled))), "{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn from_the_first_term_on_classes_are_left_alone_where_the_api_server_lacks_the_kind() {
    for served in [true, false] {
        let config = Config { discover_attributes_class: true, ..config() };
        let serve = |api: &FakeApiServer| api.serve("storage.k8s.io", "v1", "volumeattributesclasses", served);
        let scene = Scene::prepared(config, |_| (), |api, _| serve(api)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(scene.term().settings.modifies, served);
    }
}
