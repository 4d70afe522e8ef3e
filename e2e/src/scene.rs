//! A driver, a class, a namespace and a service account of one test, in the cluster that the tests share.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cluster::Account;
use crate::eventually::{self, eventually};
use crate::proxy::Proxy;
use crate::sidecar::{Role, Settings};
use crate::{Cluster, Driver, Node, Sidecar};

/// Bound of each wait. Real programs on a busy machine: long, and never slept through.
pub const PATIENCE: Duration = Duration::from_mins(1);

static SCENES: AtomicU32 = AtomicU32::new(0);

/// What one test works with.
pub struct Scene {
    /// With all rights.
    pub client: Client,
    /// Serves the driver of the class.
    pub driver: Driver,
    /// Of the claims, the lease and the service account.
    pub namespace: String,
    /// What the replicas authenticate as.
    pub account: Account,
    /// Name of the class, and part of the driver's name.
    pub class: String,
}

impl Scene {
    /// In the shared cluster, with a driver that runs with these flags.
    pub async fn start(purpose: &str, driver_flags: &[&str]) -> Result<Self> {
        Self::start_in(Cluster::shared().await?, purpose, driver_flags).await
    }

    /// In a cluster that is this test's own.
    pub async fn start_in(cluster: &Cluster, purpose: &str, driver_flags: &[&str]) -> Result<Self> {
        Self::start_at(cluster, None, purpose, driver_flags).await
    }

    /// In a cluster, with the driver on one of its nodes.
    pub async fn start_on(cluster: &Cluster, node: &Node, purpose: &str, driver_flags: &[&str]) -> Result<Self> {
        Self::start_at(cluster, Some(node), purpose, driver_flags).await
    }

    async fn start_at(cluster: &Cluster, node: Option<&Node>, purpose: &str, driver_flags: &[&str]) -> Result<Self> {
        let class = format!("{purpose}-{}", SCENES.fetch_add(1, Ordering::Relaxed));
        let mut driver = Driver::prepare(&format!("{class}.outrigger.dev"), driver_flags)?;
        if let Some(node) = node {
            driver.move_to(node)?;
        }
        driver.start_again().await?;
        let namespace = cluster.namespace(purpose).await?;
        let account = cluster.upstream_provisioner_account(&namespace).await?;
        let scene = Self { client: cluster.client().await?, driver, namespace, account, class };
        scene.add_class(&json!({})).await?;
        Ok(scene)
    }

    /// A replica that competes for the lease; `Settings::start` starts it.
    pub fn replica(&self) -> Result<Settings> {
        self.replica_with(&self.account.kubeconfig)
    }

    /// The same, which reaches the API server through a proxy.
    pub fn replica_behind(&self, proxy: &Proxy) -> Result<Settings> {
        self.replica_with(proxy.kubeconfig())
    }

    fn replica_with(&self, kubeconfig: &Path) -> Result<Settings> {
        let settings = Settings::new(Role::Provisioner, kubeconfig, &self.driver.address())?;
        let namespace = format!("--leader-election-namespace={}", self.namespace);
        Ok(settings.flag("--leader-election").flag(&namespace))
    }

    /// A replica that leads.
    pub async fn leader(&self) -> Result<Sidecar> {
        leading(self.replica()?).await
    }

    /// Replaces the class of this scene by one with these fields more.
    pub async fn add_class(&self, fields: &Value) -> Result<()> {
        let classes: Api<StorageClass> = Api::all(self.client.clone());
        let _ = classes.delete(&self.class, &DeleteParams::default()).await;
        let mut class = json!({ "metadata": { "name": self.class }, "provisioner": self.driver.name() });
        for (key, value) in fields.as_object().into_iter().flatten() {
            class[key] = value.clone();
        }
        classes
            .create(&PostParams::default(), &serde_json::from_value(class)?)
            .await
            .context("cannot create the class")?;
        Ok(())
    }

