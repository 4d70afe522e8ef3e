//! Everything around one driver on a real node: cluster, node, driver, registrar, provisioner, attacher, class; and a resizer
//! where it is asked for.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use e2e::{Pod, Site};
//! # use serde_json::json;
//! let Some(site) = Site::start("whole-way", &[]).await? else { return Ok(()) }; // no node on this machine: says why
//! site.claim("data", &json!({})).await?;
//! let pod = Pod::new("writer").claim("data", "/data").runs(&["write", "/data/file", "text"]);
//! pod.create(&site.client, &site.namespace).await?.succeeded().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Site::start`] uses the cluster and the node that the tests of one process share; names are its own. Tests that stop or
//! reboot their node take [`Site::start_alone`].

use std::{
    collections::BTreeSet,
    ops::Deref,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, VolumeAttachment};
use kube::{
    Api,
    api::{ListParams, PostParams},
};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::{
    Cluster, Node, Sidecar,
    binary::bin,
    eventually::eventually,
    pod::Created,
    process::{self, Process, Program},
    scene::{PATIENCE, Scene},
    sidecar::{Role, Settings},
};

/// Name of the node of every site.
pub const NODE: &str = "node-1";
/// What local-driver serves here unless told otherwise: all of an attachable driver.
pub const CAPABILITIES: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,LIST_VOLUMES,GET_VOLUME,\
    PUBLISH_UNPUBLISH_VOLUME,LIST_VOLUMES_PUBLISHED_NODES,PUBLISH_READONLY,STAGE_UNSTAGE_VOLUME";

/// The same with volumes that grow, by both services, and that can be modified.
pub const GROWING: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,LIST_VOLUMES,GET_VOLUME,\
    PUBLISH_UNPUBLISH_VOLUME,LIST_VOLUMES_PUBLISHED_NODES,PUBLISH_READONLY,STAGE_UNSTAGE_VOLUME,EXPAND_VOLUME,\
    NODE_EXPAND_VOLUME,MODIFY_VOLUME";

/// What our registrar writes when the kubelet says so.
pub const REGISTERED: &str = "Kubelet has registered the driver";

static SHARED: OnceCell<Place> = OnceCell::const_new();

/// A cluster with its node.
#[derive(Debug)]
pub struct Place {
    // The node is ended before its cluster.
    /// Its one node.
    pub node: Node,
    /// The control plane.
    pub cluster: Cluster,
}

impl Place {
    /// Starts both.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn start() -> Result<Self> {
        let cluster = Cluster::start_for_nodes().await?;
        let node = Node::start(&cluster, NODE).await?;
        Ok(Self { node, cluster })
    }

    /// The one that the tests of this process share; they leave its node alone.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn shared() -> Result<&'static Self> {
        SHARED.get_or_try_init(Self::start).await
    }
}

enum Owned {
    Shared(&'static Place),
    Alone(Box<Place>),
}

/// What one test works with; a [`Scene`] on a node.
pub struct Site {
    // In the order in which they are ended.
    resizer: Option<Sidecar>,
    attacher: Option<Sidecar>,
    provisioner: Option<Sidecar>,
    registrar: Option<Process>,
    /// How often earlier registrars with the same log have registered.
    registered_before: usize,
    /// Driver, class, namespace and client.
    pub scene: Scene,
    place: Owned,
}

impl Deref for Site {
    type Target = Scene;

    fn deref(&self) -> &Scene {
        &self.scene
    }
}

impl Site {
    /// All of it, on the shared node, with further flags for the driver, which has [`CAPABILITIES`] unless they say
    /// otherwise. Registered and ready for claims and pods. `None` where this machine can have no node, with the reason on
    /// the terminal.
    ///
    /// # Errors
    /// When something does not start.
    pub async fn start(purpose: &str, driver_flags: &[&str]) -> Result<Option<Self>> {
        if !possible() {
            return Ok(None);
        }
        Self::on(Owned::Shared(Place::shared().await?), purpose, driver_flags).await.map(Some)
    }

    /// The same with a cluster and a node of its own.
    ///
    /// # Errors
    /// When something does not start.
    pub async fn start_alone(purpose: &str, driver_flags: &[&str]) -> Result<Option<Self>> {
        if !possible() {
            return Ok(None);
        }
        Self::start_in(Place::start().await?, purpose, driver_flags).await.map(Some)
    }

