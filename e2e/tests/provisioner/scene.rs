//! A driver, a class, a namespace and a service account of one test, in the cluster that the tests share.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::cluster::Account;
use e2e::{Cluster, Driver, Provisioner, eventually, provisioner};
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

/// Bound of each wait. Real programs on a busy machine: long, and never slept through.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

static DRIVERS: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Scene {
    pub(crate) client: Client,
    pub(crate) driver: Driver,
    pub(crate) namespace: String,
    pub(crate) account: Account,
    /// Name of the class, and part of the driver's name.
    pub(crate) class: String,
}

impl Scene {
    /// In the shared cluster, with a driver that runs with these flags.
    pub(crate) async fn start(purpose: &str, driver_flags: &[&str]) -> Result<Self> {
        Self::start_in(Cluster::shared().await?, purpose, driver_flags).await
    }

    pub(crate) async fn start_in(cluster: &Cluster, purpose: &str, driver_flags: &[&str]) -> Result<Self> {
        let class = format!("{purpose}-{}", DRIVERS.fetch_add(1, Ordering::Relaxed));
        let driver = Driver::start(&format!("{class}.outrigger.dev"), driver_flags).await?;
        let namespace = cluster.namespace(purpose).await?;
        let account = cluster.upstream_provisioner_account(&namespace).await?;
        let scene = Self { client: cluster.client().await?, driver, namespace, account, class };
        scene.add_class(&json!({})).await?;
        Ok(scene)
    }

    /// A replica that competes for the lease; `Settings::start` starts it.
    pub(crate) fn replica(&self) -> Result<provisioner::Settings> {
        let settings = provisioner::Settings::new(&self.account.kubeconfig, &self.driver.address())?;
        let namespace = format!("--leader-election-namespace={}", self.namespace);
        Ok(settings.flag("--leader-election").flag(&namespace))
    }

    /// A replica that leads.
    pub(crate) async fn leader(&self) -> Result<Provisioner> {
        let mut leader = self.replica()?.start()?;
        leader.process().logged("work starts", PATIENCE).await?;
        Ok(leader)
    }

    /// Replaces the class of this scene by one with these fields more.
    pub(crate) async fn add_class(&self, fields: &Value) -> Result<()> {
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

    pub(crate) fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.client.clone())
    }

    /// Creates a claim of 1 MiB, with these fields more in its spec.
    pub(crate) async fn claim(&self, name: &str, fields: &Value) -> Result<()> {
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
    pub(crate) async fn bound(&self, name: &str) -> Result<String> {
        let phase = |claim: &PersistentVolumeClaim| claim.status.as_ref().and_then(|status| status.phase.clone());
        let claims = self.claims();
        let bound = eventually::object(&claims, name, "the claim to be Bound", PATIENCE, |claim| {
            phase(claim).as_deref() == Some("Bound")
        });
        bound.await?.spec.and_then(|spec| spec.volume_name).context("a Bound claim names its volume")
    }

    pub(crate) async fn delete_claim(&self, name: &str) -> Result<()> {
        self.claims().delete(name, &DeleteParams::default()).await.context("cannot delete the claim")?;
        Ok(())
    }

    /// Waits until the volume's object and the driver's volume are gone.
    pub(crate) async fn gone(&self, volume: &str) -> Result<()> {
        eventually::gone(&self.volumes(), volume, PATIENCE).await?;
        eventually("the driver's volumes to be gone", PATIENCE, async || {
            Ok((self.backend_volumes()? == 0).then_some(()))
        })
        .await
    }

    /// How many volumes the driver has.
    pub(crate) fn backend_volumes(&self) -> Result<usize> {
        Ok(std::fs::read_dir(self.driver.state_directory().join("volumes"))?.count())
    }

    /// Waits for an event of the namespace with this reason and text.
    pub(crate) async fn event(&self, reason: &str, text: &str) -> Result<()> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let what = format!("an event {reason} that says {text:?}");
        let mut seen = Vec::new();
        let found = eventually(&what, PATIENCE, async || {
            let all = events.list(&kube::api::ListParams::default()).await?;
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
    pub(crate) fn codes(&self, rpc: &str) -> Result<Vec<String>> {
        Ok(self.driver.calls(rpc)?.into_iter().map(|call| call.code).collect())
    }
}
