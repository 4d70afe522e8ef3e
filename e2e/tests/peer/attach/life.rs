//! One scenario lived through: what is done, and how the objects look at the moments worth looking at.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Result;
use e2e::attach_scene::AttachScene;
use e2e::controller_calls::Access;
use e2e::eventually;
use k8s_openapi::api::core::v1::{PersistentVolume, Secret};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::scenarios::{Course, Missing, Scenario};
use crate::site::PATIENCE;

/// Keeps objects for the eyes of a scenario.
const FOREIGN: &str = "outrigger.dev/held";
/// An attachment that comes last: what was asked for before it is done when it has gone.
pub(super) const FENCE: &str = "fence";

/// What is known of one scenario when it is over.
pub(super) struct Life<'a> {
    pub(super) scenario: &'a Scenario,
    /// Empty where no volume was made at the driver.
    pub(super) handle: String,
    /// Objects at the moments worth looking at.
    pub(super) seen: BTreeMap<&'static str, Value>,
}

/// What is there before the attacher starts.
pub(super) async fn prepare(scene: &AttachScene, scenario: &Scenario) -> Result<()> {
    let name = scenario.name;
    match scenario.course {
        Course::Cured(Missing::Node) | Course::NodeLate => {}
        Course::Cured(Missing::DriverOnNode) => {
            let node = json!({ "metadata": { "name": scene.name(name) }, "spec": { "drivers": [] } });
            scene.nodes().create(&PostParams::default(), &serde_json::from_value(node)?).await?;
        }
        Course::TwoNodes => {
            scene.add_node(name, &node_id(name)).await?;
            scene.add_node(&second(name), &node_id(&second(name))).await?;
        }
        _ => scene.add_node(name, &node_id(name)).await?,
    }
    if let Some(data) = &scenario.secret {
        add_secret(scene, name, data).await?;
    }
    Ok(())
}

async fn add_secret(scene: &AttachScene, name: &str, data: &Value) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let secret = json!({ "metadata": { "name": name }, "stringData": data });
    secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    Ok(())
}

fn node_id(node: &str) -> String {
    format!("id-of-{node}")
}

pub(super) fn second(name: &str) -> String {
    format!("{name}-2")
}

pub(super) async fn live<'a>(scene: &AttachScene, scenario: &'a Scenario) -> Result<Life<'a>> {
    let mut life = Life { scenario, handle: String::new(), seen: BTreeMap::new() };
    let lived = Box::pin(life.live(scene)).await;
    lived.map_err(|error| error.context(format!("scenario {} at {}", scenario.name, scene.namespace)))?;
    Ok(life)
}