    /// The same on a node that runs.
    ///
    /// # Errors
    /// When something does not start.
    pub async fn start_in(place: Place, purpose: &str, driver_flags: &[&str]) -> Result<Self> {
        Self::on(Owned::Alone(Box::new(place)), purpose, driver_flags).await
    }

    async fn on(place: Owned, purpose: &str, driver_flags: &[&str]) -> Result<Self> {
        let Place { node, cluster } = place.place();
        let node_id = format!("--node-id={}", node.name());
        let is_set = |flag: &&str| driver_flags.iter().any(|set| set.split('=').next() == flag.split('=').next());
        let mut flags: Vec<_> = [CAPABILITIES, &node_id].into_iter().filter(|flag| !is_set(flag)).collect();
        flags.extend(driver_flags);
        let scene = Scene::start_on(cluster, node, purpose, &flags).await?;
        let mut site = Self {
            resizer: None,
            attacher: None,
            provisioner: None,
            registrar: None,
            registered_before: 0,
            scene,
            place,
        };
        site.create_csi_driver(&json!({})).await?;
        site.start_registrar()?;
        site.start_provisioner().await?;
        site.start_attacher().await?;
        site.registered().await?;
        Ok(site)
    }

    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.place.place().cluster
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.place.place().node
    }

    /// The node and its cluster, to be stopped and started.
    ///
    /// # Errors
    /// When they are shared with other tests.
    pub fn place_alone(&mut self) -> Result<&mut Place> {
        match &mut self.place {
            Owned::Alone(place) => Ok(place),
            Owned::Shared(_) => anyhow::bail!("this node is shared: use Site::start_alone"),
        }
    }

    /// The node and everything on it lose power and come up again: containers, kubelet, driver and registrar are killed,
    /// mounts are gone, sockets stay. Returns when the driver is registered again. The sidecars in the control plane go on.
    ///
    /// # Errors
    /// When something does not come up again.
    pub async fn reboot(&mut self) -> Result<()> {
        self.place_alone()?;
        self.kill_registrar().await?;
        self.scene.driver.kill().await?;
        let node = &mut self.place_alone()?.node;
        node.power_off().await?;
        node.power_on().await?;
        self.scene.driver.start_again().await?;
        self.start_registrar()?;
        self.registered().await
    }

