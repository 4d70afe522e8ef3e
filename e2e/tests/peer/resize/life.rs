//! One scenario lived through: what is asked for, and how claim and volume look at the moments worth looking at.

use std::collections::BTreeMap;

use anyhow::Result;
use e2e::resize_scene::{FILE_SYSTEM_RESIZE_PENDING, Fields, ResizeScene, capacity, has_condition, resize_status};
use k8s_openapi::api::core::v1::{PersistentVolumeClaimStatus, Secret};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::scenarios::{Course, Scenario};

/// A claim that grows after one that must not: what was asked for before it has been looked at when it is done.
const FENCE: &str = "fence";

/// What is known of one scenario when it is over.
pub(super) struct Life<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) handle: String,
    /// Objects at the moments worth looking at.
    pub(super) seen: BTreeMap<&'static str, Value>,
}

/// What is there before the resizer starts. Gives what the driver calls the volume.
pub(super) async fn prepare(scene: &ResizeScene, scenario: &Scenario) -> Result<String> {
    if let Some(data) = &scenario.secret {
        let secrets: Api<Secret> = Api::namespaced(scene.client.clone(), &scene.namespace);
        let secret = json!({ "metadata": { "name": scenario.name }, "stringData": data });
        secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    }
    if scenario.course == Course::Foreign {
        scene.add_claim(FENCE, &Fields::default()).await?;
    }
    scene.add_claim(scenario.name, &scenario.fields).await
}

pub(super) async fn live<'a>(scene: &ResizeScene, scenario: &'a Scenario, handle: &str) -> Result<Life<'a>> {
    let mut life = Life { scenario, handle: handle.to_owned(), seen: BTreeMap::new() };
    let lived = Box::pin(life.live(scene)).await;
    lived.map_err(|error| error.context(format!("scenario {} at {}", scenario.name, scene.namespace)))?;
    Ok(life)
}

