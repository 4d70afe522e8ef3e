//! The provisioner between a fake API server and a fake driver, all on the runtime of the test.

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use controller_runtime::{ApiServer, Backoff, Continuity, Health, Informers, Tasks, WorkQueueMetrics, lead};
use csi_client::{CallMetrics, Driver, Handshake};
use fake_apiserver::FakeApiServer;
use fake_driver::{FakeDriver, Identity, Rpc};
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Secret};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use parking_lot::Mutex;
use serde_json::Value;
use storage_kube::in_tree::InTreePlugin;
use storage_kube::volume_name::UuidLength;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::metrics::ProvisionerMetrics;
use crate::migration::ProvisionerNames;
use crate::settings::{DriverFacts, ProvisioningFlags, Settings};
use crate::term::{Process, begin, work_in};
use crate::term_context::TermContext;

/// Longest wait of a test, on the paused clock.
pub(super) const PATIENCE: Duration = Duration::from_hours(3);

pub(super) fn flags() -> ProvisioningFlags {
    ProvisioningFlags {
        volume_name_prefix: "pvc".to_owned(),
        uuid_length: UuidLength::Full,
        default_fs_type: "ext4".to_owned(),
        extra_create_metadata: false,
        publish_readonly: false,
        strict_topology: false,
        immediate_topology: true,
        prevent_mode_conversion: true,
        cloning_protection_threads: 1,
        snapshot_sweep: Some(Duration::from_mins(5)),
        cross_namespace_gate: false,
        topology_gate: true,
        attributes_class_gate: true,
        discover_attributes_class: false,
    }
}

/// A provisioner at work.
pub(super) struct Scene {
    pub(super) api: FakeApiServer,
    pub(super) driver: FakeDriver,
    pub(super) registry: prometheus::Registry,
    pub(super) process: Arc<Process>,
    driver_name: String,
    continuity: Continuity,
    term: Arc<Mutex<Weak<TermContext>>>,
    shutdown: CancellationToken,
    ended: oneshot::Receiver<()>,
    tasks: Arc<Tasks>,
}

impl Scene {
    pub(super) async fn start() -> Self {
        Self::with(flags(), |_| ()).await
    }

    /// Starts with other flags or another driver.
    pub(super) async fn with(flags: ProvisioningFlags, identity: impl FnOnce(&mut Identity)) -> Self {
        Self::configured(|settings| settings.flags = flags, identity, |_| ()).await
    }

    /// Starts with other settings or another driver; `prepare` acts on the API server before.
    pub(super) async fn configured(
        configure: impl FnOnce(&mut Settings),
        identity: impl FnOnce(&mut Identity),
        prepare: impl FnOnce(&FakeApiServer),
    ) -> Self {
        let api = FakeApiServer::new();
        prepare(&api);
        Self::beside(&api, configure, identity).await
    }

    /// Starts beside others on the same API server, with a driver of its own.
    pub(super) async fn beside(
        api: &FakeApiServer,
        configure: impl FnOnce(&mut Settings),
        identity: impl FnOnce(&mut Identity),
    ) -> Self {
        Self::build(api, configure, |driver| driver.configure(identity)).await
    }

    /// Starts with other settings; `prepare` acts on the API server and the driver before.
    pub(super) async fn arranged(
        configure: impl FnOnce(&mut Settings),
        prepare: impl FnOnce(&FakeApiServer, &FakeDriver),
    ) -> Self {
        let api = FakeApiServer::new();
        Self::build(&api, configure, |driver| prepare(&api, driver)).await
    }

    async fn build(
        api: &FakeApiServer,
        configure: impl FnOnce(&mut Settings),
        prepare: impl FnOnce(&FakeDriver),
    ) -> Self {
        let api = api.clone();
        let driver = FakeDriver::start().await;
        prepare(&driver);
        let registry = prometheus::Registry::new();
        let (tasks, continuity) = (Arc::new(Tasks::new()), Continuity::new(PATIENCE));
        let timeout = Duration::from_secs(10);
        let call_metrics = CallMetrics::register(&registry).unwrap();
        call_metrics.label_migrated(|driver| InTreePlugin::replaced_by(driver).is_some());
        let (client, connection) = Driver::new(csi_client::Settings {
            address: csi_client::Address::parse(&driver.address()).unwrap(),
            handshake: Handshake::Controller,
            timeout,
            metrics: call_metrics,
        });
        tasks.spawn("connection", async move { panic!("{}", connection.run().await) });
        let info = client.ready().await;
        let driver_name = info.name.to_string();
        let mut settings = Settings {
            names: ProvisionerNames::of(info.name.as_ref()),
            driver: DriverFacts::of(&info),
            flags: flags(),
            capacity: None,
            node: None,
            identity: "1790000000000-1234-test".to_owned(),
            timeout,
        };
        configure(&mut settings);
        let settings = Arc::new(settings);
        let capacity = super::capacity::process(&settings, &api, &registry).await;
        let process = Arc::new(Process {
            informers: Informers::new(ApiServer::from(&api.client()), continuity.clone(), &tasks),
            capacity: capacity.map(Arc::new),
            attributes_classes: crate::attributes_class::kind(settings.flags.discover_attributes_class),
            settings,
            driver: client,
            api_server: ApiServer::from(&api.client()),
            unlimited: ApiServer::from(&api.client()),
            host_name: "host".to_owned(),
            worker_threads: 100,
            backoff: Backoff { base: Duration::from_secs(1), max: Duration::from_mins(5) },
            queue_metrics: WorkQueueMetrics::register(&registry).unwrap(),
            metrics: ProvisionerMetrics::register(&registry).unwrap(),
        });
        let shutdown = CancellationToken::new();
        let (end, ended) = oneshot::channel();
        let term = Arc::<Mutex<Weak<TermContext>>>::default();
        let scene = Self { api, driver, registry, process, driver_name, continuity, term, shutdown, ended, tasks };
        let leading = scene.lead(&scene.shutdown);
        scene.tasks.spawn("lead", async move {
            leading.await;
            let _ = end.send(());
        });
        scene
    }

