//! One setup with one attacher: everything it left behind, as JSON with the names of the run taken out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::attach_scene::AttachScene;
use e2e::controller_calls::Access;
use e2e::{Cluster, audit, eventually};
use futures_util::future::try_join_all;
use k8s_openapi::api::core::v1::{PersistentVolume, Secret};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use super::scenarios::{Course, Missing, Scenario, Setup};
use crate::site::{PATIENCE, Side};
use crate::stand_ins::replaced;

/// Keeps objects for the eyes of a scenario.
const FOREIGN: &str = "outrigger.dev/held";
/// An attachment that comes last: what was asked for before it is done when it has gone.
const FENCE: &str = "fence";
const FINALIZER_AT: &str = "/metadata/finalizers/";

/// What is known of one scenario when it is over.
struct Life<'a> {
    scenario: &'a Scenario,
    /// Empty where no volume was made at the driver.
    handle: String,
    /// Objects at the moments worth looking at.
    seen: BTreeMap<&'static str, Value>,
}

/// By name of scenario, and one document more, `process`, for what belongs to none.
pub(super) async fn observe(setup: &Setup, side: Side) -> Result<BTreeMap<String, Value>> {
    let cluster = Cluster::shared_with_audit().await?;
    let purpose = format!("{}-{}", setup.name, if side == Side::Go { "go" } else { "ours" });
    let scene = AttachScene::start(cluster, &purpose, setup.driver).await?;
    if setup.secrets_allowed {
        cluster.grant_secrets(&scene.account).await?;
        crate::site::may_read_secrets(&scene.client, &scene.account).await?;
    }
    for scenario in &setup.scenarios {
        prepare(&scene, scenario).await?;
    }
    scene.add_volume(FENCE, &json!({ "accessModes": ["ReadWriteMany"] }), &json!({})).await?;
    let settings = super::settings(&scene, side).await?;
    let mut attacher = setup.flags.iter().fold(settings, |settings, flag| settings.flag(flag)).start()?;
    super::works(&mut attacher, side).await?;
    let lives = try_join_all(setup.scenarios.iter().map(|scenario| live(&scene, scenario))).await;
    let lives = lives.with_context(|| attacher.process().tail())?;
    fence(&scene).await.with_context(|| attacher.process().tail())?;
    let requests = cluster.audit()?.into_iter().filter(|request| request.caller.0 == scene.namespace).collect();
    let observations = Observations { scene, requests };
    let mut documents = BTreeMap::new();
    for life in &lives {
        documents.insert(life.scenario.name.to_owned(), observations.document(life)?);
    }
    documents.insert("process".to_owned(), observations.process(&lives));
    Ok(documents)
}

/// What is there before the attacher starts.
async fn prepare(scene: &AttachScene, scenario: &Scenario) -> Result<()> {
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

fn second(name: &str) -> String {
    format!("{name}-2")
}

async fn live<'a>(scene: &AttachScene, scenario: &'a Scenario) -> Result<Life<'a>> {
    let mut life = Life { scenario, handle: String::new(), seen: BTreeMap::new() };
    let lived = life.live(scene).await;
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
                return self.end(scene).await;
            }
            Course::Cured(Missing::Volume) => self.handle = self.make_at_driver(scene).await?,
            _ => self.add_volume(scene).await?,
        }
        self.run(scene).await
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
                scene.attach(name, name, name).await?;
            }
            Course::TwoNodes => {
                scene.attach(&second(name), name, &second(name)).await?;
                scene.attach(name, name, name).await?;
                scene.attached(&second(name)).await?;
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
        self.end(scene).await
    }

    /// What happens while it is attached.
    async fn meanwhile(&mut self, scene: &AttachScene) -> Result<()> {
        let name = self.scenario.name;
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
                scene.add_volume_object(name, &self.handle, &self.scenario.volume, &self.source(scene)).await
            }
            Missing::Node => scene.add_node(name, &node_id(name)).await,
            Missing::DriverOnNode => {
                scene.remove_node(name).await?;
                scene.add_node(name, &node_id(name)).await
            }
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
    fn is(&self, scene: &AttachScene, name: &str) -> bool {
        let own = self.scenario.name;
        [scene.name(own), scene.name(&second(own)), own.to_owned()].iter().any(|candidate| candidate == name)
    }
}