impl Life<'_> {
    async fn live(&mut self, scene: &ResizeScene) -> Result<()> {
        let name = self.scenario.name;
        match self.scenario.course {
            Course::Grows => self.grows(scene, "2Mi").await?,
            Course::GrowsTwice => {
                scene.ask(name, "2Mi").await?;
                scene.status(name, "waiting for the node", is_pending).await?;
                scene.event(name, "FileSystemResizeRequired", "").await?;
                scene.ask(name, "3Mi").await?;
                scene.file_system_has_grown(name).await?;
                scene.status(name, "waiting for the node again", is_pending).await?;
                self.see(scene, "pending").await?;
                scene.file_system_has_grown(name).await?;
                scene.has(name, "3Mi").await?;
            }
            Course::Refused => {
                scene.ask(name, "2Mi").await?;
                scene.status(name, "told why", is_refused).await?;
                scene.event(name, "VolumeResizeFailed", "").await?;
            }
            Course::Uncertain => {
                scene.ask(name, "2Mi").await?;
                scene.event(name, "VolumeResizeFailed", "").await?;
            }
            Course::Lowered => {
                scene.ask(name, "8Mi").await?;
                scene.status(name, "told why", is_refused).await?;
                scene.event(name, "VolumeResizeFailed", "").await?;
                self.see(scene, "refused").await?;
                self.grows(scene, "2Mi").await?;
            }
            Course::AfterPod => {
                scene.add_pod(name, name).await?;
                scene.ask(name, "2Mi").await?;
                scene.event(name, "VolumeResizeFailed", "only supports offline expansion").await?;
                self.see(scene, "in use").await?;
                scene.remove_pod(name).await?;
                self.grown(scene, "2Mi").await?;
            }
            Course::Has(size) => {
                scene.ask(name, "2Mi").await?;
                self.grown(scene, size).await?;
            }
            Course::Foreign => {
                scene.ask(name, "2Mi").await?;
                scene.ask(FENCE, "2Mi").await?;
                node_or_done(scene, FENCE, "2Mi").await?;
            }
            Course::Changes => self.changes(scene, "gold").await?,
            Course::ClassMissing => self.refused_then_back(scene, "none", "Pending").await?,
            Course::ClassInfeasible => self.refused_then_back(scene, "unknown", "Infeasible").await?,
        }
        self.see(scene, "in the end").await
    }

    async fn grows(&mut self, scene: &ResizeScene, size: &str) -> Result<()> {
        scene.ask(self.scenario.name, size).await?;
        self.grown(scene, size).await
    }

    /// Waits until it has grown, with what the node does, and until the resizer has told so.
    async fn grown(&mut self, scene: &ResizeScene, size: &str) -> Result<()> {
        let name = self.scenario.name;
        if node_or_done(scene, name, size).await? {
            scene.event(name, "FileSystemResizeRequired", "").await?;
            self.see(scene, "pending").await?;
            scene.file_system_has_grown(name).await?;
            scene.has(name, size).await?;
            return Ok(());
        }
        scene.event(name, "VolumeResizeSuccessful", "").await
    }

    async fn changes(&mut self, scene: &ResizeScene, class: &str) -> Result<()> {
        scene.ask_class(self.scenario.name, class).await?;
        self.changed(scene, class).await
    }

    async fn changed(&mut self, scene: &ResizeScene, class: &str) -> Result<()> {
        let (name, wanted) = (self.scenario.name, scene.name(class));
        let is = |status: &PersistentVolumeClaimStatus| {
            let current = status.current_volume_attributes_class_name.as_deref();
            status.modify_volume_status.is_none() && current == Some(&wanted)
        };
        scene.status(name, "of its class", is).await?;
        scene.event(name, "VolumeModifySuccessful", &wanted).await
    }

    async fn refused_then_back(&mut self, scene: &ResizeScene, class: &str, status: &str) -> Result<()> {
        let name = self.scenario.name;
        scene.ask_class(name, class).await?;
        let told = |found: &PersistentVolumeClaimStatus| {
            found.modify_volume_status.as_ref().is_some_and(|modify| modify.status == status)
        };
        scene.status(name, status, told).await?;
        scene.event(name, "VolumeModifyFailed", "").await?;
        self.see(scene, "refused").await?;
        self.changes(scene, "silver").await
    }

    async fn see(&mut self, scene: &ResizeScene, what: &'static str) -> Result<()> {
        let name = self.scenario.name;
        let claim = json!(scene.claims().get(name).await?);
        let volume = json!(scene.volumes().get(&scene.name(name)).await?);
        self.seen.insert(what, json!({ "claim": plain(claim), "volume": plain(volume) }));
        Ok(())
    }

    /// Whether that is the name of its claim, volume or Secret.
    pub(super) fn is(&self, scene: &ResizeScene, name: &str) -> bool {
        name == self.scenario.name || name == scene.name(self.scenario.name)
    }
}

/// Waits until the resizer has done its part; whether the node is to do the rest.
async fn node_or_done(scene: &ResizeScene, name: &str, size: &str) -> Result<bool> {
    let done = |status: &PersistentVolumeClaimStatus| capacity(status) == Some(size) && resize_status(status).is_none();
    let claim = scene.status(name, "grown", |status| done(status) || is_pending(status)).await?;
    Ok(claim.status.is_some_and(|status| is_pending(&status)))
}

fn is_pending(status: &PersistentVolumeClaimStatus) -> bool {
    has_condition(status, FILE_SYSTEM_RESIZE_PENDING)
}

fn is_refused(status: &PersistentVolumeClaimStatus) -> bool {
    has_condition(status, "ControllerResizeError")
}

/// Without what is another in every run, or says who wrote it when; conditions by their type.
fn plain(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for counted in ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"] {
            metadata.remove(counted);
        }
    }
    if let Some(reference) = object.pointer_mut("/spec/claimRef").and_then(Value::as_object_mut) {
        reference.remove("resourceVersion");
        reference.remove("uid");
    }
    if let Some(conditions) = object.pointer_mut("/status/conditions") {
        let by_type = conditions.as_array().into_iter().flatten();
        let by_type: BTreeMap<_, _> = by_type
            .map(|condition| (condition["type"].as_str().unwrap_or_default().to_owned(), condition.clone()))
            .collect();
        *conditions = json!(by_type);
    }
    object
}