    fn lead(&self, shutdown: &CancellationToken) -> impl Future<Output = ()> + Send + use<> {
        let (process, latest) = (Arc::clone(&self.process), Arc::clone(&self.term));
        let leading = lead(None, self.continuity.clone(), shutdown.clone(), Health::new(), move |term| {
            let (process, latest) = (Arc::clone(&process), Arc::clone(&latest));
            Box::pin(async move {
                if let Some((context, writer)) = begin(&process, &term).await {
                    *latest.lock() = Arc::downgrade(&context);
                    work_in(&process, &context, writer, term.number()).await;
                }
                Ok::<_, Infallible>(())
            })
        });
        async move { Box::pin(leading).await.unwrap() }
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

    pub(super) fn driver_name(&self) -> &str {
        &self.driver_name
    }

    /// Begins another term of the same process, as one that has won the lease again.
    pub(super) fn lead_again(&self) -> CancellationToken {
        let shutdown = CancellationToken::new();
        self.tasks.spawn("lead again", self.lead(&shutdown));
        shutdown
    }

    pub(super) fn begin_stop(&self) {
        self.shutdown.cancel();
    }

    pub(super) fn add_class(&self, class: Value) {
        self.api.create_json::<StorageClass>(class);
    }

    /// Creates the claim and returns its UID.
    pub(super) fn add_claim(&self, claim: Value) -> String {
        self.api.create_json::<PersistentVolumeClaim>(claim)["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    pub(super) fn add_volume(&self, volume: Value) -> Value {
        self.api.create_json::<PersistentVolume>(volume)
    }

    pub(super) fn add_secret(&self, secret: Value) {
        self.api.create_json::<Secret>(secret);
    }

    pub(super) fn add_attachment(&self, name: &str, volume: &str) {
        let attachment = serde_json::json!({
            "metadata": { "name": name },
            "spec": { "attacher": super::objects::DRIVER, "nodeName": "n1", "source": { "persistentVolumeName": volume } },
        });
        self.api.create_json::<VolumeAttachment>(attachment);
    }

    /// The node of all attachments, where kubelet has the volume mounted.
    pub(super) fn add_node_using(&self, handle: &str) {
        let in_use = format!("kubernetes.io/csi/{}^{handle}", super::objects::DRIVER);
        let node = serde_json::json!({ "metadata": { "name": "n1" }, "status": { "volumesInUse": [in_use] } });
        self.api.create_json::<Node>(node);
    }

    /// Waits for the volume object.
    pub(super) async fn volume(&self, name: &str) -> Value {
        self.api.until(&format!("volume {name}"), PATIENCE, |api| api.get_json::<PersistentVolume>(None, name)).await
    }

    pub(super) async fn volume_gone(&self, name: &str) {
        self.api
            .until(&format!("volume {name} to go"), PATIENCE, |api| {
                api.get_json::<PersistentVolume>(None, name).is_none().then_some(())
            })
            .await;
    }

    /// As the volume controller does when it has found the volume of a claim.
    pub(super) fn bind(&self, claim: &str, volume: &str) {
        let bound = serde_json::json!({ "spec": { "volumeName": volume }, "status": { "phase": "Bound" } });
        self.api.merge::<PersistentVolumeClaim>("shop", claim, &bound);
    }

    /// As the volume controller does when the claim of a bound volume is gone.
    pub(super) fn release(&self, volume: &str) {
        self.api.merge::<PersistentVolume>(None, volume, &serde_json::json!({ "status": { "phase": "Released" } }));
    }

    /// Waits for an event with this reason and returns its message.
    pub(super) async fn event(&self, reason: &str) -> String {
        self.api.until(&format!("event {reason}"), PATIENCE, |_| self.events(reason).into_iter().next()).await
    }

    /// Messages of all events with this reason.
    pub(super) fn events(&self, reason: &str) -> Vec<String> {
        let all = self.api.list::<Event>();
        all.into_iter()
            .filter(|event| event.reason.as_deref() == Some(reason))
            .filter_map(|event| event.message)
            .collect()
    }

    /// Lets everything happen that can happen within `time`.
    pub(super) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    pub(super) fn count(&self, rpc: Rpc) -> usize {
        self.driver.calls_of(rpc).len()
    }

    /// `verb resource` of every write so far, events left out.
    pub(super) fn writes(&self) -> Vec<String> {
        self.api
            .requests()
            .iter()
            .filter(|request| !["get", "list", "watch"].contains(&request.verb) && request.resource != "events")
            .map(|request| format!("{} {}", request.verb, request.resource))
            .collect()
    }
}
