//! A driver, a namespace and a service account, for whichever provisioner is started there.

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::cluster::Account;
use e2e::sidecar::{Role, Settings};
use e2e::{Cluster, Driver, Sidecar, eventually, peer};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

/// Bound of each wait. Real programs on a busy machine: long, and never slept through.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Whose program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Go,
    Ours,
}

/// Where one or more provisioners of one driver run.
pub(crate) struct Site {
    pub(crate) cluster: &'static Cluster,
    pub(crate) client: Client,
    pub(crate) driver: Driver,
    /// It is part of every other name of this site.
    pub(crate) namespace: String,
    pub(crate) account: Account,
}

impl Site {
    /// In the driver's flags `SITE` stands for the name of the namespace.
    pub(crate) async fn start(purpose: &str, driver_flags: &[&str]) -> Result<Self> {
        Self::start_for(None, purpose, driver_flags).await
    }

    /// For the driver of that name, which no other site may have at the time; without one the driver gets a name of its own.
    pub(crate) async fn start_for(driver: Option<&str>, purpose: &str, driver_flags: &[&str]) -> Result<Self> {
        let cluster = Cluster::shared_with_audit().await?;
        let namespace = cluster.namespace(purpose).await?;
        let flags: Vec<_> = driver_flags.iter().map(|flag| flag.replace("SITE", &namespace)).collect();
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let own_name = format!("{namespace}.outrigger.dev");
        let driver = Driver::start(driver.unwrap_or(&own_name), &flags).await?;
        let account = cluster.upstream_provisioner_account(&namespace).await?;
        Ok(Self { cluster, client: cluster.client().await?, driver, namespace, account })
    }

    /// A provisioner of this site that does not compete for a lease.
    pub(crate) async fn settings(&self, side: Side) -> Result<Settings> {
        let (kubeconfig, address) = (&self.account.kubeconfig, self.driver.address());
        match side {
            Side::Go => peer::settings(Role::Provisioner, kubeconfig, &address).await,
            Side::Ours => Settings::new(Role::Provisioner, kubeconfig, &address),
        }
    }

    /// Name of a class of this site.
    pub(crate) fn class(&self, name: &str) -> String {
        format!("{name}.{}", self.namespace)
    }

    /// Creates a class with these fields more.
    pub(crate) async fn add_class(&self, name: &str, fields: &Value) -> Result<()> {
        let mut class = json!({ "metadata": { "name": self.class(name) }, "provisioner": self.driver.name() });
        add(&mut class, fields);
        let classes: Api<StorageClass> = Api::all(self.client.clone());
        let created = classes.create(&PostParams::default(), &serde_json::from_value(class)?).await;
        created.with_context(|| format!("cannot create the class {name}"))?;
        Ok(())
    }

    pub(crate) async fn delete_class(&self, name: &str) -> Result<()> {
        let classes: Api<StorageClass> = Api::all(self.client.clone());
        classes.delete(&self.class(name), &DeleteParams::default()).await.context("cannot delete the class")?;
        Ok(())
    }

    /// Lets the account read Secrets.
    pub(crate) async fn grant_secrets(&self) -> Result<()> {
        self.cluster.grant_secrets(&self.account).await
    }

    /// Creates a claim of 1 MiB for a class of this site, with these fields more in its spec.
    pub(crate) async fn claim(&self, name: &str, class: &str, annotations: &Value, fields: &Value) -> Result<()> {
        self.claim_in(&self.claims(), name, class, annotations, fields).await
    }

    /// The same in the namespace of these claims.
    pub(crate) async fn claim_in(
        &self,
        claims: &Api<PersistentVolumeClaim>,
        name: &str,
        class: &str,
        annotations: &Value,
        fields: &Value,
    ) -> Result<()> {
        let mut spec = json!({
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": self.class(class),
            "resources": { "requests": { "storage": "1Mi" } },
        });
        add(&mut spec, fields);
        let claim = json!({ "metadata": { "name": name, "annotations": annotations }, "spec": spec });
        let created = claims.create(&PostParams::default(), &serde_json::from_value(claim)?).await;
        created.with_context(|| format!("cannot create the claim {name}"))?;
        Ok(())
    }

    pub(crate) async fn delete_claim(&self, name: &str) -> Result<()> {
        self.claims().delete(name, &DeleteParams::default()).await.context("cannot delete the claim")?;
        Ok(())
    }

    /// Waits until the claim is Bound and gives the name of its volume.
    pub(crate) async fn bound(&self, name: &str) -> Result<String> {
        bound_in(&self.claims(), name).await
    }

    pub(crate) fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.client.clone())
    }

    /// The driver's records of its volumes.
    pub(crate) fn backend(&self) -> Result<Vec<Value>> {
        let mut records = Vec::new();
        for entry in std::fs::read_dir(self.driver.state_directory().join("volumes"))? {
            match std::fs::read(entry?.path()) {
                Ok(record) => records.extend(serde_json::from_slice(&record)),
                // Deleted meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(records)
    }
}

/// Waits until the claim is Bound and gives the name of its volume.
pub(crate) async fn bound_in(claims: &Api<PersistentVolumeClaim>, name: &str) -> Result<String> {
    let bound = eventually::object(claims, name, "the claim to be Bound", PATIENCE, |claim| {
        claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
    });
    bound.await?.spec.and_then(|spec| spec.volume_name).context("a Bound claim names its volume")
}

/// Waits until a provisioner without leader election works, or one with it leads.
pub(crate) async fn works(provisioner: &mut Sidecar, side: Side) -> Result<()> {
    let text = match side {
        Side::Go => "Started provisioner controller",
        Side::Ours => "work starts",
    };
    provisioner.process().logged(text, PATIENCE).await
}

fn add(object: &mut Value, fields: &Value) {
    for (key, value) in fields.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
}
