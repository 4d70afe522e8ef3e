//! A driver that attaches, its volumes, and nodes for them, in a cluster without kubelets: what the attach-detach controller
//! would make is made by hand.

use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::cluster::Account;
use crate::controller_calls::{Access, ControllerCalls};
use crate::driver::Call;
use crate::scene::PATIENCE;
use crate::sidecar::{Role, Settings};
use crate::{Cluster, Driver, Sidecar, eventually};

/// What a driver advertises that makes, attaches and lists volumes.
pub const ATTACHES: &str =
    "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,PUBLISH_UNPUBLISH_VOLUME,PUBLISH_READONLY";
/// Key of the publish context of `local-driver`, whose value is the node id.
pub const PUBLISHED_TO: &str = "local.outrigger.dev/published-to";

static SCENES: AtomicU32 = AtomicU32::new(0);

/// What one test of attaching works with. The names of all its objects end in that of its namespace.
pub struct AttachScene {
    /// With all rights.
    pub client: Client,
    /// Whose volumes are attached.
    pub driver: Driver,
    /// Of the lease and the service account.
    pub namespace: String,
    /// What the attachers authenticate as.
    pub account: Account,
    /// The driver behind Kubernetes' back.
    pub calls: ControllerCalls,
}

impl AttachScene {
    /// With a `local-driver` with these flags; the last `--capabilities` wins over [`ATTACHES`].
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn start(cluster: &Cluster, purpose: &str, driver_flags: &[&str]) -> Result<Self> {
        let own = driver_flags.iter().any(|flag| flag.starts_with("--capabilities"));
        let attaches = (!own).then_some(ATTACHES);
        let flags: Vec<_> = attaches.into_iter().chain(driver_flags.iter().copied()).collect();
        let driver = Driver::start(&driver_name(purpose), &flags).await?;
        Self::start_with(cluster, purpose, driver).await
    }

    /// With a driver that runs.
    ///
    /// # Errors
    /// When the API server refuses an object.
    pub async fn start_with(cluster: &Cluster, purpose: &str, driver: Driver) -> Result<Self> {
        let namespace = cluster.namespace(purpose).await?;
        let account = cluster.upstream_attacher_account(&namespace).await?;
        let calls = ControllerCalls::connect(&driver.address())?;
        Ok(Self { client: cluster.client().await?, driver, namespace, account, calls })
    }

    /// An attacher of ours that competes for the lease; `Settings::start` starts it.
    ///
    /// # Errors
    /// When it is not built.
    pub fn replica(&self) -> Result<Settings> {
        Ok(self.competing(Settings::new(Role::Attacher, &self.account.kubeconfig, &self.driver.address())?))
    }

    /// Makes an attacher compete for the lease.
    #[must_use]
    pub fn competing(&self, settings: Settings) -> Settings {
        settings.flag("--leader-election").flag(&format!("--leader-election-namespace={}", self.namespace))
    }

    /// An attacher of ours that leads.
    ///
    /// # Errors
    /// When it does not lead in time, with the tail of its log.
    pub async fn leader(&self) -> Result<Sidecar> {
        crate::scene::leading(self.replica()?).await
    }

    /// Name of an object of this scene.
    pub fn name(&self, name: &str) -> String {
        format!("{name}.{}", self.namespace)
    }

