//! Pods of the test image, with volumes of every kind.
//!
//! ```no_run
//! # async fn example(client: kube::Client) -> anyhow::Result<()> {
//! use e2e::Pod;
//! let pod = Pod::new("writer").claim("data", "/data").runs(&["write", "/data/file", "text"]);
//! let writer = pod.create(&client, "default").await?;
//! writer.succeeded().await?;
//! writer.delete().await?; // gone
//! # Ok(())
//! # }
//! ```
//!
//! The steps that a pod can run are in `src/bin/pod-program.rs`.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{self, Event};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, LogParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    eventually::{self, eventually},
    image,
};

/// Bound of each wait. Pods start in about a second on an idle machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A pod to be created. Without steps it holds its volumes until it is deleted.
#[derive(Clone, Debug)]
pub struct Pod {
    name: String,
    steps: Vec<String>,
    spec: Value,
    volumes: Vec<Value>,
    mounts: Vec<Value>,
    devices: Vec<Value>,
}

impl Pod {
    /// One without volumes.
    pub fn new(name: &str) -> Self {
        let spec = json!({ "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "enableServiceLinks": false,
            "automountServiceAccountToken": false, "dnsPolicy": "Default",
            // What waits for a node that is gone does not get better by waiting.
            "tolerations": [{ "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0 }] });
        Self {
            name: name.to_owned(),
            steps: vec!["pause".to_owned()],
            spec,
            volumes: Vec::new(),
            mounts: Vec::new(),
            devices: Vec::new(),
        }
    }

    /// What it runs; `then` stands between steps.
    #[must_use]
    pub fn runs(mut self, steps: &[&str]) -> Self {
        self.steps = steps.iter().map(|step| (*step).to_owned()).collect();
        self
    }

    /// Mounts the volume of a claim.
    #[must_use]
    pub fn claim(self, claim: &str, path: &str) -> Self {
        self.volume(&json!({ "persistentVolumeClaim": { "claimName": claim } }), path)
    }

    /// Gives it the volume of a claim as a block device.
    #[must_use]
    pub fn block(mut self, claim: &str, path: &str) -> Self {
        let name = self.add_volume(&json!({ "persistentVolumeClaim": { "claimName": claim } }));
        self.devices.push(json!({ "name": name, "devicePath": path }));
        self
    }

    /// Mounts a volume that is made for this pod from a class, by a claim of its own (generic ephemeral).
    #[must_use]
    pub fn ephemeral(self, class: &str, size: &str, path: &str) -> Self {
        let claim = json!({ "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": { "requests": { "storage": size } } } });
        self.volume(&json!({ "ephemeral": { "volumeClaimTemplate": claim } }), path)
    }

    /// Mounts a volume that a driver makes when the pod starts (CSI inline).
    #[must_use]
    pub fn inline(self, driver: &str, attributes: &[(&str, &str)], path: &str) -> Self {
        let attributes: BTreeMap<_, _> = attributes.iter().copied().collect();
        self.volume(&json!({ "csi": { "driver": driver, "volumeAttributes": attributes } }), path)
    }

    /// Mounts any other volume: the object of `spec.volumes`, without its name.
    #[must_use]
    pub fn volume(mut self, source: &Value, path: &str) -> Self {
        let name = self.add_volume(source);
        self.mounts.push(json!({ "name": name, "mountPath": path }));
        self
    }

    /// Makes the mount that was added last read-only.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        if let Some(mount) = self.mounts.last_mut() {
            mount["readOnly"] = json!(true);
        }
        self
    }

    /// Lets it run on that node only; the scheduler still decides.
    #[must_use]
    pub fn on_node(self, node: &str) -> Self {
        self.field("nodeSelector", json!({ "kubernetes.io/hostname": node }))
    }

    /// Sets a field of `spec`.
    #[must_use]
    pub fn field(mut self, name: &str, value: Value) -> Self {
        self.spec[name] = value;
        self
    }

    /// Creates it.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn create(self, client: &Client, namespace: &str) -> Result<Created> {
        let mut spec = self.spec;
        spec["volumes"] = json!(self.volumes);
        spec["containers"] = json!([{ "name": "main", "image": image::NAME, "imagePullPolicy": "Never",
            "command": [image::PROGRAM], "args": self.steps, "volumeMounts": self.mounts,
            "volumeDevices": self.devices }]);
        let pod = json!({ "metadata": { "name": self.name }, "spec": spec });
        let api: Api<v1::Pod> = Api::namespaced(client.clone(), namespace);
        let created = api.create(&PostParams::default(), &serde_json::from_value(pod)?).await;
        let uid = created.context("cannot create the pod")?.uid().context("the pod has no UID")?;
        let events = Api::namespaced(client.clone(), namespace);
        Ok(Created { api, events, name: self.name, uid })
    }

    fn add_volume(&mut self, source: &Value) -> String {
        let name = format!("volume-{}", self.volumes.len());
        let mut volume = source.clone();
        volume["name"] = json!(name);
        self.volumes.push(volume);
        name
    }
}

/// A pod in the API server.
#[derive(Clone)]
pub struct Created {
    api: Api<v1::Pod>,
    events: Api<Event>,
    name: String,
    uid: String,
}

