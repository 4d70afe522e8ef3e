//! A driver that grows and modifies volumes, and claims bound to its volumes, in a cluster without kubelets: what a provisioner
//! would make is made by hand, and what a kubelet would say of a file system is said by the test.

use std::fmt::Debug;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus, Pod};
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttributesClass};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::cluster::Account;
use crate::controller_calls::{Access, ControllerCalls};
use crate::driver::Call;
use crate::eventually::{self, eventually};
use crate::scene::PATIENCE;
use crate::sidecar::{Role, Settings};
use crate::{Cluster, Driver, Sidecar};

/// What a driver advertises that grows and modifies volumes, all by itself.
pub const RESIZES: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,EXPAND_VOLUME,MODIFY_VOLUME";
/// The same for one whose file systems are grown by the node.
pub const RESIZES_WITH_NODE: &str =
    "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,EXPAND_VOLUME,MODIFY_VOLUME,NODE_EXPAND_VOLUME";
/// Condition of a claim whose file system has to be grown by the node.
pub const FILE_SYSTEM_RESIZE_PENDING: &str = "FileSystemResizePending";
/// Conditions about growing.
const OF_RESIZING: [&str; 4] = ["Resizing", FILE_SYSTEM_RESIZE_PENDING, "ControllerResizeError", "NodeResizeError"];

/// What one test of resizing works with.
pub struct ResizeScene {
    /// With all rights.
    pub client: Client,
    /// Whose volumes grow.
    pub driver: Driver,
    /// Of the claims, the lease and the service account.
    pub namespace: String,
    /// What the resizers authenticate as.
    pub account: Account,
    /// The driver behind Kubernetes' back.
    pub calls: ControllerCalls,
}

/// What a claim and its volume have beyond the usual. In all of it `SITE` stands for the namespace and `HANDLE` for what the
/// driver calls the volume.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// Of the specs of both: access modes, volume mode, class of attributes.
    pub both: Value,
    /// Annotations of the claim.
    pub annotations: Value,
    /// Of the volume's spec.
    pub volume: Value,
    /// Of the volume's `spec.csi`.
    pub source: Value,
    /// Annotations of the volume.
    pub volume_annotations: Value,
}

