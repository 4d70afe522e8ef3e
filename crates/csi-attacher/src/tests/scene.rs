//! The attacher between a fake API server and a fake driver, all on the runtime of the test.

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use controller_runtime::{ApiServer, Backoff, Continuity, Health, Informers, Tasks, WorkQueueMetrics, lead};
use csi_client::{CallMetrics, Driver, Handshake};
use csi_proto::csi::v1::controller_service_capability::rpc::Type as ControllerRpc;
use csi_proto::csi::v1::{ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest};
use fake_apiserver::{FakeApiServer, Matcher, Reaction, Request, Status};
use fake_driver::{FakeDriver, Identity, Rpc};
use k8s_openapi::api::core::v1::{PersistentVolume, Secret};
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use parking_lot::Mutex;
use serde_json::Value;
use storage_kube::in_tree::InTreePlugin;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::objects::{DRIVER, node, volume};
pub(super) use crate::args::Config;
use crate::metrics::AttacherMetrics;
use crate::settings::Settings;
use crate::term::{Process, context, work_in};
use crate::term_context::TermContext;

/// Longest wait of a test, on the paused clock.
pub(super) const PATIENCE: Duration = Duration::from_hours(3);

pub(super) fn config() -> Config {
    Config {
        resync: Some(Duration::from_mins(10)),
        timeout: Duration::from_secs(15),
        backoff: Backoff { base: Duration::from_secs(1), max: Duration::from_mins(5) },
        worker_threads: 10,
        max_entries: 0,
        default_fs_type: "ext4".to_owned(),
        reconcile_sync: Duration::from_mins(1),
        max_grpc_log_length: None,
        error_codes: true,
    }
}

/// An attacher at work.
pub(super) struct Scene {
    pub(super) api: FakeApiServer,
    pub(super) driver: FakeDriver,
    pub(super) registry: prometheus::Registry,
    pub(super) process: Arc<Process>,
    term: Arc<Mutex<Weak<TermContext>>>,
    shutdown: CancellationToken,
    ended: oneshot::Receiver<()>,
    _tasks: Arc<Tasks>,
}

impl Scene {
    /// With the volume `pv1` and the node `node1`.
    pub(super) async fn start() -> Self {
        Self::with(config(), |_| ()).await.furnished()
    }

    /// The same with a driver that lists where volumes are published.
    pub(super) async fn listing() -> Self {
        Self::with(config(), lists).await.furnished()
    }

    fn furnished(self) -> Self {
        self.add_volume(volume());
        self.add_node(node("node1", "nodeID1"));
        self
    }

    /// Starts with other flags or another driver, and no objects.
    pub(super) async fn with(config: Config, identity: impl FnOnce(&mut Identity)) -> Self {
        Self::build(config, identity, |_, _| ()).await
    }

    /// Starts with the right to read everything but nodes, with the volume `pv1` and the node `node1`.
    pub(super) async fn without_the_right_to_nodes() -> Self {
        let forbid = |api: &FakeApiServer, _: &FakeDriver| {
            for verb in ["list", "watch", "get"] {
                api.react(Matcher::of(verb, "csinodes"), Reaction::Refuse(Status::forbidden("no right to csinodes")));
            }
        };
        Self::build(config(), |_| (), forbid).await.furnished()
    }

    /// Starts with a driver that lists, and with what `prepare` has done before.
    pub(super) async fn prepared(prepare: impl FnOnce(&FakeApiServer, &FakeDriver)) -> Self {
        Self::build(config(), lists, prepare).await
    }

