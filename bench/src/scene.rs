//! A cluster with as many volumes, attachments and pods as wanted, and what each sidecar has to do in it.

use std::time::Duration;

use anyhow::Result;
use e2e::cluster::Account;
use e2e::sidecar::Role;
use e2e::{Cluster, Driver, Population, population};
use kube::Client;
use tokio::time::Instant;

/// What a driver advertises that has something to do for each sidecar.
pub const CAPABILITIES: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,PUBLISH_UNPUBLISH_VOLUME,\
    PUBLISH_READONLY,EXPAND_VOLUME,MODIFY_VOLUME";

/// A sidecar, and the call that says that it works.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Name of the program.
    pub name: &'static str,
    /// Which of them.
    pub role: Role,
    /// The call it makes for an object that waits.
    pub rpc: &'static str,
}

/// All of them.
pub const JOBS: [Job; 3] = [
    Job { name: "csi-provisioner", role: Role::Provisioner, rpc: "CreateVolume" },
    Job { name: "csi-attacher", role: Role::Attacher, rpc: "ControllerPublishVolume" },
    Job { name: "csi-resizer", role: Role::Resizer, rpc: "ControllerExpandVolume" },
];

/// The cluster and the accounts of the sidecars. Nothing but them works in it.
pub struct Scene {
    client: Client,
    namespace: String,
    provisioner: Account,
    attacher: Account,
    resizer: Account,
    _cluster: Cluster,
}

impl Scene {
    /// Without any volume.
    ///
    /// # Errors
    /// When the cluster does not start.
    pub async fn start() -> Result<Self> {
        let mut cluster = Cluster::start().await?;
        let namespace = cluster.namespace("bench").await?;
        let provisioner = cluster.upstream_provisioner_account(&namespace).await?;
        let attacher = cluster.upstream_attacher_account(&namespace).await?;
        let resizer = cluster.upstream_resizer_account(&namespace).await?;
        // Nothing but the sidecar is to work while it is measured.
        cluster.controller_manager().stop().await?;
        Ok(Self { client: cluster.client().await?, namespace, provisioner, attacher, resizer, _cluster: cluster })
    }

    /// Starts a driver that has something to do for each sidecar, with its class.
    ///
    /// # Errors
    /// When it does not start, or the API server refuses the class.
    pub async fn driver(&self, name: &str) -> Result<Driver> {
        let driver = Driver::start(name, &[CAPABILITIES]).await?;
        population::create_class(&self.client, driver.name()).await?;
        Ok(driver)
    }

    /// Creates so many claims, volumes and attachments of a driver, and pods that use claims, and tells how long it took.
    ///
    /// # Errors
    /// When the API server refuses one.
    pub async fn load(&self, driver: &Driver, volumes: usize, pods: usize) -> Result<Duration> {
        let started = Instant::now();
        let population =
            Population { namespace: self.namespace.clone(), driver: driver.name().to_owned(), count: volumes };
        population.create(&self.client).await?;
        population.mark_attached(&self.client).await?;
        population.mark_bound(&self.client).await?;
        population.create_pods(&self.client, &self.resizer.name, pods).await?;
        Ok(started.elapsed())
    }

    /// What a sidecar authenticates as.
    pub fn account(&self, role: Role) -> &Account {
        match role {
            Role::Provisioner => &self.provisioner,
            Role::Attacher => &self.attacher,
            Role::Resizer => &self.resizer,
        }
    }

    /// Creates an object of a driver that waits for a sidecar.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn create_waiting(&self, role: Role, name: &str, driver: &Driver) -> Result<()> {
        let (client, namespace, driver) = (&self.client, &self.namespace, driver.name());
        match role {
            Role::Provisioner => population::create_waiting_claim(client, namespace, name, driver).await,
            Role::Attacher => population::create_waiting_attachment(client, name, driver).await,
            Role::Resizer => population::create_growing_claim(client, namespace, name, driver).await,
        }
    }
}