    /// Makes the CSINode of a node on which the driver has that id.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn add_node(&self, node: &str, node_id: &str) -> Result<()> {
        let object = json!({ "metadata": { "name": self.name(node) }, "spec": self.with_driver(node_id) });
        let created = self.nodes().create(&PostParams::default(), &serde_json::from_value(object)?).await;
        created.with_context(|| format!("cannot create the CSINode {node}"))?;
        Ok(())
    }

    /// Registers the driver on a node whose CSINode is there without it.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn register(&self, node: &str, node_id: &str) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": self.with_driver(node_id) }));
        let patched = self.nodes().patch(&self.name(node), &PatchParams::default(), &patch).await;
        patched.with_context(|| format!("cannot register the driver on {node}"))?;
        Ok(())
    }

    fn with_driver(&self, node_id: &str) -> Value {
        json!({ "drivers": [{ "name": self.driver.name(), "nodeID": node_id, "topologyKeys": [] }] })
    }

    /// Takes the CSINode away, as when a node leaves the cluster.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn remove_node(&self, node: &str) -> Result<()> {
        self.nodes().delete(&self.name(node), &DeleteParams::default()).await.context("cannot delete the CSINode")?;
        Ok(())
    }

    /// Makes a volume at the driver and a PersistentVolume for it, with these fields more in its spec and in `spec.csi`. Gives
    /// the handle.
    ///
    /// # Errors
    /// When the driver or the API server refuses.
    pub async fn add_volume(&self, name: &str, fields: &Value, source: &Value) -> Result<String> {
        let block = fields["volumeMode"] == "Block";
        let access = if block { Access::Block } else { Access::Mount };
        let handle = self.calls.create_volume(&self.name(name), access).await?;
        self.add_volume_object(name, &handle, fields, source).await?;
        Ok(handle)
    }

    /// Makes a PersistentVolume for a handle.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn add_volume_object(&self, name: &str, handle: &str, fields: &Value, source: &Value) -> Result<()> {
        let mut spec = self.volume_spec(handle, source);
        merge(&mut spec, &json!({ "capacity": { "storage": "1Mi" }, "persistentVolumeReclaimPolicy": "Retain" }));
        merge(&mut spec, fields);
        let volume = json!({ "metadata": { "name": self.name(name) }, "spec": spec });
        let created = self.volumes().create(&PostParams::default(), &serde_json::from_value(volume)?).await;
        created.with_context(|| format!("cannot create the volume {name}"))?;
        Ok(())
    }

    /// What PersistentVolumes and inline specs for a handle have in common.
    pub fn volume_spec(&self, handle: &str, source: &Value) -> Value {
        let mut csi = json!({ "driver": self.driver.name(), "volumeHandle": handle });
        merge(&mut csi, source);
        json!({ "accessModes": ["ReadWriteOnce"], "csi": csi })
    }

    /// Asks for a volume to be attached to a node.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn attach(&self, name: &str, volume: &str, node: &str) -> Result<()> {
        let spec = json!({ "source": { "persistentVolumeName": self.name(volume) } });
        self.add_attachment(name, node, &spec).await
    }

    /// The same with these fields in its spec.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn add_attachment(&self, name: &str, node: &str, fields: &Value) -> Result<()> {
        let mut spec = json!({ "attacher": self.driver.name(), "nodeName": self.name(node) });
        merge(&mut spec, fields);
        let attachment = json!({ "metadata": { "name": self.name(name) }, "spec": spec });
        let created = self.attachments().create(&PostParams::default(), &serde_json::from_value(attachment)?).await;
        created.with_context(|| format!("cannot create the attachment {name}"))?;
        Ok(())
    }

    /// Waits until it is attached.
    ///
    /// # Errors
    /// When it is not in time.
    pub async fn attached(&self, name: &str) -> Result<VolumeAttachment> {
        self.attachment(name, "attached", |attachment| attachment.status.as_ref().is_some_and(|status| status.attached))
            .await
    }

    /// Waits until an attachment is as `condition` wants it.
    ///
    /// # Errors
    /// When it is not in time.
    pub async fn attachment(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&VolumeAttachment) -> bool,
    ) -> Result<VolumeAttachment> {
        let what = format!("{name} to be {what}");
        eventually::object(&self.attachments(), &self.name(name), &what, PATIENCE, condition).await
    }

    /// Asks for it to be detached, and does not wait.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn detach(&self, name: &str) -> Result<()> {
        let deleted = self.attachments().delete(&self.name(name), &DeleteParams::default()).await;
        deleted.with_context(|| format!("cannot delete the attachment {name}"))?;
        Ok(())
    }

    /// Waits until it is gone.
    ///
    /// # Errors
    /// When it is not in time.
    pub async fn detached(&self, name: &str) -> Result<()> {
        eventually::gone(&self.attachments(), &self.name(name), PATIENCE).await
    }

    /// All attachments of the cluster.
    pub fn attachments(&self) -> Api<VolumeAttachment> {
        Api::all(self.client.clone())
    }

    /// All PersistentVolumes of the cluster.
    pub fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.client.clone())
    }

    /// All CSINodes of the cluster.
    pub fn nodes(&self) -> Api<CSINode> {
        Api::all(self.client.clone())
    }

    /// Calls of sidecars about one volume, in the order in which they ended.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub fn calls_about(&self, handle: &str) -> Result<Vec<Call>> {
        let own = i32::try_from(std::process::id()).ok();
        let calls = self.driver.journal()?.into_iter();
        Ok(calls
            .filter(|call| call.volume() == Some(handle) && (call.peer_pid.is_none() || call.peer_pid != own))
            .collect())
    }

    /// The same as `RPC CODE`, for comparing with what is expected.
    ///
    /// # Errors
    /// As [`calls_about`](Self::calls_about).
    pub fn course_of(&self, handle: &str) -> Result<Vec<String>> {
        Ok(self.calls_about(handle)?.into_iter().map(|call| format!("{} {}", call.rpc, call.code)).collect())
    }

    /// Node ids that the driver has recorded as those a volume is published to.
    ///
    /// # Errors
    /// When its record cannot be read.
    pub fn published_to(&self, handle: &str) -> Result<Vec<String>> {
        self.driver.published_to(handle)
    }

    /// Whether an object has the attacher's finalizer of this driver.
    pub fn holds(&self, object: &impl kube::Resource) -> bool {
        object.finalizers().contains(&self.finalizer())
    }

    /// The attacher's finalizer of this driver.
    pub fn finalizer(&self) -> String {
        format!("external-attacher/{}", self.driver.name().replace('.', "-"))
    }
}

/// A plugin name that no other scene has.
pub fn driver_name(purpose: &str) -> String {
    format!("{purpose}-{}.outrigger.dev", SCENES.fetch_add(1, Ordering::Relaxed))
}

fn merge(object: &mut Value, fields: &Value) {
    for (key, value) in fields.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
}