impl ResizeScene {
    /// With a `local-driver` with these flags; it has [`RESIZES`] unless they say otherwise.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn start(cluster: &Cluster, purpose: &str, driver_flags: &[&str]) -> Result<Self> {
        let driver = crate::attach_scene::driver_name(purpose);
        Self::start_for(cluster, &driver, purpose, driver_flags).await
    }

    /// The same for a driver of that name.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn start_for(cluster: &Cluster, driver: &str, purpose: &str, driver_flags: &[&str]) -> Result<Self> {
        let own = driver_flags.iter().any(|flag| flag.starts_with("--capabilities"));
        let usual = (!own).then_some(RESIZES);
        let flags: Vec<_> = usual.into_iter().chain(driver_flags.iter().copied()).collect();
        let driver = Driver::start(driver, &flags).await?;
        let namespace = cluster.namespace(purpose).await?;
        let account = cluster.upstream_resizer_account(&namespace).await?;
        let calls = ControllerCalls::connect(&driver.address())?;
        let scene = Self { client: cluster.client().await?, driver, namespace, account, calls };
        let class = json!({ "metadata": { "name": scene.namespace }, "provisioner": scene.driver.name(),
            "allowVolumeExpansion": true });
        let classes: Api<StorageClass> = Api::all(scene.client.clone());
        let created = classes.create(&PostParams::default(), &serde_json::from_value(class)?).await;
        created.context("cannot create the class")?;
        Ok(scene)
    }

    /// A resizer of ours that competes for the lease; `Settings::start` starts it.
    ///
    /// # Errors
    /// When it is not built.
    pub fn replica(&self) -> Result<Settings> {
        Ok(self.competing(Settings::new(Role::Resizer, &self.account.kubeconfig, &self.driver.address())?))
    }

    /// Makes a resizer compete for the lease.
    #[must_use]
    pub fn competing(&self, settings: Settings) -> Settings {
        settings.flag("--leader-election").flag(&format!("--leader-election-namespace={}", self.namespace))
    }

    /// A resizer of ours that leads.
    ///
    /// # Errors
    /// When it does not lead in time, with the tail of its log.
    pub async fn leader(&self) -> Result<Sidecar> {
        crate::scene::leading(self.replica()?).await
    }

    /// Name of a cluster-wide object of this scene.
    pub fn name(&self, name: &str) -> String {
        format!("{name}.{}", self.namespace)
    }

    /// Makes a VolumeAttributesClass of this driver.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn add_attributes_class(&self, name: &str, parameters: &Value) -> Result<()> {
        self.add_attributes_class_of(self.driver.name(), name, parameters).await
    }

    /// Makes one of another driver.
    ///
    /// # Errors
    /// When the API server refuses it.
    pub async fn add_attributes_class_of(&self, driver: &str, name: &str, parameters: &Value) -> Result<()> {
        let class = json!({ "metadata": { "name": self.name(name) }, "driverName": driver, "parameters": parameters });
        let classes: Api<VolumeAttributesClass> = Api::all(self.client.clone());
        let created = classes.create(&PostParams::default(), &serde_json::from_value(class)?).await;
        created.with_context(|| format!("cannot create the attributes class {name}"))?;
        Ok(())
    }

    /// Makes a volume of 1 MiB at the driver, an object for it and a claim that is bound to it. Gives the handle.
    ///
    /// # Errors
    /// When driver or API server refuse, or the claim is not bound in time.
    pub async fn add_claim(&self, name: &str, fields: &Fields) -> Result<String> {
        let access = if fields.both["volumeMode"] == "Block" { Access::Block } else { Access::Mount };
        let handle = self.calls.create_volume(&self.name(name), access).await?;
        let at = |value: &Value| -> Result<Value> {
            Ok(serde_json::from_str(&value.to_string().replace("SITE", &self.namespace).replace("HANDLE", &handle))?)
        };
        let both = json!({ "accessModes": ["ReadWriteOnce"], "storageClassName": self.namespace });
        let mut volume = both.clone();
        let mut csi = json!({ "driver": self.driver.name(), "volumeHandle": handle });
        merge(&mut csi, &at(&fields.source)?);
        merge(
            &mut volume,
            &json!({ "capacity": { "storage": "1Mi" }, "persistentVolumeReclaimPolicy": "Retain", "csi": csi,
                "claimRef": { "namespace": self.namespace, "name": name } }),
        );
        let mut claim = both;
        merge(&mut claim, &json!({ "resources": { "requests": { "storage": "1Mi" } }, "volumeName": self.name(name) }));
        for spec in [&mut claim, &mut volume] {
            merge(spec, &at(&fields.both)?);
        }
        merge(&mut volume, &at(&fields.volume)?);
        let metadata = json!({ "name": self.name(name), "annotations": at(&fields.volume_annotations)? });
        let volume = serde_json::from_value(json!({ "metadata": metadata, "spec": volume }))?;
        let created = self.volumes().create(&PostParams::default(), &volume).await;
        created.with_context(|| format!("cannot create the volume {name}"))?;
        let metadata = json!({ "name": name, "annotations": at(&fields.annotations)? });
        let claim = serde_json::from_value(json!({ "metadata": metadata, "spec": claim }))?;
        let created = self.claims().create(&PostParams::default(), &claim).await;
        created.with_context(|| format!("cannot create the claim {name}"))?;
        self.status(name, "Bound", |status| status.phase.as_deref() == Some("Bound")).await?;
        let bound = |volume: &PersistentVolume| {
            volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
        };
        self.volume(name, "Bound", bound).await?;
        Ok(handle)
    }

    /// Lets a claim ask for another size.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn ask(&self, name: &str, size: &str) -> Result<()> {
        self.patch(name, &json!({ "spec": { "resources": { "requests": { "storage": size } } } })).await
    }

    /// Lets a claim ask for another class of attributes of this scene.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn ask_class(&self, name: &str, class: &str) -> Result<()> {
        self.patch(name, &json!({ "spec": { "volumeAttributesClassName": self.name(class) } })).await
    }

    /// Changes a claim as its user does.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn patch(&self, name: &str, change: &Value) -> Result<()> {
        let patched = self.claims().patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        patched.with_context(|| format!("cannot change the claim {name}"))?;
        Ok(())
    }

    /// Says what the kubelet says when it has grown the file system: the claim has what the volume has.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn file_system_has_grown(&self, name: &str) -> Result<()> {
        let volume = self.volumes().get(&self.name(name)).await?;
        let capacity = volume.spec.and_then(|spec| spec.capacity).context("a volume without capacity")?;
        let conditions: Vec<_> = OF_RESIZING.iter().map(|kind| json!({ "type": kind, "$patch": "delete" })).collect();
        let status = json!({ "capacity": capacity, "conditions": conditions,
            "allocatedResourceStatuses": { "storage": null } });
        let patch = Patch::Strategic(json!({ "status": status }));
        self.claims().patch_status(name, &PatchParams::default(), &patch).await.context("cannot say so")?;
        Ok(())
    }

    /// Makes a pod that uses a claim. It runs nowhere.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn add_pod(&self, name: &str, claim: &str) -> Result<()> {
        let spec = json!({
            // No controller makes the usual account here.
            "serviceAccountName": self.account.name, "automountServiceAccountToken": false,
            "containers": [{ "name": "main", "image": "none" }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }],
        });
        let pod = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec }))?;
        self.pods().create(&PostParams::default(), &pod).await.context("cannot create the pod")?;
        Ok(())
    }

    /// Takes the pod away.
    ///
    /// # Errors
    /// When it is not gone in time.
    pub async fn remove_pod(&self, name: &str) -> Result<()> {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.pods().delete(name, &now).await.context("cannot delete the pod")?;
        eventually::gone(&self.pods(), name, PATIENCE).await
    }

    /// Waits until the claim has that capacity, and nothing is left to do about its size.
    ///
    /// # Errors
    /// When it has not in time.
    pub async fn has(&self, name: &str, size: &str) -> Result<PersistentVolumeClaim> {
        let what = format!("of {size}, done");
        self.status(name, &what, |status| capacity(status) == Some(size) && resize_status(status).is_none()).await
    }

    /// Waits until the status of a claim is as `condition` wants it.
    ///
    /// # Errors
    /// When it is not in time.
    pub async fn status(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&PersistentVolumeClaimStatus) -> bool,
    ) -> Result<PersistentVolumeClaim> {
        let what = format!("{name} to be {what}");
        let is = |claim: &PersistentVolumeClaim| claim.status.as_ref().is_some_and(&condition);
        eventually::object(&self.claims(), name, &what, PATIENCE, is).await
    }

    /// Waits until the volume of a claim is as `condition` wants it.
    ///
    /// # Errors
    /// When it is not in time.
    pub async fn volume(
        &self,
        name: &str,
        what: &str,
        condition: impl Fn(&PersistentVolume) -> bool,
    ) -> Result<PersistentVolume> {
        let what = format!("the volume of {name} to be {what}");
        eventually::object(&self.volumes(), &self.name(name), &what, PATIENCE, condition).await
    }

    /// Waits for an event about a claim, with this reason and text in it.
    ///
    /// # Errors
    /// When there is none in time, with those there are.
    pub async fn event(&self, name: &str, reason: &str, text: &str) -> Result<()> {
        let what = format!("an event {reason} about {name} that says {text:?}");
        let mut seen = Vec::new();
        let found = eventually(&what, PATIENCE, async || {
            seen = self.events(name).await?;
            let is = |event: &Event| {
                event.reason.as_deref() == Some(reason) && event.message.as_deref().unwrap_or_default().contains(text)
            };
            Ok(seen.iter().any(is).then_some(()))
        });
        found.await.map_err(|error| error.context(format!("events: {}", told(&seen))))
    }

    /// The resizer's events about a claim.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn events(&self, name: &str) -> Result<Vec<Event>> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut all = events.list(&ListParams::default()).await?.items;
        let component = |event: &Event| event.source.as_ref().and_then(|source| source.component.clone());
        all.retain(|event| {
            event.involved_object.name.as_deref() == Some(name)
                && component(event).is_some_and(|component| component.starts_with("external-resizer"))
        });
        Ok(all)
    }

    /// The claims of the namespace.
    pub fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// All PersistentVolumes of the cluster.
    pub fn volumes(&self) -> Api<PersistentVolume> {
        Api::all(self.client.clone())
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
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
}

/// `status.capacity.storage`.
pub fn capacity(status: &PersistentVolumeClaimStatus) -> Option<&str> {
    Some(&status.capacity.as_ref()?.get("storage")?.0)
}

/// `status.allocatedResources.storage`.
pub fn allocated(status: &PersistentVolumeClaimStatus) -> Option<&str> {
    Some(&status.allocated_resources.as_ref()?.get("storage")?.0)
}

/// `status.allocatedResourceStatuses.storage`.
pub fn resize_status(status: &PersistentVolumeClaimStatus) -> Option<&str> {
    Some(status.allocated_resource_statuses.as_ref()?.get("storage")?)
}

/// Whether the status has a condition of that type.
pub fn has_condition(status: &PersistentVolumeClaimStatus, kind: &str) -> bool {
    status.conditions.iter().flatten().any(|condition| condition.type_ == kind)
}

fn told(events: &[impl Debug]) -> String {
    format!("{events:#?}")
}

fn merge(object: &mut Value, fields: &Value) {
    for (key, value) in fields.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
}