    async fn build(
        config: Config,
        identity: impl FnOnce(&mut Identity),
        prepare: impl FnOnce(&FakeApiServer, &FakeDriver),
    ) -> Self {
        let api = FakeApiServer::new();
        let driver = FakeDriver::start().await;
        driver.configure(|driver| {
            driver.name = DRIVER.to_owned();
            driver.controller_capabilities =
                vec![ControllerRpc::PublishUnpublishVolume, ControllerRpc::PublishReadonly];
            identity(driver);
        });
        prepare(&api, &driver);
        let registry = prometheus::Registry::new();
        let (tasks, continuity) = (Arc::new(Tasks::new()), Continuity::new(PATIENCE));
        let call_metrics = CallMetrics::register(&registry).unwrap();
        call_metrics.label_migrated(|driver| InTreePlugin::replaced_by(driver).is_some());
        let (client, connection) = Driver::new(csi_client::Settings {
            address: csi_client::Address::parse(&driver.address()).unwrap(),
            handshake: Handshake::ControllerIfServed,
            timeout: config.timeout,
            metrics: call_metrics,
        });
        tasks.spawn("connection", async move { panic!("{}", connection.run().await) });
        let info = client.ready().await;
        let settings = Arc::new(Settings::new(&config, &info));
        let process = Arc::new(Process {
            informers: Informers::new(ApiServer::from(&api.client()), continuity.clone(), &tasks),
            settings,
            driver: client,
            api_server: ApiServer::from(&api.client()),
            queue_metrics: WorkQueueMetrics::register(&registry).unwrap(),
            metrics: AttacherMetrics::register(&registry).unwrap(),
        });
        let shutdown = CancellationToken::new();
        let (end, ended) = oneshot::channel();
        let term = Arc::<Mutex<Weak<TermContext>>>::default();
        let (led, latest) = (Arc::clone(&process), Arc::clone(&term));
        let leading = lead(None, continuity, shutdown.clone(), Health::new(), move |term| {
            let context = context(&led, &term);
            *latest.lock() = Arc::downgrade(&context);
            let driver = led.driver.clone();
            Box::pin(async move {
                work_in(&context, &driver, term.number()).await;
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

    pub(super) fn add_volume(&self, volume: Value) {
        self.api.create_json::<PersistentVolume>(volume);
    }

    pub(super) fn add_node(&self, node: Value) {
        self.api.create_json::<CSINode>(node);
    }

    pub(super) fn add_secret(&self, secret: Value) {
        self.api.create_json::<Secret>(secret);
    }

    pub(super) fn add_attachment(&self, attachment: Value) {
        self.api.create_json::<VolumeAttachment>(attachment);
    }

    pub(super) fn delete_attachment(&self, name: &str) {
        self.api.delete::<VolumeAttachment>(None, name);
    }

    pub(super) fn attachment(&self, name: &str) -> Option<Value> {
        self.api.get_json::<VolumeAttachment>(None, name)
    }

    /// Waits until the attachment is attached.
    pub(super) async fn attached(&self, name: &str) -> Value {
        self.status(name, |status| status["attached"] == true).await
    }

    /// Waits for an attachment whose status is as asked for.
    pub(super) async fn status(&self, name: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let what = format!("status of {name}");
        self.api.until(&what, PATIENCE, |_| self.attachment(name).filter(|found| wanted(&found["status"]))).await
    }

    /// Waits until the attachment is gone.
    pub(super) async fn gone(&self, name: &str) {
        let what = format!("{name} to go");
        self.api.until(&what, PATIENCE, |_| self.attachment(name).is_none().then_some(())).await;
    }

    /// Lets everything happen that can happen within `time`.
    pub(super) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    pub(super) fn count(&self, rpc: Rpc) -> usize {
        self.driver.calls_of(rpc).len()
    }

    pub(super) fn published(&self) -> Vec<ControllerPublishVolumeRequest> {
        self.driver.requests()
    }

    pub(super) fn unpublished(&self) -> Vec<ControllerUnpublishVolumeRequest> {
        self.driver.requests()
    }

    /// The node ids of [`unpublished`](Self::unpublished), in order.
    pub(super) fn unpublished_at(&self) -> Vec<String> {
        self.unpublished().into_iter().map(|call| call.node_id).collect()
    }

    /// Every write and every Secret read so far, in the short words of [`word`].
    pub(super) fn writes(&self) -> Vec<String> {
        self.api.requests().iter().filter_map(|request| word(request)).collect()
    }
}

/// Makes the driver list where volumes are published.
pub(super) fn lists(driver: &mut Identity) {
    driver.controller_capabilities.extend([ControllerRpc::ListVolumes, ControllerRpc::ListVolumesPublishedNodes]);
}

/// What a request does, in one word: `hold` (finalizer and node id), `attached`, `release` (finalizer), `detached`,
/// `attachError` and `detachError`, `protect` and `unprotect` (finalizer of the volume), `secret`.
fn word(request: &Request) -> Option<String> {
    let body = &request.body;
    let text = match (request.verb, request.resource.as_str(), request.subresource.as_str()) {
        ("get", "secrets", _) => "secret".to_owned(),
        ("patch", "volumeattachments", "status") => {
            let status = &body["status"];
            match (status["attached"].as_bool(), status.get("attachError"), status.get("detachError")) {
                (Some(true), _, _) => "attached".to_owned(),
                (Some(false), _, _) => "detached".to_owned(),
                (None, Some(_), _) => "attachError".to_owned(),
                (None, _, Some(_)) => "detachError".to_owned(),
                (None, None, None) => format!("status {status}"),
            }
        }
        ("patch", "volumeattachments", "") => {
            let metadata = &body["metadata"];
            let held = metadata["finalizers"].to_string().contains("external-attacher/")
                || metadata.get("annotations").is_some();
            if held { "hold".to_owned() } else { "release".to_owned() }
        }
        ("patch", "persistentvolumes", "") => {
            let removes = body.as_array().is_some_and(|steps| steps.iter().any(|step| step["op"] == "remove"));
            if removes { "unprotect".to_owned() } else { "protect".to_owned() }
        }
        ("get" | "list" | "watch", _, _) => return None,
        (verb, resource, subresource) => format!("{verb} {resource} {subresource}"),
    };
    Some(text)
}
