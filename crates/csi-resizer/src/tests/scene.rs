//! The resizer between a fake API server and a fake driver, all on the runtime of the test.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use controller_runtime::{ApiServer, Backoff, Continuity, Health, Informers, Tasks, WorkQueueMetrics, lead};
use csi_client::{CallMetrics, Driver, Handshake};
use csi_proto::csi::v1::controller_service_capability::rpc::Type as ControllerRpc;
use csi_proto::csi::v1::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerModifyVolumeRequest,
    ControllerModifyVolumeResponse,
};
use fake_apiserver::FakeApiServer;
use fake_driver::{FakeDriver, Identity, Rpc, Step};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use parking_lot::Mutex;
use serde_json::Value;
use storage_kube::in_tree::InTreePlugin;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::objects::DRIVER;
pub(super) use crate::args::Config;
use crate::metrics::ResizerMetrics;
use crate::modify;
use crate::settings::Settings;
use crate::term::{Process, begin, work_in};
use crate::term_context::TermContext;

/// Longest wait of a test, on the paused clock.
pub(super) const PATIENCE: Duration = Duration::from_mins(20);

/// The defaults of the command line.
pub(super) fn config() -> Config {
    Config {
        resync: Some(Duration::from_mins(10)),
        workers: 10,
        extra_modify_metadata: false,
        timeout: Duration::from_secs(10),
        backoff: Backoff { base: Duration::from_secs(1), max: Duration::from_mins(5) },
        handle_in_use: true,
        annotates: false,
        recovers: true,
        attributes_class: true,
        discover_attributes_class: false,
    }
}

/// A resizer at work.
pub(super) struct Scene {
    pub(super) api: FakeApiServer,
    pub(super) driver: FakeDriver,
    pub(super) registry: prometheus::Registry,
    term: Arc<Mutex<Weak<TermContext>>>,
    shutdown: CancellationToken,
    ended: oneshot::Receiver<()>,
    _tasks: Arc<Tasks>,
}

impl Scene {
    /// With a driver that expands and modifies, and no objects.
    pub(super) async fn start() -> Self {
        Self::with(config(), |_| ()).await
    }

    /// Starts with other flags or another driver.
    pub(super) async fn with(config: Config, identity: impl FnOnce(&mut Identity)) -> Self {
        Self::build(config, identity, |_, _| ()).await
    }

    /// Starts with what `prepare` has done before.
    pub(super) async fn prepared(
        config: Config,
        identity: impl FnOnce(&mut Identity),
        prepare: impl FnOnce(&FakeApiServer, &FakeDriver),
    ) -> Self {
        Self::build(config, identity, prepare).await
    }

    async fn build(
        config: Config,
        identity: impl FnOnce(&mut Identity),
        prepare: impl FnOnce(&FakeApiServer, &FakeDriver),
    ) -> Self {
        let (api, driver) = (FakeApiServer::new(), FakeDriver::start().await);
        driver.configure(|driver| {
            driver.name = DRIVER.to_owned();
            driver.controller_capabilities = vec![ControllerRpc::ExpandVolume, ControllerRpc::ModifyVolume];
            identity(driver);
        });
        driver.script_always(Rpc::ControllerExpandVolume, || grown(AS_ASKED, true));
        driver.script_always(Rpc::ControllerModifyVolume, modified);
        prepare(&api, &driver);
        Self::over(config, api, driver).await
    }

    /// The next process on an API server and a driver that [`stop`](Self::stop) has left.
    pub(super) async fn again(config: Config, (api, driver): (FakeApiServer, FakeDriver)) -> Self {
        Self::over(config, api, driver).await
    }