impl Created {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its UID, as the kubelet names its directory.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Waits until its container runs.
    ///
    /// # Errors
    /// After two minutes, or when it has failed; with its events.
    pub async fn running(&self) -> Result<()> {
        self.phase("Running").await
    }

    /// Waits until it has done all steps, and gives what they told.
    ///
    /// # Errors
    /// After two minutes, or when a step has failed; with its events.
    pub async fn succeeded(&self) -> Result<String> {
        self.phase("Succeeded").await?;
        self.message().await
    }

    /// Waits until a step of it has failed, and gives what its steps told.
    ///
    /// # Errors
    /// After two minutes, or when no step has; with its events.
    pub async fn failed(&self) -> Result<String> {
        self.phase("Failed").await?;
        self.message().await
    }

    /// Waits until its container runs again, for the so many-th time. Only one with `restartPolicy` Always or `OnFailure` does.
    ///
    /// # Errors
    /// After two minutes, with its events.
    pub async fn restarted(&self, times: i32) -> Result<()> {
        let what = format!("{} to run again", self.name);
        let runs = |pod: &v1::Pod| {
            let mut containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
            containers.next().is_some_and(|container| {
                container.restart_count >= times
                    && container.state.as_ref().is_some_and(|state| state.running.is_some())
            })
        };
        match eventually::object(&self.api, &self.name, &what, PATIENCE, runs).await {
            Ok(_) => Ok(()),
            Err(error) => Err(error.context(self.story().await)),
        }
    }

    /// Waits for a phase, or for the other end.
    async fn phase(&self, wanted: &str) -> Result<()> {
        let what = format!("the pod to be {wanted}");
        let phase = |pod: &v1::Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        let ends = |pod: &v1::Pod| [wanted, "Succeeded", "Failed"].contains(&&*phase(pod));
        let pod = match eventually::object(&self.api, &self.name, &what, PATIENCE, ends).await {
            Ok(pod) => pod,
            Err(error) => return Err(error.context(self.story().await)),
        };
        let reached = phase(&pod);
        ensure!(reached == wanted, "{} is {reached}, not {wanted}: {:#?}\n{}", self.name, pod, self.story().await);
        Ok(())
    }

    async fn message(&self) -> Result<String> {
        let pod = self.api.get(&self.name).await?;
        let mut states = pod.status.into_iter().flat_map(|status| status.container_statuses.into_iter().flatten());
        let ended = states.find_map(|container| container.state?.terminated);
        Ok(ended.and_then(|ended| ended.message).unwrap_or_default().trim_end().to_owned())
    }

    /// What it has written so far, from the kubelet.
    ///
    /// # Errors
    /// When the container has not started, or the kubelet does not answer.
    pub async fn log(&self) -> Result<String> {
        Ok(self.api.logs(&self.name, &LogParams::default()).await?)
    }

    /// Waits until a pod that runs on has told this. While it runs its volumes stay attached; one that has ended loses
    /// them at once.
    ///
    /// # Errors
    /// After two minutes, with its events.
    pub async fn told(&self, text: &str) -> Result<()> {
        self.running().await?;
        let what = format!("{} to tell {text:?}", self.name);
        let told = eventually(&what, PATIENCE, async || Ok((self.log().await?.trim_end() == text).then_some(())));
        match told.await {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.story().await)),
        }
    }

    /// Waits for an event about it with this reason and text.
    ///
    /// # Errors
    /// After two minutes, with the events there are.
    pub async fn event(&self, reason: &str, text: &str) -> Result<()> {
        let what = format!("an event {reason} that says {text:?}");
        let found = eventually(&what, PATIENCE, async || {
            let events = self.events().await?;
            Ok(events.iter().any(|(found, message)| found == reason && message.contains(text)).then_some(()))
        });
        match found.await {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.story().await)),
        }
    }

    /// Deletes it and waits until it is gone. Its volumes are unmounted then, unless it had ended: such a pod is gone at
    /// once, and the kubelet cleans up behind it.
    ///
    /// # Errors
    /// After two minutes.
    pub async fn delete(&self) -> Result<()> {
        self.start_deleting().await?;
        self.gone().await
    }

    /// Deletes it and does not wait.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn start_deleting(&self) -> Result<()> {
        self.api.delete(&self.name, &DeleteParams::default()).await.context("cannot delete the pod")?;
        Ok(())
    }

    /// Takes its object away at once, whatever still runs and is mounted.
    ///
    /// # Errors
    /// When the API server refuses.
    pub async fn force_delete(&self) -> Result<()> {
        self.api.delete(&self.name, &DeleteParams::default().grace_period(0)).await.context("cannot delete the pod")?;
        Ok(())
    }

    /// Waits until it is gone.
    ///
    /// # Errors
    /// After two minutes.
    pub async fn gone(&self) -> Result<()> {
        match eventually::gone(&self.api, &self.name, PATIENCE).await {
            Ok(()) => Ok(()),
            Err(error) => Err(error.context(self.story().await)),
        }
    }

    async fn events(&self) -> Result<Vec<(String, String)>> {
        let of_pod = ListParams::default().fields(&format!("involvedObject.uid={}", self.uid));
        let events = self.events.list(&of_pod).await?.items.into_iter();
        Ok(events.map(|event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default())).collect())
    }

    /// For messages.
    async fn story(&self) -> String {
        format!("events of {}: {:#?}", self.name, self.events().await.unwrap_or_default())
    }
}