impl Life<'_> {
    async fn live(&mut self, scene: &AttachScene) -> Result<()> {
        let name = self.scenario.name;
        match self.scenario.course {
            Course::Inline => {
                self.handle = self.make_at_driver(scene).await?;
                let mut spec = scene.volume_spec(&self.handle, &self.source(scene));
                merge(&mut spec, &self.scenario.volume);
                let source = json!({ "source": { "inlineVolumeSpec": spec } });
                scene.add_attachment(name, name, &source).await?;
                self.attached(scene).await?;
                return Box::pin(self.end(scene)).await;
            }
            Course::Cured(Missing::Volume) => self.handle = self.make_at_driver(scene).await?,
            _ => self.add_volume(scene).await?,
        }
        Box::pin(self.run(scene)).await
    }

    /// The courses that begin with a volume.
    async fn run(&mut self, scene: &AttachScene) -> Result<()> {
        let name = self.scenario.name;
        match self.scenario.course {
            Course::Foreign => {
                let other = json!({ "attacher": "other.outrigger.dev", "source": self.volume_source(scene) });
                scene.add_attachment(name, name, &other).await?;
                fence(scene).await?;
            }
            Course::ForeignFinalizer => self.create_held_attachment(scene).await?,
            Course::VolumeDeleting => {
                self.patch_volume(scene, &json!({ "finalizers": [FOREIGN] })).await?;
                scene.volumes().delete(&scene.name(name), &DeleteParams::default()).await?;
                let held = |volume: &PersistentVolume| volume.finalizers() == [FOREIGN];
                eventually::object(&scene.volumes(), &scene.name(name), "held by us alone", PATIENCE, held).await?;
                scene.attach(name, name, name).await?;
            }
            Course::TwoNodes => {
                // At once, the Go attacher may put its finalizer on the volume twice.
                scene.attach(&second(name), name, &second(name)).await?;
                scene.attached(&second(name)).await?;
                scene.attach(name, name, name).await?;
            }
            _ => scene.attach(name, name, name).await?,
        }
        match self.scenario.course {
            Course::Refused | Course::VolumeDeleting => self.refused(scene).await?,
            Course::Foreign => {}
            Course::Cured(missing) => {
                self.refused(scene).await?;
                self.cure(scene, missing).await?;
                self.attached(scene).await?;
            }
            Course::NodeLate => {
                // As long as a driver may take to register on a new node; nothing is there to wait for.
                tokio::time::sleep(Duration::from_secs(1)).await;
                scene.add_node(name, &node_id(name)).await?;
                self.attached(scene).await?;
            }
            _ => self.attached(scene).await?,
        }
        self.meanwhile(scene).await?;
        Box::pin(self.end(scene)).await
    }

    /// What happens while it is attached.
    async fn meanwhile(&mut self, scene: &AttachScene) -> Result<()> {
        let name = self.scenario.name;
        if self.scenario.course.disturbs() {
            // The Go attacher may attach once more what it has just attached, and would find what is changed now: it has done that
            // first.
            fence(scene).await?;
        }
        match self.scenario.course {
            Course::VolumeFirst | Course::TwoNodes => {
                scene.volumes().delete(&scene.name(name), &DeleteParams::default()).await?;
                let ours = |volume: &PersistentVolume| volume.finalizers() == [scene.finalizer()];
                eventually::object(&scene.volumes(), &scene.name(name), "held by us alone", PATIENCE, ours).await?;
            }
            Course::NodeGone => scene.remove_node(name).await?,
            Course::NodeReturned => {
                scene.remove_node(name).await?;
                scene.add_node(name, "another-id").await?;
                // The informer has seen it when it has seen what comes after it.
                fence(scene).await?;
            }
            Course::Forced => {
                let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
                scene.attachments().patch(&scene.name(name), &PatchParams::default(), &patch).await?;
            }
            Course::Lost => {
                scene.calls.unpublish(&self.handle, &node_id(name)).await?;
                eventually("the volume to be published again", PATIENCE, async || {
                    Ok((!scene.published_to(&self.handle)?.is_empty()).then_some(()))
                })
                .await?;
                // The status patch comes after the call.
                let published = |calls: &[String]| calls.iter().filter(|call| call.contains("Publish")).count() > 1;
                eventually("both calls in the journal", PATIENCE, async || {
                    Ok(published(&scene.course_of(&self.handle)?).then_some(()))
                })
                .await?;
                fence(scene).await?;
            }
            Course::LostUnseen => scene.calls.unpublish(&self.handle, &node_id(name)).await?,
            _ => {}
        }
        self.see("published", json!(scene.published_to(&self.handle)?));
        Ok(())
    }

    async fn cure(&self, scene: &AttachScene, missing: Missing) -> Result<()> {
        let name = self.scenario.name;
        match missing {
            Missing::Volume => {
                scene.add_volume_object(name, &self.handle, &self.scenario.volume, &self.source(scene)).await?;
                self.available(scene).await
            }
            Missing::Node => scene.add_node(name, &node_id(name)).await,
            Missing::DriverOnNode => scene.register(name, &node_id(name)).await,
            Missing::Secret => add_secret(scene, name, &json!({ "password": "canary" })).await,
        }
    }

    /// Everything is deleted.
    async fn end(&mut self, scene: &AttachScene) -> Result<()> {
        let name = self.scenario.name;
        scene.detach(name).await?;
        if self.scenario.course == Course::ForeignFinalizer {
            let done = |attachment: &VolumeAttachment| {
                !scene.holds(attachment) && attachment.status.as_ref().is_some_and(|status| !status.attached)
            };
            let held = scene.attachment(name, "left alone", done).await?;
            self.see("detached", json!(held));
            let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
            scene.attachments().patch(&scene.name(name), &PatchParams::default(), &patch).await?;
        }
        scene.detached(name).await?;
        match self.scenario.course {
            Course::Inline => return Ok(()),
            Course::TwoNodes => {
                fence(scene).await?;
                let volume = scene.volumes().get(&scene.name(name)).await?;
                self.see("held for the other attachment", json!(scene.holds(&volume)));
                scene.detach(&second(name)).await?;
            }
            Course::VolumeFirst => {}
            Course::VolumeDeleting => {
                let volume = scene.volumes().get(&scene.name(name)).await?;
                self.see("volume", json!(volume));
                self.patch_volume(scene, &json!({ "finalizers": null })).await?;
            }
            _ => {
                let volume = scene.volumes().get(&scene.name(name)).await?;
                self.see("volume", json!(volume));
                scene.volumes().delete(&scene.name(name), &DeleteParams::default()).await?;
            }
        }
        eventually::gone(&scene.volumes(), &scene.name(name), PATIENCE).await
    }

    async fn add_volume(&mut self, scene: &AttachScene) -> Result<()> {
        let fields = &self.scenario.volume;
        self.handle = scene.add_volume(self.scenario.name, fields, &self.source(scene)).await?;
        self.available(scene).await
    }

    async fn available(&self, scene: &AttachScene) -> Result<()> {
        // Its phase is set by a controller, and would make a version of the object more or less.
        let settled = |volume: &PersistentVolume| {
            volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Available")
        };
        let name = scene.name(self.scenario.name);
        eventually::object(&scene.volumes(), &name, "Available", PATIENCE, settled).await?;
        Ok(())
    }

    async fn make_at_driver(&self, scene: &AttachScene) -> Result<String> {
        scene.calls.create_volume(&scene.name(self.scenario.name), Access::Mount).await
    }

    async fn create_held_attachment(&self, scene: &AttachScene) -> Result<()> {
        let name = scene.name(self.scenario.name);
        let metadata =
            json!({ "name": name, "finalizers": [FOREIGN], "annotations": { "outrigger.dev/note": "kept" } });
        let spec = json!({ "attacher": scene.driver.name(), "nodeName": name, "source": self.volume_source(scene) });
        let attachment = serde_json::from_value(json!({ "metadata": metadata, "spec": spec }))?;
        scene.attachments().create(&PostParams::default(), &attachment).await?;
        Ok(())
    }

    async fn patch_volume(&self, scene: &AttachScene, metadata: &Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        scene.volumes().patch(&scene.name(self.scenario.name), &PatchParams::default(), &patch).await?;
        Ok(())
    }

    async fn attached(&mut self, scene: &AttachScene) -> Result<()> {
        let attachment = scene.attached(self.scenario.name).await?;
        self.see("attached", json!(attachment));
        Ok(())
    }

    async fn refused(&mut self, scene: &AttachScene) -> Result<()> {
        let told = |attachment: &VolumeAttachment| {
            attachment.status.as_ref().is_some_and(|status| status.attach_error.is_some())
        };
        let attachment = scene.attachment(self.scenario.name, "told why", told).await?;
        self.see("refused", json!(attachment));
        Ok(())
    }

    fn see(&mut self, what: &'static str, object: Value) {
        self.seen.insert(what, by_manager(object));
    }

    fn source(&self, scene: &AttachScene) -> Value {
        let text = self.scenario.source.to_string().replace("SITE", &scene.namespace);
        serde_json::from_str(&text).unwrap_or_default()
    }

    fn volume_source(&self, scene: &AttachScene) -> Value {
        json!({ "persistentVolumeName": scene.name(self.scenario.name) })
    }

    /// Whether that is the name of one of its objects.
    pub(super) fn is(&self, scene: &AttachScene, name: &str) -> bool {
        let own = self.scenario.name;
        [scene.name(own), scene.name(&second(own)), own.to_owned()].iter().any(|candidate| candidate == name)
    }
}