/// A volume attached to a new node and detached by the attacher, which takes longer than what it has already begun and seen.
async fn fence(scene: &AttachScene) -> Result<()> {
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

struct Observations {
    scene: AttachScene,
    requests: Vec<audit::Request>,
}

impl Observations {
    fn document(&self, life: &Life<'_>) -> Result<Value> {
        // The list of finalizers was another when the patch arrived: other controllers keep theirs there.
        let outrun =
            |request: &audit::Request| request.resource == "persistentvolumes" && [404, 422].contains(&request.code);
        let about = |request: &&audit::Request| life.is(&self.scene, &request.name) && !outrun(request);
        let requests = self.requests.iter().filter(about);
        let document = json!({
            "at most": life.scenario.calls,
            "seen": life.seen,
            "left at the driver": if life.handle.is_empty() { Vec::new() } else { self.scene.published_to(&life.handle)? },
            "calls": self.calls(life)?,
            "requests": self.counted(life, requests),
        });
        let document = self.without_names(&document, &life.handle);
        // Another controller takes its finalizer off at the same time.
        let certain = matches!(life.scenario.course, Course::VolumeFirst | Course::TwoNodes);
        Ok(if certain {
            document
        } else {
            replaced(&document, &[(format!("{FINALIZER_AT}1"), format!("{FINALIZER_AT}0"))])
        })
    }

    /// By verb, resource and object: how often, the codes answered, and each distinct body in its order.
    fn counted<'a>(&self, life: &Life<'_>, requests: impl Iterator<Item = &'a audit::Request>) -> Value {
        #[derive(Default)]
        struct Counted {
            count: usize,
            codes: BTreeSet<u16>,
            bodies: Vec<Value>,
        }
        let second = self.scene.name(&second(life.scenario.name));
        let mut counted: BTreeMap<String, Counted> = BTreeMap::new();
        for request in requests {
            let which = if request.name == second { "second " } else { "" };
            let of = counted.entry(format!("{} {which}{}", request.verb, request.resource)).or_default();
            of.count += 1;
            of.codes.insert(request.code);
            let body = without_times(&request.body);
            if !body.is_null() && !tells_nothing(&body) && !of.bodies.contains(&body) {
                of.bodies.push(body);
            }
        }
        let described = |of: Counted| json!({ "count": of.count, "codes": of.codes, "bodies": of.bodies });
        counted.into_iter().map(|(key, of)| (key, described(of))).collect()
    }

    /// What the driver was asked: each distinct request, how often, and the codes it answered.
    fn calls(&self, life: &Life<'_>) -> Result<Value> {
        let mut calls: BTreeMap<String, (Vec<Value>, Vec<String>, usize)> = BTreeMap::new();
        for call in self.scene.calls_about(&life.handle)? {
            let (requests, codes, count) = calls.entry(call.rpc).or_default();
            *count += 1;
            if !requests.contains(&call.request) {
                requests.push(call.request);
            }
            if codes.last() != Some(&call.code) {
                codes.push(call.code);
            }
        }
        // Two nodes are asked for at once.
        calls.values_mut().for_each(|(requests, ..)| requests.sort_by_key(Value::to_string));
        let described = |(requests, codes, count)| json!({ "requests": requests, "codes": codes, "count": count });
        Ok(calls.into_iter().map(|(rpc, calls)| (rpc, described(calls))).collect())
    }

    /// The verbs of requests that are about none of the scenarios, without their number: it depends on the time.
    fn process(&self, lives: &[Life<'_>]) -> Value {
        let fence = format!("{FENCE}-");
        let of_one = |request: &audit::Request| {
            request.name.starts_with(&fence)
                || request.name == self.scene.name(FENCE)
                || lives.iter().any(|life| life.is(&self.scene, &request.name))
        };
        let rest = self.requests.iter().filter(|request| !of_one(request));
        let asked: BTreeMap<String, BTreeSet<u16>> = rest.fold(BTreeMap::new(), |mut asked, request| {
            asked.entry(format!("{} {}", request.verb, request.resource)).or_default().insert(request.code);
            asked
        });
        self.without_names(&json!({ "requests": asked }), "")
    }

    fn without_names(&self, document: &Value, handle: &str) -> Value {
        let driver = self.scene.driver.name();
        let names = [
            (driver.to_owned(), "DRIVER"),
            (driver.replace('.', "-"), "DRIVER-WITH-DASHES"),
            (self.scene.namespace.clone(), "SITE"),
            (handle.to_owned(), "HANDLE"),
        ];
        let names: Vec<_> =
            names.into_iter().filter(|(name, _)| !name.is_empty()).map(|(name, to)| (name, to.to_owned())).collect();
        replaced(&without_times(document), &names)
    }
}

/// Patches without effect, or with nothing but a new time: that they come depends on the caches of the Go attacher.
fn tells_nothing(body: &Value) -> bool {
    let time = json!({ "time": "TIME" });
    [json!({}), json!({ "status": { "attachError": time } }), json!({ "status": { "detachError": time } })]
        .contains(body)
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

/// Times to the second in their form, as the API has them.
fn without_times(value: &Value) -> Value {
    match value {
        Value::String(text) if text.len() == 20 && text.ends_with('Z') && text.parse::<Timestamp>().is_ok() => {
            json!("TIME")
        }
        Value::Array(values) => values.iter().map(without_times).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), without_times(value))).collect(),
        other => other.clone(),
    }
}