    async fn over(config: Config, api: FakeApiServer, driver: FakeDriver) -> Self {
        let registry = prometheus::Registry::new();
        let (tasks, continuity) = (Arc::new(Tasks::new()), Continuity::new(PATIENCE));
        let call_metrics = CallMetrics::register(&registry).unwrap();
        call_metrics.label_migrated(|driver| InTreePlugin::replaced_by(driver).is_some());
        let (client, connection) = Driver::new(csi_client::Settings {
            address: csi_client::Address::parse(&driver.address()).unwrap(),
            handshake: Handshake::ControllerOrNodeExpansion,
            timeout: config.timeout,
            metrics: call_metrics,
        });
        tasks.spawn("connection", async move { panic!("{}", connection.run().await) });
        let info = client.ready().await;
        let settings = Arc::new(Settings::new(&config, &info).unwrap());
        let process = Arc::new(Process {
            attributes_classes: modify::kind(settings.modifies && config.discover_attributes_class),
            informers: Informers::new(ApiServer::from(&api.client()), continuity.clone(), &tasks),
            settings,
            driver: client,
            api_server: ApiServer::from(&api.client()),
            unlimited: ApiServer::from(&api.client()),
            queue_metrics: WorkQueueMetrics::register(&registry).unwrap(),
            metrics: ResizerMetrics::register(&registry).unwrap(),
        });
        let shutdown = CancellationToken::new();
        let (end, ended) = oneshot::channel();
        let term = Arc::<Mutex<Weak<TermContext>>>::default();
        let (led, latest) = (Arc::clone(&process), Arc::clone(&term));
        let leading = lead(None, continuity, shutdown.clone(), Health::new(), move |term| {
            let (process, latest) = (Arc::clone(&led), Arc::clone(&latest));
            Box::pin(async move {
                if let Some((context, writer)) = begin(&process, &term).await {
                    *latest.lock() = Arc::downgrade(&context);
                    work_in(&context, writer, &process.driver, term.number()).await;
                }
                Ok::<_, Infallible>(())
            })
        });
        tasks.spawn("lead", async move {
            Box::pin(leading).await.unwrap();
            let _ = end.send(());
        });
        Self { api, driver, registry, term, shutdown, ended, _tasks: tasks }
    }

    /// What the term at work has.
    pub(super) fn term(&self) -> Arc<TermContext> {
        self.term.lock().upgrade().expect("a term is at work")
    }

    /// Ends the term in good order.
    pub(super) async fn stop(mut self) -> (FakeApiServer, FakeDriver) {
        self.shutdown.cancel();
        tokio::time::timeout(PATIENCE, &mut self.ended).await.expect("the term drains").unwrap();
        (self.api, self.driver)
    }

    pub(super) fn add_claim(&self, claim: Value) {
        self.api.create_json::<PersistentVolumeClaim>(claim);
    }

    pub(super) fn add_volume(&self, volume: Value) {
        self.api.create_json::<PersistentVolume>(volume);
    }

    pub(super) fn add_attributes_class(&self, class: Value) {
        self.api.create_json::<VolumeAttributesClass>(class);
    }
}

/// Creates a claim and its volume, which name each other: the API server gives the claim its UID.
pub(super) fn create(api: &FakeApiServer, claim: Value, mut volume: Value) {
    let stands_for = claim["metadata"]["uid"].clone();
    let claim = api.create_json::<PersistentVolumeClaim>(claim);
    if volume["spec"]["claimRef"]["uid"] == stands_for {
        volume["spec"]["claimRef"]["uid"] = claim["metadata"]["uid"].clone();
    }
    api.create_json::<PersistentVolume>(volume);
}

/// What the driver answers to a request for more.
pub(super) fn grown(bytes: i64, node_expansion_required: bool) -> Step {
    Step::respond(move |request: &ControllerExpandVolumeRequest| {
        let asked = request.capacity_range.as_ref().map_or(0, |range| range.required_bytes);
        let capacity_bytes = if bytes == AS_ASKED { asked } else { bytes };
        Ok(ControllerExpandVolumeResponse { capacity_bytes, node_expansion_required })
    })
}

/// Whatever is asked for is done.
pub(super) fn modified() -> Step {
    Step::respond(|_: &ControllerModifyVolumeRequest| Ok(ControllerModifyVolumeResponse {}))
}

/// For [`grown`]: as many bytes as were asked for.
pub(super) const AS_ASKED: i64 = -1;

impl Scene {
    /// Waits until `done` holds.
    pub(super) async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) {
        let poll = async {
            while !done(self) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, poll).await.unwrap_or_else(|_| panic!("no {what}"));
    }

    /// `mutable_parameters` the driver was asked for.
    pub(super) fn modified(&self) -> Vec<BTreeMap<String, String>> {
        let requests: Vec<ControllerModifyVolumeRequest> = self.driver.requests();
        requests.into_iter().map(|request| request.mutable_parameters.into_iter().collect()).collect()
    }

    /// `status.allocatedResourceStatuses.storage`; empty when it is absent.
    pub(super) fn resize_status(&self) -> String {
        self.claim_json()["status"]["allocatedResourceStatuses"]["storage"].as_str().unwrap_or_default().to_owned()
    }

    /// Writes to claims and volumes so far: the resource, and what of it.
    pub(super) fn writes(&self) -> Vec<String> {
        let requests = self.api.requests();
        let patches = requests.iter().filter(|request| request.verb == "patch" && request.resource != "events");
        patches.map(|request| format!("{} {}", request.resource, request.subresource).trim_end().to_owned()).collect()
    }
}