    /// Replaces the class by one whose volumes may grow, and whose mount volumes have a file system of their own: pods see
    /// its size. They have 300 MiB at least.
    pub async fn add_growing_class(&self) -> Result<()> {
        self.add_class(&json!({ "allowVolumeExpansion": true, "parameters": { "backing": "image" } })).await
    }

    /// The claims of the namespace.
    pub fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// All PersistentVolumes of the cluster.
    pub fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.client.clone())
    }

    /// Creates a claim of 1 MiB, with these fields more in its spec.
    pub async fn claim(&self, name: &str, fields: &Value) -> Result<()> {
        let mut spec = json!({
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.class,
            "resources": { "requests": { "storage": "1Mi" } },
        });
        for (key, value) in fields.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let claim = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec }))?;
        self.claims().create(&PostParams::default(), &claim).await.context("cannot create the claim")?;
        Ok(())
    }

    /// Waits until the claim is Bound and gives the name of its volume.
    pub async fn bound(&self, name: &str) -> Result<String> {
        let phase = |claim: &PersistentVolumeClaim| claim.status.as_ref().and_then(|status| status.phase.clone());
        let claims = self.claims();
        let bound = eventually::object(&claims, name, "the claim to be Bound", PATIENCE, |claim| {
            phase(claim).as_deref() == Some("Bound")
        });
        bound.await?.spec.and_then(|spec| spec.volume_name).context("a Bound claim names its volume")
    }

    /// What the driver calls a volume.
    ///
    /// # Errors
    /// When it has no object, or is none of a driver.
    pub async fn handle(&self, volume: &str) -> Result<String> {
        let source = self.volumes().get(volume).await?.spec.and_then(|spec| spec.csi);
        Ok(source.context("no CSI volume")?.volume_handle)
    }

    /// Deletes a claim and does not wait for its end.
    pub async fn delete_claim(&self, name: &str) -> Result<()> {
        self.claims().delete(name, &DeleteParams::default()).await.context("cannot delete the claim")?;
        Ok(())
    }

    /// Waits until the volume's object and the driver's volume are gone.
    pub async fn gone(&self, volume: &str) -> Result<()> {
        eventually::gone(&self.volumes(), volume, PATIENCE).await?;
        eventually("the driver's volumes to be gone", PATIENCE, async || {
            Ok((self.backend_volumes()? == 0).then_some(()))
        })
        .await
    }

    /// How many volumes the driver has.
    pub fn backend_volumes(&self) -> Result<usize> {
        Ok(std::fs::read_dir(self.driver.state_directory().join("volumes"))?.count())
    }

    /// How many PersistentVolumes of this class there are.
    pub async fn volume_objects(&self) -> Result<usize> {
        let all = self.volumes().list(&ListParams::default()).await?;
        let class = |volume: &PersistentVolume| volume.spec.as_ref().and_then(|spec| spec.storage_class_name.clone());
        Ok(all.items.iter().filter(|volume| class(volume).as_deref() == Some(&*self.class)).count())
    }

    /// Waits for an event of the namespace with this reason and text.
    pub async fn event(&self, reason: &str, text: &str) -> Result<()> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let what = format!("an event {reason} that says {text:?}");
        let mut seen = Vec::new();
        let found = eventually(&what, PATIENCE, async || {
            let all = events.list(&ListParams::default()).await?;
            seen = all
                .items
                .into_iter()
                .map(|event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default()))
                .collect();
            Ok(seen.iter().any(|(found, message)| found == reason && message.contains(text)).then_some(()))
        });
        found.await.map_err(|error| error.context(format!("events: {seen:#?}")))
    }

    /// The codes of all finished calls of one RPC.
    pub fn codes(&self, rpc: &str) -> Result<Vec<String>> {
        Ok(self.driver.calls(rpc)?.into_iter().map(|call| call.code).collect())
    }
}

/// Starts a replica and waits until it leads and works.
///
/// # Errors
/// When it does not lead in time, with the tail of its log.
pub async fn leading(settings: Settings) -> Result<Sidecar> {
    let mut leader = settings.start()?;
    leader.process().logged("work starts", PATIENCE).await?;
    Ok(leader)
}
