//! One setup with one resizer: everything it left behind, as JSON with the names of the run taken out.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use e2e::attach_scene::driver_name;
use e2e::resize_scene::ResizeScene;
use e2e::{Cluster, audit};
use futures_util::future::try_join_all;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::life::{Life, live, prepare};
use super::scenarios::Setup;
use crate::site::Side;
use crate::stand_ins::replaced;

/// By name of scenario, and one document more, `process`, for what belongs to none.
pub(super) async fn observe(setup: &Setup, side: Side) -> Result<BTreeMap<String, Value>> {
    let cluster = Cluster::shared_with_audit().await?;
    let purpose = format!("resize-{}-{}", setup.name, if side == Side::Go { "go" } else { "ours" });
    let driver = setup.driver_name.map_or_else(|| driver_name(&purpose), str::to_owned);
    let scene = ResizeScene::start_for(cluster, &driver, &purpose, setup.driver).await?;
    if setup.secrets_allowed {
        cluster.grant_secrets(&scene.account).await?;
    }
    scene.add_attributes_class("silver", &json!({ "iops": "100" })).await?;
    scene.add_attributes_class("gold", &json!({ "iops": "700", "throughput": "5" })).await?;
    scene.add_attributes_class("unknown", &json!({ "colour": "blue" })).await?;
    let prepared = setup.scenarios.iter().map(|scenario| prepare(&scene, scenario));
    let handles = try_join_all(prepared).await?;
    let settings = super::settings(&scene, side).await?;
    let mut resizer = setup.flags.iter().fold(settings, |settings, flag| settings.flag(flag)).start()?;
    super::works(&mut resizer, side).await?;
    let lives = setup.scenarios.iter().zip(&handles).map(|(scenario, handle)| live(&scene, scenario, handle));
    let lives = try_join_all(lives).await.with_context(|| resizer.process().tail())?;
    let requests = cluster.audit()?.into_iter().filter(|request| request.caller.0 == scene.namespace).collect();
    let observations = Observations { scene, requests };
    let mut documents = BTreeMap::new();
    for life in &lives {
        documents.insert(life.scenario.name.to_owned(), observations.document(life).await?);
    }
    documents.insert("process".to_owned(), observations.process());
    Ok(documents)
}

struct Observations {
    scene: ResizeScene,
    requests: Vec<audit::Request>,
}

impl Observations {
    async fn document(&self, life: &Life<'_>) -> Result<Value> {
        // Events are compared by what they say.
        let about = |request: &&audit::Request| request.resource != "events" && life.is(&self.scene, &request.name);
        let document = json!({
            "at most": life.scenario.calls,
            "seen": life.seen,
            "calls": self.calls(life)?,
            "events": events(&self.scene.events(life.scenario.name).await?),
            "requests": counted(self.requests.iter().filter(about)),
        });
        Ok(self.without_names(&document, &life.handle))
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
        let described = |(requests, codes, count)| json!({ "requests": requests, "codes": codes, "count": count });
        Ok(calls.into_iter().map(|(rpc, calls)| (rpc, described(calls))).collect())
    }

    /// The verbs of requests that are about no one object of this site, without their number: it depends on the time. All claims
    /// of the cluster are seen, and the volume of each that is to grow may be looked at.
    fn process(&self) -> Value {
        let asked = self.requests.iter().filter(|request| request.resource != "events" && request.name.is_empty());
        let asked: BTreeMap<String, BTreeSet<u16>> = asked.fold(BTreeMap::new(), |mut asked, request| {
            asked.entry(format!("{} {}", request.verb, request.resource)).or_default().insert(request.code);
            asked
        });
        self.without_names(&json!({ "requests": asked }), "")
    }

    fn without_names(&self, document: &Value, handle: &str) -> Value {
        let names = [
            (self.scene.driver.name().to_owned(), "DRIVER"),
            (self.scene.namespace.clone(), "SITE"),
            (handle.to_owned(), "HANDLE"),
        ];
        let names: Vec<_> =
            names.into_iter().filter(|(name, _)| !name.is_empty()).map(|(name, to)| (name, to.to_owned())).collect();
        replaced(&without_times(document), &names)
    }
}

/// By type and reason: who says it of what, and each distinct text.
fn events(events: &[Event]) -> Value {
    let mut told: BTreeMap<String, (Value, BTreeSet<String>)> = BTreeMap::new();
    for event in events {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        let mut about = json!(event.involved_object);
        if let Some(about) = about.as_object_mut() {
            about.remove("resourceVersion");
            about.remove("uid");
        }
        let from = json!({ "about": about, "source": event.source, "reporting component": event.reporting_component });
        let key = format!("{} {}", text(&event.type_), text(&event.reason));
        told.entry(key).or_insert_with(|| (from, BTreeSet::new())).1.insert(text(&event.message));
    }
    told.into_iter().map(|(key, (from, texts))| (key, json!({ "from": from, "texts": texts }))).collect()
}

/// By verb and resource: how often, and the codes answered.
fn counted<'a>(requests: impl Iterator<Item = &'a audit::Request>) -> Value {
    let mut counted: BTreeMap<String, (usize, BTreeSet<u16>)> = BTreeMap::new();
    for request in requests {
        let (count, codes) = counted.entry(format!("{} {}", request.verb, request.resource)).or_default();
        *count += 1;
        codes.insert(request.code);
    }
    let described = |(count, codes)| json!({ "count": count, "codes": codes });
    counted.into_iter().map(|(key, counts)| (key, described(counts))).collect()
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
