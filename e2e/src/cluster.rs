//! A Kubernetes control plane as processes: etcd, kube-apiserver, kube-controller-manager, and for clusters with nodes
//! kube-scheduler.

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::{audit, kubeconfig, ports::Port, programs::Upstream, sidecar::Role};

mod account;
mod certificates;
mod component;
mod control_plane;
mod custom_resources;
mod documents;
mod rbac;
mod store;

pub(crate) use crate::cluster::certificates::Identity;
pub use crate::cluster::{account::Account, component::Component, rbac::OptionalRule, store::Backup};

/// How often a start is tried again with other ports when a program outside the harness has taken one.
const ATTEMPTS: usize = 3;
const PORT_TAKEN: &str = "address already in use";

static SHARED: OnceCell<Cluster> = OnceCell::const_new();
static SHARED_AUDITED: OnceCell<Cluster> = OnceCell::const_new();
static NAMESPACES: AtomicU32 = AtomicU32::new(0);

/// A running control plane. Dropping it ends its processes and removes its directory.
#[derive(Debug)]
pub struct Cluster {
    // In the order in which they are ended: clients first.
    scheduler: Option<Component>,
    controller_manager: Component,
    apiserver: Component,
    etcd: Component,
    files: Files,
    address: String,
    directory: TempDir,
    /// Of etcd, of etcd for other members, of the API server.
    ports: [Port; 3],
}

/// What a control plane has beyond the least.
#[derive(Clone, Copy, Debug, Default)]
struct Extras {
    /// The API server writes down the requests of service accounts, with the bodies of writes.
    audit: bool,
    /// Scheduler, controllers and rights that pods on nodes need.
    nodes: bool,
    /// The store does not say how far a watch has come.
    without_progress: bool,
}

/// Files of the cluster that its clients need.
#[derive(Debug)]
struct Files {
    authority: certificates::Authority,
    admin: PathBuf,
}

impl Cluster {
    /// Starts one and waits until its API server is ready.
    ///
    /// # Errors
    /// When a program cannot be built or started, or is not ready in time; the message ends with the tail of its log.
    pub async fn start() -> Result<Self> {
        Self::attempt(Extras::default()).await
    }