/// A volume attached to a new node and detached by the attacher, which takes longer than what it has already begun and seen.
pub(super) async fn fence(scene: &AttachScene) -> Result<()> {
    static FENCES: AtomicU32 = AtomicU32::new(0);
    let name = format!("{FENCE}-{}", FENCES.fetch_add(1, Ordering::Relaxed));
    scene.add_node(&name, &name).await?;
    scene.attach(&name, FENCE, &name).await?;
    scene.attached(&name).await?;
    scene.detach(&name).await?;
    scene.detached(&name).await
}

fn merge(object: &mut Value, fields: &Value) {
    for (key, value) in fields.as_object().into_iter().flatten() {
        object[key] = value.clone();
    }
}

/// The fields of each manager under its name: their order tells who came first within a second.
fn by_manager(mut object: Value) -> Value {
    let Some(managers) = object.pointer_mut("/metadata/managedFields") else { return object };
    let mut fields: BTreeMap<String, Value> = BTreeMap::new();
    for manager in managers.as_array().into_iter().flatten() {
        let text = |key: &str| manager[key].as_str().unwrap_or_default();
        let key = format!("{} {} {}", text("manager"), text("operation"), text("subresource"));
        fields.insert(key, manager["fieldsV1"].clone());
    }
    *managers = json!(fields);
    object
}
