//! The resizer between a fake API server and a fake driver, all on the runtime of the test.

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use controller_runtime::{Backoff, Health, Tasks, WorkQueueMetrics, lead};
use csi_client::{CallMetrics, Driver, Handshake};
use csi_proto::csi::v1::controller_service_capability::rpc::Type as ControllerRpc;
use fake_apiserver::FakeApiServer;
use fake_driver::{FakeDriver, Identity};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use parking_lot::Mutex;
use serde_json::Value;
use storage_kube::in_tree::InTreePlugin;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::objects::{CLAIM, DRIVER, NAMESPACE, VOLUME};
pub(super) use crate::args::Config;
use crate::caches::Caches;
use crate::metrics::ResizerMetrics;
use crate::modify;
use crate::settings::Settings;
use crate::term::{Process, context, work_in};
use crate::term_context::TermContext;

/// Longest wait of a test, on the paused clock.
pub(super) const PATIENCE: Duration = Duration::from_hours(3);

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
    pub(super) process: Arc<Process>,
    term: Arc<Mutex<Weak<TermContext>>>,
    shutdown: CancellationToken,
    ended: oneshot::Receiver<()>,
    _tasks: Tasks,
}

impl Scene {
    /// With a driver that expands and modifies, and no objects.
    pub(super) async fn start() -> Self {
        Self::with(config(), |_| ()).await
    }

    /// Starts with other flags or another driver.
    pub(super) async fn with(config: Config, identity: impl FnOnce(&mut Identity)) -> Self {
        Self::build(config, identity, |_, _| (), false).await
    }

    /// Starts with what `prepare` has done before.
    pub(super) async fn prepared(
        config: Config,
        identity: impl FnOnce(&mut Identity),
        prepare: impl FnOnce(&FakeApiServer, &FakeDriver),
    ) -> Self {
        Self::build(config, identity, prepare, false).await
    }

    async fn build(
        config: Config,
        identity: impl FnOnce(&mut Identity),
        prepare: impl FnOnce(&FakeApiServer, &FakeDriver),
        elects: bool,
    ) -> Self {
        let (api, driver) = (FakeApiServer::new(), FakeDriver::start().await);
        driver.configure(|driver| {
            driver.name = DRIVER.to_owned();
            driver.controller_capabilities = vec![ControllerRpc::ExpandVolume, ControllerRpc::ModifyVolume];
            identity(driver);
        });
        prepare(&api, &driver);
        Self::over(config, api, driver, elects).await
    }

    /// The next process on an API server and a driver that [`stop`](Self::stop) has left.
    pub(super) async fn again(config: Config, (api, driver): (FakeApiServer, FakeDriver)) -> Self {
        Self::over(config, api, driver, false).await
    }

    async fn over(config: Config, api: FakeApiServer, driver: FakeDriver, elects: bool) -> Self {
        let registry = prometheus::Registry::new();
        let tasks = Tasks::new();
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
            caches: Arc::new(Caches::start(&settings, config.resync, &api.client(), &tasks)),
            settings,
            driver: client,
            client: api.client(),
            events_client: api.client(),
            queue_metrics: WorkQueueMetrics::register(&registry).unwrap(),
            metrics: ResizerMetrics::register(&registry).unwrap(),
            elects,
        });
        let shutdown = CancellationToken::new();
        let (end, ended) = oneshot::channel();
        let term = Arc::<Mutex<Weak<TermContext>>>::default();
        let (led, latest) = (Arc::clone(&process), Arc::clone(&term));
        let leading = lead(None, shutdown.clone(), Health::new(), move |term| {
            let process = Arc::clone(&led);
            let (context, writer) = context(&process, &term);
            *latest.lock() = Arc::downgrade(&context);
            Box::pin(async move {
                work_in(&process, &context, writer, term.number()).await;
                Ok::<_, Infallible>(())
            })
        });
        tasks.spawn("lead", async move {
            Box::pin(leading).await.unwrap();
            let _ = end.send(());
        });
        Self { api, driver, registry, process, term, shutdown, ended, _tasks: tasks }
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

    /// The claim of [`super::objects`] as the API server has it.
    pub(super) fn claim(&self) -> PersistentVolumeClaim {
        self.api.get(NAMESPACE, CLAIM).expect("the claim is there")
    }

    /// The volume of [`super::objects`] as the API server has it.
    pub(super) fn volume(&self) -> PersistentVolume {
        self.api.get("", VOLUME).expect("the volume is there")
    }
}