    /// Replaces the driver's CSIDriver object by one with these fields in its spec.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn create_csi_driver(&self, fields: &Value) -> Result<()> {
        let drivers: Api<CSIDriver> = Api::all(self.client.clone());
        drop(drivers.delete(self.driver.name(), &kube::api::DeleteParams::default()).await);
        let mut spec = json!({ "attachRequired": true, "podInfoOnMount": true,
            "volumeLifecycleModes": ["Persistent", "Ephemeral"] });
        for (key, value) in fields.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let driver = json!({ "metadata": { "name": self.driver.name() }, "spec": spec });
        drivers.create(&PostParams::default(), &serde_json::from_value(driver)?).await?;
        Ok(())
    }

    /// Starts the registrar on the node, with the flags of a usual manifest. Does nothing when it runs.
    ///
    /// # Errors
    /// When it is not built.
    pub fn start_registrar(&mut self) -> Result<()> {
        if self.registrar.is_some() {
            return Ok(());
        }
        let program = self.registrar_program("csi-node-driver-registrar", self.driver.socket())?;
        let log = std::fs::read_to_string(&program.log).unwrap_or_default();
        self.registered_before = log.matches(REGISTERED).count();
        self.registrar = Some(program.start()?);
        Ok(())
    }

    /// A registrar of this driver, with a log of that name, that tells the kubelet this path of the driver's socket.
    ///
    /// # Errors
    /// When it is not built.
    pub fn registrar_program(&self, name: &str, endpoint: &Path) -> Result<Program> {
        let (node, executable) = (self.node(), bin("csi-node-driver-registrar")?);
        let program = Program::new(name, executable, self.driver.directory())
            .argument(format!("--csi-address={}", self.driver.socket().display()))
            .argument(format!("--kubelet-registration-path={}", endpoint.display()))
            .argument(format!("--plugin-registration-path={}", node.places().plugins_registry().display()))
            .argument("--v=5")
            .in_mounts(node.mounts());
        Ok(program)
    }

    /// Where the registrar introduces the driver to the kubelet.
    pub fn registration_socket(&self) -> PathBuf {
        self.node().places().plugins_registry().join(format!("{}-reg.sock", self.driver.name()))
    }

    /// Starts the provisioner with its upstream rights, and waits until it works. Does nothing when it runs.
    ///
    /// # Errors
    /// When it does not work in time.
    pub async fn start_provisioner(&mut self) -> Result<()> {
        if self.provisioner.is_none() {
            self.provisioner = Some(self.scene.leader().await?);
        }
        Ok(())
    }

    /// Starts the attacher with its upstream rights, and waits until it works. Does nothing when it runs.
    ///
    /// # Errors
    /// When it does not work in time.
    pub async fn start_attacher(&mut self) -> Result<()> {
        self.start_attacher_with(&[]).await
    }

    /// The same with further flags.
    ///
    /// # Errors
    /// When it does not work in time.
    pub async fn start_attacher_with(&mut self, flags: &[&str]) -> Result<()> {
        if self.attacher.is_some() {
            return Ok(());
        }
        let account = self.cluster().upstream_attacher_account(&self.namespace).await?;
        let settings = Settings::new(Role::Attacher, &account.kubeconfig, &self.driver.address())?;
        let namespace = format!("--leader-election-namespace={}", self.namespace);
        let settings = settings.flag("--leader-election").flag(&namespace);
        let attacher = self.attacher.insert(flags.iter().fold(settings, |settings, flag| settings.flag(flag)).start()?);
        attacher.process().logged("work starts", PATIENCE).await
    }

    /// Starts a resizer with its upstream rights, and waits until it works. Does nothing when it runs. Only tests that need
    /// one have it.
    ///
    /// # Errors
    /// When it does not work in time.
    pub async fn start_resizer(&mut self) -> Result<()> {
        self.start_resizer_with(&[]).await
    }

    /// The same with further flags.
    ///
    /// # Errors
    /// When it does not work in time.
    pub async fn start_resizer_with(&mut self, flags: &[&str]) -> Result<()> {
        if self.resizer.is_some() {
            return Ok(());
        }
        let account = self.cluster().upstream_resizer_account(&self.namespace).await?;
        let settings = Settings::new(Role::Resizer, &account.kubeconfig, &self.driver.address())?;
        let namespace = format!("--leader-election-namespace={}", self.namespace);
        let settings = settings.flag("--leader-election").flag(&namespace);
        let resizer = self.resizer.insert(flags.iter().fold(settings, |settings, flag| settings.flag(flag)).start()?);
        resizer.process().logged("work starts", PATIENCE).await
    }

    /// The resizer, when it runs.
    pub fn resizer(&mut self) -> Option<&mut Sidecar> {
        self.resizer.as_mut()
    }

    /// Kills the resizer.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn kill_resizer(&mut self) -> Result<()> {
        match self.resizer.take() {
            Some(mut resizer) => resizer.process().kill().await,
            None => Ok(()),
        }
    }

    /// The attacher, when it runs.
    pub fn attacher(&mut self) -> Option<&mut Sidecar> {
        self.attacher.as_mut()
    }

    /// The provisioner, when it runs.
    pub fn provisioner(&mut self) -> Option<&mut Sidecar> {
        self.provisioner.as_mut()
    }

    /// The registrar, when it runs.
    pub fn registrar(&mut self) -> Option<&mut Process> {
        self.registrar.as_mut()
    }

    /// Ends the attacher in good order.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn stop_attacher(&mut self) -> Result<()> {
        match self.attacher.take() {
            Some(mut attacher) => attacher.process().stop().await.map(drop),
            None => Ok(()),
        }
    }

    /// Kills the attacher.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn kill_attacher(&mut self) -> Result<()> {
        match self.attacher.take() {
            Some(mut attacher) => attacher.process().kill().await,
            None => Ok(()),
        }
    }

    /// Kills the registrar; its socket stays.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn kill_registrar(&mut self) -> Result<()> {
        process::kill(&mut self.registrar).await
    }

    /// Ends the registrar in good order.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn stop_registrar(&mut self) -> Result<()> {
        process::stop(&mut self.registrar).await
    }

    /// How often the running registrar has registered the driver.
    pub fn registrations(&self) -> usize {
        let log = self.registrar.as_ref().map(Process::log).unwrap_or_default();
        log.matches(REGISTERED).count().saturating_sub(self.registered_before)
    }

    /// Waits until the running registrar has registered the driver, and the kubelet has it in the node's CSINode.
    ///
    /// # Errors
    /// After a minute, with the log of the registrar.
    pub async fn registered(&self) -> Result<()> {
        self.registered_times(1).await
    }

    /// The same when it has done so at least that often.
    ///
    /// # Errors
    /// As [`registered`](Self::registered).
    pub async fn registered_times(&self, times: usize) -> Result<()> {
        let nodes: Api<CSINode> = Api::all(self.client.clone());
        let registered = eventually("the driver to be registered", PATIENCE, async || {
            let drivers = nodes.get(self.node().name()).await?.spec.drivers;
            let listed = drivers.iter().any(|driver| driver.name == self.driver.name());
            Ok((listed && self.registrations() >= times).then_some(()))
        });
        registered.await.with_context(|| self.registrar.as_ref().map(Process::tail).unwrap_or_default())
    }

    /// The attachments of one volume (by the name of its PersistentVolume).
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn attachments(&self, volume: &str) -> Result<Vec<VolumeAttachment>> {
        let attachments: Api<VolumeAttachment> = Api::all(self.client.clone());
        let all = attachments.list(&ListParams::default()).await?.items.into_iter();
        let of_volume =
            |attachment: &VolumeAttachment| attachment.spec.source.persistent_volume_name.as_deref() == Some(volume);
        Ok(all.filter(of_volume).collect())
    }

    /// Waits until the volume is attached nowhere.
    ///
    /// # Errors
    /// After `bound`.
    pub async fn detached(&self, volume: &str, bound: Duration) -> Result<()> {
        let what = format!("{volume} to be detached");
        eventually(&what, bound, async || Ok(self.attachments(volume).await?.is_empty().then_some(()))).await
    }

    /// Waits until the driver has no volume mounted on the node, and has answered the call for the last.
    ///
    /// # Errors
    /// After a minute, with the mounts.
    pub async fn unmounted(&self) -> Result<()> {
        let unmounted = eventually("the volumes to be unmounted", PATIENCE, async || {
            // A kubelet that was restarted publishes again, so calls do not come in pairs.
            let published = self.targets("NodePublishVolume")?;
            let unpublished = self.targets("NodeUnpublishVolume")?;
            Ok((self.volume_mounts()?.is_empty() && published.is_subset(&unpublished)).then_some(()))
        });
        unmounted.await.with_context(|| format!("{:#?}", self.volume_mounts()))
    }

    /// Bytes of the file system of a volume as a pod that runs has it: what `df` tells in the pod. Asked from outside, since the
    /// standard library, which is all the pod's program has, does not tell.
    ///
    /// # Errors
    /// When the volume (by the name of its PersistentVolume) is not mounted for the pod.
    pub fn file_system_size(&self, pod: &Created, volume: &str) -> Result<u64> {
        let mounts = self.node().mounts().mounts()?;
        let end = format!("/pods/{}/volumes/kubernetes.io~csi/{volume}/mount", pod.uid());
        let points = mounts.iter().filter_map(|line| line.split(' ').nth(4));
        let point = points.into_iter().find(|point| point.ends_with(&end)).context("the pod has no such mount")?;
        let found = rustix::fs::statvfs(self.node().mounts().seen_from_here(Path::new(point))?)?;
        Ok(found.f_blocks * found.f_frsize)
    }

    /// The target paths of the calls of an RPC that succeeded.
    fn targets(&self, rpc: &str) -> Result<BTreeSet<String>> {
        let succeeded = self.driver.calls(rpc)?.into_iter().filter(|call| call.code == "OK");
        Ok(succeeded.map(|call| call.request["target_path"].to_string()).collect())
    }

    /// The mounts of the driver's volumes that the node sees, from its directory; block volumes come from `/dev`.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn volume_mounts(&self) -> Result<Vec<String>> {
        let state = self.driver.state_directory().to_string_lossy().into_owned();
        let mounts = self.node().mounts().mounts()?.into_iter();
        Ok(mounts.filter(|line| line.contains(&state)).collect())
    }
}

impl Owned {
    fn place(&self) -> &Place {
        match self {
            Self::Shared(place) => place,
            Self::Alone(place) => place,
        }
    }
}

/// Says why not.
pub fn possible() -> bool {
    match Node::possible() {
        Ok(()) => true,
        Err(reason) => {
            crate::say(&format!("skipped, no node on this machine: {reason:#}"));
            false
        }
    }
}