    /// Starts one that can have a [`Node`](crate::Node): with a scheduler, and the controllers that look after nodes, pods
    /// and attachments. Its API server writes down what service accounts ask of it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_for_nodes() -> Result<Self> {
        Self::attempt(Extras { nodes: true, audit: true, ..Extras::default() }).await
    }

    /// One whose API server writes down what service accounts ask of it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with_audit() -> Result<Self> {
        Self::attempt(Extras { audit: true, ..Extras::default() }).await
    }

    /// One with an etcd that is older than what an API server needs to stream lists.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with_old_etcd() -> Result<Self> {
        Self::attempt(Extras { without_progress: true, ..Extras::default() }).await
    }

    async fn attempt(extras: Extras) -> Result<Self> {
        let mut attempt = 1;
        loop {
            match control_plane::start(extras).await {
                Err(error) if attempt < ATTEMPTS && format!("{error:#}").contains(PORT_TAKEN) => attempt += 1,
                started => return started,
            }
        }
    }

    /// The one cluster that the tests of this process share: for those that leave its components alone and keep to
    /// a [`namespace`](Self::namespace) of their own. It ends with the process.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn shared() -> Result<&'static Self> {
        SHARED.get_or_try_init(Self::start).await
    }

    /// Another shared one, whose API server writes down what service accounts ask of it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn shared_with_audit() -> Result<&'static Self> {
        SHARED_AUDITED.get_or_try_init(Self::start_with_audit).await
    }

    /// The requests answered so far for service accounts, in the order in which they were answered.
    ///
    /// # Errors
    /// When this cluster keeps no audit log, or it cannot be read.
    pub fn audit(&self) -> Result<Vec<audit::Request>> {
        audit::read(&control_plane::audit_log(self.directory.path()))
    }

    /// A new client with all rights. Clients belong to the runtime that made them, so each test takes its own.
    ///
    /// # Errors
    /// When the kubeconfig has gone.
    pub async fn client(&self) -> Result<kube::Client> {
        kubeconfig::client(&self.files.admin).await
    }

    /// The administrator's kubeconfig.
    pub fn admin_kubeconfig(&self) -> &Path {
        &self.files.admin
    }

    /// `127.0.0.1:PORT` of the API server.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Directory with the logs and keys of this cluster; removed with it.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The API server, to be stopped and started again.
    pub fn apiserver(&mut self) -> &mut Component {
        &mut self.apiserver
    }

    /// The store behind the API server.
    pub fn etcd(&mut self) -> &mut Component {
        &mut self.etcd
    }

    /// The controllers that bind claims to volumes.
    pub fn controller_manager(&mut self) -> &mut Component {
        &mut self.controller_manager
    }

    /// What decides which node a pod runs on.
    ///
    /// # Errors
    /// When this cluster was started without.
    pub fn scheduler(&mut self) -> Result<&mut Component> {
        self.scheduler.as_mut().context("this cluster has no scheduler: use start_for_nodes")
    }

    /// Credentials of the kubelet of a node, in files of a directory.
    pub(crate) fn node_identity(&self, name: &str, address: Ipv4Addr, directory: &Path) -> Result<Identity> {
        self.files.authority.node(name, address, directory)
    }

    /// File with the certificate of the authority that everything here trusts.
    pub(crate) fn authority(&self) -> &Path {
        &self.files.authority.file
    }

    /// Makes a namespace that no other test of this process uses, and gives its name.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn namespace(&self, purpose: &str) -> Result<String> {
        let name = format!("{purpose}-{}", NAMESPACES.fetch_add(1, Ordering::Relaxed));
        let metadata = ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let namespaces: Api<Namespace> = Api::all(self.client().await?);
        namespaces.create(&PostParams::default(), &namespace).await.context("cannot make a namespace")?;
        Ok(name)
    }

    /// The service account that the provisioner's upstream deployment files make in a namespace, with the rights they
    /// give it and no others.
    ///
    /// # Errors
    /// When the upstream module cannot be had or the API server refuses an object.
    pub async fn upstream_provisioner_account(&self, namespace: &str) -> Result<Account> {
        self.upstream_account(Role::Provisioner, namespace).await
    }

    /// The same for the attacher's.
    ///
    /// # Errors
    /// As [`upstream_provisioner_account`](Self::upstream_provisioner_account).
    pub async fn upstream_attacher_account(&self, namespace: &str) -> Result<Account> {
        self.upstream_account(Role::Attacher, namespace).await
    }

    /// The same for the resizer's.
    ///
    /// # Errors
    /// As [`upstream_provisioner_account`](Self::upstream_provisioner_account).
    pub async fn upstream_resizer_account(&self, namespace: &str) -> Result<Account> {
        self.upstream_account(Role::Resizer, namespace).await
    }

    async fn upstream_account(&self, role: Role, namespace: &str) -> Result<Account> {
        rbac::apply_upstream(&self.client().await?, role, namespace).await?;
        self.account(namespace, role.program()).await
    }

    /// Lets an account read secrets, as upstream's file says for drivers that need them: the rule is there, but a
    /// comment.
    ///
    /// # Errors
    /// As [`grant`](Self::grant).
    pub async fn grant_secrets(&self, account: &Account) -> Result<()> {
        self.grant(account, &[OptionalRule::Secrets]).await
    }

    /// Gives an account rules that it needs for some drivers or claims only, and waits until they are in force.
    ///
    /// # Errors
    /// When the API server refuses an object.
    pub async fn grant(&self, account: &Account, rules: &[OptionalRule]) -> Result<()> {
        rbac::grant(&self.client().await?, &account.namespace, &account.name, rules).await
    }

    /// Creates an object of any kind that is served, unless it exists.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn create(&self, object: &Value) -> Result<()> {
        documents::create(&self.client().await?, object).await
    }

    /// Makes the API server serve VolumeSnapshots with their contents and classes. Nothing looks after them: what is
    /// ready is made ready by hand. May be called again, also by tests that share the cluster.
    ///
    /// # Errors
    /// When the module cannot be had, or the definitions are refused or not served in time.
    pub async fn install_snapshot_crds(&self) -> Result<()> {
        let files = custom_resources::SNAPSHOTS;
        custom_resources::install(&self.client().await?, Upstream::Snapshots, files).await
    }

    /// Makes the API server serve ReferenceGrants. May be called again, also by tests that share the cluster.
    ///
    /// # Errors
    /// As [`install_snapshot_crds`](Self::install_snapshot_crds).
    pub async fn install_reference_grant_crd(&self) -> Result<()> {
        let files = custom_resources::REFERENCE_GRANTS;
        custom_resources::install(&self.client().await?, Upstream::GatewayApi, files).await
    }

    /// Credentials of a service account that exists.
    ///
    /// # Errors
    /// When it does not exist.
    pub async fn account(&self, namespace: &str, name: &str) -> Result<Account> {
        account::with_token(self, namespace, name).await
    }
}
